"""The ledger: what counts as drift, what the file holds, and that the repository's is whole and current."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.executors.lanes import RULES, parse_rule
from tests.validation.stub import StubCard, StubExecutor
from validation.__main__ import main
from validation.ledger import ledger, slack_statistics
from validation.ledger.ledger import FACTOR, KEPT, RESOLUTION, Ledger, drifted
from validation.ledger.slack_statistics import Family
from validation.numerics.tensorcore_rules import DEFAULT_RULE
from validation.operations import registry
from validation.run.plan import SEED

KEY = ("prompt_attention/q4_0/sm80", "uniform")
#: Figures that the reference resolves, far from the ends of float64.
figures = st.floats(2 * FACTOR * RESOLUTION, 1e6)
#: Just inside and just outside a factor, by more than the roundings of the comparison.
INSIDE, OUTSIDE = 1 - 2.0**-40, 1 + 2.0**-40


@given(figures)
def test_drift_is_what_leaves_the_factor_either_way(then: float) -> None:
    for sign in (1, -1):
        assert not ledger.drifted(then * (FACTOR * INSIDE) ** sign, then)
        assert ledger.drifted(then * (FACTOR * OUTSIDE) ** sign, then)
    assert not ledger.drifted(then, then)


@given(st.floats(0, 1e6))
def test_zero_stays_zero(now: float) -> None:
    assert ledger.drifted(now, 0.0) == (now > RESOLUTION)
    assert ledger.drifted(0.0, now) == (now > FACTOR * RESOLUTION)


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf, -1.0])
@given(st.one_of(figures, st.just(0.0)))
def test_what_is_no_figure_never_passes(broken: float, other: float) -> None:
    assert ledger.drifted(broken, other)
    assert ledger.drifted(other, broken)
    assert ledger.drifted(broken, broken)


def test_a_family_is_compared_figure_by_figure() -> None:
    then = Family(2, "d", {"bound max": 0.5, "mean max": 0.5})
    assert list(ledger.compare(KEY, then, then)) == []
    for now in (
        Family(2, "d", {"bound max": 0.5, "mean max": 0.5 * FACTOR * FACTOR}),
        Family(2, "d", {"bound max": 0.5}),
        Family(2, "d", {"bound max": 0.5, "mean max": 0.5, "gate 1 max": 0.0}),
        Family(2, "e", then.figures),
        Family(3, "d", then.figures),
    ):
        (drift,) = ledger.compare(KEY, now, then)
        assert all(word in drift.text() for word in KEY)
    (missing,) = ledger.compare(KEY, then, None)
    assert "no figures of these cases" in missing.text()


names = st.text(alphabet='ab/ "\\é', min_size=1, max_size=5)
family = st.builds(Family, st.integers(1, 9), names, st.dictionaries(names, st.floats(0, 1e300), max_size=3))
sections = st.dictionaries(
    st.tuples(names, st.sampled_from(KEPT)),
    st.dictionaries(st.tuples(names, names), family, min_size=1, max_size=3),
    max_size=3,
)


@given(sections, st.lists(st.dictionaries(names, names), max_size=3))
def test_the_file_says_what_the_ledger_holds(held: dict[Any, dict[Any, Family]], history: list[dict[str, str]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "ledger.json")
        ledger.save(Ledger(held, history), file)
        first = file.read_bytes()
        got = ledger.load(file)
        ledger.save(got, file)
        assert file.read_bytes() == first
        assert [path.name for path in Path(directory).iterdir()] == [file.name]
    assert list(got.history) == history
    assert got.sections == {
        key: {name: ledger.rounded(one) for name, one in section.items()} for key, section in held.items()
    }
    # The order in which things were put in does not show.
    backwards = {key: dict(reversed(section.items())) for key, section in reversed(held.items())}
    assert ledger.text(Ledger(backwards, history)).encode() == first


def test_rounding_moves_a_figure_far_less_than_the_factor() -> None:
    kept = ledger.rounded(Family(1, "d", {"bound max": 0.123456789, "none": 0.0}))
    assert abs(kept.figures["bound max"] / 0.123456789 - 1) < (FACTOR - 1) / 100
    assert kept.figures["none"] == 0.0


def _file(**changes: Any) -> str:
    entry = {"cases": 1, "digest": "d", "figures": {"bound max": 0.5}} | changes
    return json.dumps({"schema": ledger.SCHEMA, "history": [], "rules": {"sm_90": {"quick": {"p": {"r": entry}}}}})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"schema": "another/1"}',
        json.dumps({"schema": ledger.SCHEMA, "history": []}),
        json.dumps({"schema": ledger.SCHEMA, "history": [], "rules": {"sm_90": {"huge": {}}}}),
        json.dumps({"schema": ledger.SCHEMA, "history": [], "rules": []}),
        _file(figures={"bound max": math.nan}),
        _file(figures={"bound max": "0.5"}),
        _file(figures={"bound max": -0.5}),
        _file(figures={"bound max": True}),
        _file(cases=0),
        _file(digest=None),
        "\udcff",
    ],
)
def test_a_corrupt_file_is_one_clear_line_and_exit_2(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ledger.json"
    file.write_text(text, errors="surrogateescape")
    monkeypatch.setattr(ledger, "FILE", file)
    with pytest.raises(StrataError, match="slack ledger"):
        ledger.load(file)
    for words in (["ledger"], ["parity", "--executor", "lanes", "--case", "recipe=flat seed=1 context=4 queries=1"]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert str(file) in said


def test_a_missing_file_is_told() -> None:
    with pytest.raises(StrataError, match="No such file"):
        ledger.load(Path("/nonexistent/ledger.json"))


def test_rules_have_one_name_each() -> None:
    class Lanes(StubExecutor):
        def __init__(self, rule: str) -> None:
            super().__init__()
            self.rule = parse_rule(rule)

    for name, rule in RULES.items():
        said = ledger.rule_name(Lanes(name))
        assert said is not None
        assert parse_rule(said) == rule
    assert ledger.rule_name(Lanes("16,25")) == ledger.rule_name(StubCard()) == DEFAULT_RULE
    assert ledger.rule_name(StubCard(capability=33)) is None


def test_the_repositorys_ledger_holds_every_family_of_its_profiles_and_no_other() -> None:
    held = ledger.load()
    assert (DEFAULT_RULE, "quick") in held.sections
    for (rule, profile), section in held.sections.items():
        parse_rule(rule)
        plan = slack_statistics.planned(profile, SEED)
        assert {key: one.digest for key, one in section.items()} == plan, (
            f"{rule} {profile}: run `parity --profile {profile} --paths '*' --rule {rule} --out DIR` and accept it"
        )
        # Cases of which no pair names an expert, or none is finite at decode width, have bits alone, as have choices,
        # rows whose weights are not finite, and sums at the ends of the range.
        bits_alone = {recipe for (_, recipe), one in section.items() if not one.figures}
        chosen = {recipe.name for kind in ("block_topk", "visible_cells") for recipe in registry.of_kind(kind)}
        assert (
            bits_alone
            <= {
                *(
                    "experts_nobody",
                    "experts_stray",
                    "experts_faint",
                    "experts_one_sided",
                    "rms_weights",
                    "residual_ends",
                )
            }
            | chosen
        )
    assert ledger.text(held) == ledger.FILE.read_text(encoding="utf-8")
    assert all(entry["reason"] and entry["date"] for entry in held.history)


def test_outputs_of_zeros_are_kept_as_zeros() -> None:
    for section in ledger.load().sections.values():
        for (_, recipe), one in section.items():
            if recipe in ("all_absent", "zeros"):
                assert set(one.figures.values()) == {0.0}


def test_an_error_that_doubles_is_told() -> None:
    """What the factor is for: a lost bit doubles an error, and no figure may take that for luck."""
    assert 1 < FACTOR < 2
    assert drifted(2e-3, 1e-3)
    assert drifted(1e-3, 2e-3)
