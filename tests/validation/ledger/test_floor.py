"""The floor: what vanishes is said by name, more is fine, and only a reason lowers it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.kernels.paths import PATHS
from validation.__main__ import main
from validation.controls import floors, self_test
from validation.ledger import command as ledger_command
from validation.ledger import floor, ledger
from validation.ledger.floor import Floor, missing, standing, updated
from validation.ledger.ledger import Ledger
from validation.operations.attention import metamorphic, plan
from validation.operations.kv_pack import plan as pack_plan
from validation.operations.router import plan as router_plan
from validation.run import plan as profiles

NAMES = st.dictionaries(st.sampled_from("abc"), st.sets(st.sampled_from("123"), min_size=1).map(frozenset), max_size=3)


def wrong() -> list[str]:
    """What is said of the sections that do not stand."""
    controls = [one for one in floors.standing({}) if one.name != "floor/controls"]
    return [said for one in controls if (said := one.ask()) != one.expected]


def test_the_file_is_what_there_is() -> None:
    """Whatever is added belongs to the floor: `python -m validation floor --update` writes it."""
    held = floor.load()
    assert floor.text(Floor(floor.present(self_test.names()), held.lowered)) == floor.FILE.read_text()
    assert wrong() == []


@given(NAMES, NAMES)
def test_missing_is_what_is_held_and_not_there(held: floor.Names, now: floor.Names) -> None:
    gone = {(key, name) for key, names in held.items() for name in names - now.get(key, frozenset())}
    lines = missing(held, now)
    assert {line.partition(":")[0] for line in lines} == {key for key, _ in gone}
    for key, name in gone:
        (line,) = [line for line in lines if line.startswith(f"{key}: ")]
        assert name in line or line == f"{key}: all of {len(held[key])}"


@given(NAMES, NAMES)
def test_updating_raises_always_and_lowers_with_a_reason(held: floor.Names, now: floor.Names) -> None:
    before = Floor({"plan": held}, [{"reason": "then"}])
    gone = missing(held, now)
    if gone:
        with pytest.raises(StrataError, match="would go from the floor, expected --reason TEXT"):
            updated(before, {"plan": now}, "", "today")
    after = updated(before, {"plan": now}, "it was a twin" if gone else "", "today")
    assert after.sections == {"plan": now}
    assert after.lowered[0] == {"reason": "then"}
    said = [{"date": "today", "reason": "it was a twin", "gone": [f"plan: {line}" for line in gone]}] if gone else []
    assert list(after.lowered[1:]) == said


@given(st.sets(st.sampled_from(list(PATHS)), min_size=1))
def test_patterns_of_paths_give_just_those(chosen: set[str]) -> None:
    names, paths = frozenset(chosen), frozenset(PATHS)
    assert floor._expanded(floor._patterns(names, paths), list(PATHS)) == names


def test_all_paths_of_an_operation_or_mode_are_one_pattern() -> None:
    paths = frozenset(PATHS)
    chosen = {path for path in paths if path.startswith("decode_attention/")} | {
        f"prompt_attention/q4_0/{tier}" for tier in ("sm75", "sm80")
    }
    assert floor._patterns(frozenset(chosen), paths) == ["decode_attention/*", "prompt_attention/q4_0/*"]


def test_a_recipe_taken_out_of_quick_is_missed_by_name() -> None:
    held = floor.load()
    whole = held.sections["plan quick"]
    for recipe in {entry.case.recipe for entry in profiles.entries(1, "quick", list(PATHS.values()))}:
        fewer = {key: names for key, names in whole.items() if f" recipe={recipe} " not in key}
        said = standing("plan quick", lambda fewer=fewer: fewer, lambda: held)  # type: ignore[misc]
        assert said.startswith("plan quick lacks ")
        assert f" recipe={recipe} " in said
        assert "floor --update --reason TEXT" in said


def _but_the_last(names: Mapping[str, metamorphic.Relation]) -> dict[str, metamorphic.Relation]:
    return dict(list(names.items())[:-1])


#: What vanishes, and the sections that say so.
VANISHED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], set[str]]] = {
    "a law": (lambda patch: patch.setattr(metamorphic, "RELATIONS", _but_the_last(metamorphic.RELATIONS)), {"laws"}),
    "sizes that a record must hold": (
        lambda patch: patch.setattr(plan, "REQUIRED", plan.REQUIRED[:1]),
        {"plan of records"},
    ),
    "page sizes of packing": (
        lambda patch: patch.setattr(pack_plan, "PAGE_SIZES", pack_plan.PAGE_SIZES[:-1]),
        {"plan quick", "plan standard", "plan full"},
    ),
    "cases of the router": (
        lambda patch: patch.setattr(router_plan, "planned", lambda *_: []),
        {"plan quick", "plan standard", "plan full"},
    ),
}


@pytest.mark.parametrize("what", VANISHED)
def test_what_plans_are_made_of_is_missed(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remove, sections = VANISHED[what]
    remove(monkeypatch)
    assert {said.partition(" lacks ")[0] for said in wrong()} == sections


def without(held: Ledger, recipe: str) -> Ledger:
    return Ledger(
        {
            rule: {key: family for key, family in section.items() if key[1] != recipe}
            for rule, section in held.sections.items()
        },
        held.history,
    )


def test_families_that_the_ledger_lost_are_missed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fewer = without(ledger.load(), "flat")
    monkeypatch.setattr(ledger, "load", lambda *_: fewer)
    (said,) = wrong()
    assert said.startswith("ledger lacks sm_90 quick flat: all of ")
    lines = list(ledger_command.lacking(fewer))
    assert any("flat: planned by profile quick, and rule sm_90 has no figures of it" in line for line in lines)
    assert any(line.startswith("ledger: missing that was there: sm_90 quick flat: all of ") for line in lines)


def test_families_that_are_planned_no_more_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = plan._attention_names()
    monkeypatch.setattr(plan, "_attention_names", lambda: [name for name in names if name != "flat"])
    lines = list(ledger_command.lacking(ledger.load()))
    assert "ledger: prompt_attention/q4_0/sm80 flat: profile quick plans it no more" in lines


def test_the_ledger_command_says_what_is_missing_and_exits_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fewer = without(ledger.load(), "flat")
    monkeypatch.setattr(ledger, "load", lambda *_: fewer)
    assert main(["ledger"]) == 1
    assert "flat: planned by profile quick" in capsys.readouterr().out


def test_more_than_the_floor_is_fine() -> None:
    held = Floor({"plan": {"a": frozenset("1")}})
    now = {"a": frozenset("12"), "b": frozenset("3")}
    assert standing("plan", lambda: now, lambda: held) == floor.WHOLE
    assert standing("other", lambda: now, lambda: held).startswith("other is not in the floor")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A floor of its own, of which the repository has one control less."""
    held = floor.load()
    more = {**held.sections["controls"], "seeds": held.sections["controls"]["seeds"] | {"seeds/another"}}
    path = tmp_path / "floor.json"
    floor.save(Floor({**held.sections, "controls": more}), path)
    monkeypatch.setattr(floor, "FILE", path)
    return path


def test_the_command_says_what_is_missing_and_lowers_with_a_reason(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["floor"]) == 1
    assert "missing from controls: seeds: seeds/another" in capsys.readouterr().out
    before = file.read_text()
    for words in (["--update"], ["--update", "--reason", " "], ["--reason", "a twin"]):
        assert main(["floor", *words]) == 2
    assert file.read_text() == before
    assert main(["floor", "--update", "--reason", "a twin of another"]) == 0
    assert main(["floor"]) == 0
    (entry,) = json.loads(file.read_text())["lowered"]
    assert (entry["reason"], entry["gone"]) == ("a twin of another", ["controls: seeds: seeds/another"])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "strata-floor/2", "lowered": [], "sections": {}}'])
def test_a_file_that_is_no_floor_is_refused_in_a_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "floor.json"
    path.write_text(text)
    with pytest.raises(StrataError, match="floor") as caught:
        floor.load(path)
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(StrataError, match="cannot be read: No such file"):
        floor.load(tmp_path / "none.json")
