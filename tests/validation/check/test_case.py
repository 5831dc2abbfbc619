"""Texts of cases: printing and parsing are inverse, and nothing else is taken for a case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from tests.validation.check.fake import kernel
from validation.check import recipes
from validation.check.case import case_of, parse

KERNEL = kernel().kernel


@given(
    st.sampled_from(list(recipes.RECIPES)),
    st.integers(0, 2**64 - 1),
    st.integers(1, 1 << 16),
    st.integers(1, 1 << 12),
    st.permutations(range(4)),
)
def test_a_text_says_its_case(recipe: str, seed: int, rows: int, width: int, order: list[int]) -> None:
    case = case_of(KERNEL, recipe, seed, {"width": width, "rows": rows})
    assert case.text() == f"recipe={recipe} seed={seed} rows={rows} width={width}"
    words = case.text().split()
    assert parse("  ".join(words[i] for i in order), KERNEL) == case


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("recipe=plain seed=1 rows=2", "width is missing, expected e.g. recipe=plain seed=1 rows=5 width=131"),
        (
            "recipe=plain seed=1 rows=2 width=3 depth=4",
            "unknown key .depth.; expected one of recipe, seed, rows",
        ),
        ("recipe=plain seed=1 rows=2 width=3 rows=2", "rows is said twice, expected once"),
        ("recipe=plain seed=1 rows=2 width=5000", "width is 5000, expected 1..4096"),
        ("recipe=plain seed=1 rows=0 width=3", "rows is 0, expected 1"),
        ("recipe=plain seed=-1 rows=2 width=3", "case: seed is '-1': expected a whole number"),
        ("recipe=plain seed=1 rows=2 width=1_0", "case: width is '1_0': expected a whole number"),
        ("recipe=plane seed=1 rows=2 width=3", "a recipe is 'plane', expected one of"),
        ("seed=1 rows=2 width=3", "recipe is missing"),
        ("recipe=plain rows=2 width=3", "seed is missing"),
        ("recipe=plain seed=1 rows=2 width", "width. is not of the form key=value"),
        ("", "recipe is missing"),
    ],
)
def test_what_is_no_case_is_refused(text: str, said: str) -> None:
    with pytest.raises(StrataError, match=said):
        parse(text, KERNEL)
