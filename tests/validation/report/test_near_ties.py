"""Selections that differ are counted on the page, path by path; a page without any has no such part."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.validation.report.evidence import HOSTILE, case, run
from tests.validation.report.test_html import parsed
from validation.report.from_run import of_run
from validation.report.html import page
from validation.report.read import Evidence
from validation.report.source import NearTies
from validation.report.table import near_ties as lines

PATH = "block_select/fp32/simt"
FIGURES = {"compared": 2048, "queries": 3, "cells": 5, "pairs": 4, "unknown": 1362, "nearest": 0.125}


def of(*figures: dict[str, Any] | None) -> list[str]:
    """The text of a page of cases with these figures."""
    cases = []
    for seed, one in enumerate(figures):
        made = case(PATH, seed=seed)
        made["figures"] |= {} if one is None else {"near_ties": one}
        cases.append(made)
    return parsed(page(Evidence([of_run(run(cases), "run.json")]))).text


def test_a_row_has_the_sums_of_a_path_and_the_nearest_pair() -> None:
    text = of(FIGURES, FIGURES | {"queries": 1000, "nearest": 0.5}, None)
    said = [word.strip() for word in text[text.index("no promise") :] if word.strip()]
    assert said[said.index("2", 1) :][:7] == ["2", "4,096", "1,003", "10", "8", "0.50", "2,724"]


def test_the_terminal_has_a_line_for_each_path_that_read_other_cells() -> None:
    results = [{"path": PATH, "figures": {"near_ties": one}} for one in (FIGURES, FIGURES | {"nearest": 0.25})]
    results += [{"path": "other", "figures": {"near_ties": FIGURES | {"queries": 0}}}, {"path": "none", "figures": {}}]
    assert lines(results) == [
        f"{PATH}: 6 of 4,096 queries read other cells than the baseline, 10 of them; 8 pairs of blocks, the nearest"
        " used 0.25 of what the two bounds allow; of 2,724 more, not finite, nothing is promised"
    ]


def test_a_page_without_selections_says_nothing_of_them() -> None:
    assert "Selections" not in of(None)
    assert "Selections" in of(FIGURES)


def ties(value: Any) -> NearTies | None:
    made = case(PATH)
    made["figures"] |= {"near_ties": value}
    return of_run(run([made]), "run.json").cases[0].ties


@pytest.mark.parametrize(
    "value",
    [None, 3, [], HOSTILE, {}, FIGURES | {"cells": HOSTILE}, FIGURES | {"nearest": "x"}, FIGURES | {"pairs": -1}],
)
def test_figures_that_are_none_are_left_out(value: Any) -> None:
    assert ties(value) is None


@given(st.fixed_dictionaries({name: st.integers(0, 1 << 40) for name in FIGURES} | {"nearest": st.floats(0, 2)}))
def test_figures_are_taken_as_they_are(value: dict[str, Any]) -> None:
    assert ties(value) == NearTies(**value)
