"""The kill matrix and the fewest checks."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.mutants import matrix
from validation.mutants.mutant import Mutant
from validation.mutants.trial import Kill, Outcome


def killed(name: str, *checks: str, passes: tuple[bool, bool] = (True, False)) -> Outcome:
    usual = {"nmse": 0.0, "nmse_passes": passes[0], "allclose_passes": passes[1]}
    return Outcome(name, "killed", Kill(checks, "EXCEEDS", "where", "why"), usual)


OUTCOMES = [
    killed("one", "bound", "mean"),
    killed("two", "bound"),
    killed("three", "run", passes=(False, False)),
    Outcome("four", "killed", Kill(("test test_a",), "FAILED", "tests/a.py::test_a", "no")),
    Outcome("five", "survived", None, {"nmse": 0.0, "nmse_passes": True, "allclose_passes": True}),
    Outcome("six", "error", note="does not compile"),
    Outcome("seven", "device", note="Only a card."),
]


def test_columns_go_by_how_many_mutants_failed_them() -> None:
    assert matrix.columns(OUTCOMES) == ["bound", "mean", "run", "test"]
    assert matrix.column("control within/nan") == "control"
    assert matrix.column("law permuted pages") == "law permuted pages"


def test_the_summary_counts() -> None:
    first, checks, usual = matrix.summary(OUTCOMES)
    assert first == "7 mutants: 4 killed, 1 survived, 1 could not be judged, 1 need a device"
    assert checks.endswith("bound, run, test (3)")
    assert "of 4 mutants" in usual
    assert "NMSE <= 5e-4 lets 3 through, allclose(1e-2) 1, both together 1" in usual


@given(st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), min_size=1, max_size=8))
def test_the_fewest_checks_are_a_cover_and_none_is_smaller(kills: list[set[str]]) -> None:
    chosen = set(matrix.minimal_checks([killed(str(i), *sorted(kill)) for i, kill in enumerate(kills)]))
    assert all(kill & chosen for kill in kills)
    smaller = combinations("abcdef", len(chosen) - 1)
    assert not any(all(kill & set(some) for kill in kills) for some in smaller)


def test_many_checks_are_still_covered() -> None:
    """Above the exhaustive limit: a chain of pairs that no single check covers."""
    chain = [killed(str(i), f"c{i:02}", f"c{i + 1:02}") for i in range(30)]
    chosen = set(matrix.minimal_checks(chain))
    assert all(set(one.kill.checks) & chosen for one in chain if one.kill)


def test_nothing_killed_needs_no_check() -> None:
    assert matrix.minimal_checks(OUTCOMES[4:]) == []


def test_the_report_holds_every_mutant() -> None:
    table = {one.name: Mutant(one.name, "f.py", "a", "b", f"{one.name} is wrong.") for one in OUTCOMES}
    text = matrix.markdown(OUTCOMES, table)
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines() if line.startswith("| ")}
    assert set(table) <= set(rows)
    assert "| two | a | passes | refuses | - |" in text
    assert "| five |  | passes | passes | - |" in text
    assert "| four | d | - | - | - |" in text
    assert "SURVIVED" in rows["five"]
    assert "ERROR does not compile" in rows["six"]


@pytest.mark.parametrize("usual", [{}, {"nmse": None, "nmse_passes": False, "allclose_passes": False}])
def test_what_was_not_judged_is_a_dash(usual: dict[str, object]) -> None:
    words = matrix.usual_words(Outcome("x", "killed", usual=usual))
    assert words == (("refuses", "refuses", "-") if usual else ("-", "-", "-"))


def test_mutants_of_experts_have_limits_on_rows() -> None:
    usual = {"nmse": 1e-5, "nmse_passes": True, "rows_passes": False}
    outcomes = [*OUTCOMES, Outcome("eight", "killed", Kill(("bits",), "EXCEEDS", "where", "why"), usual)]
    assert matrix.usual_words(outcomes[-1]) == ("passes", "-", "refuses")
    *_, others, experts = matrix.summary(outcomes)
    assert "of 4 mutants" in others
    assert experts.startswith("of 1 mutants of expert kernels")
    assert "lets 1 through, RMS <= 2e-3 with 3e-2 in the worst row 0, both together 0" in experts
