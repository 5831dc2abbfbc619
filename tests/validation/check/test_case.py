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
        ("recipe=plain seed=1 rows=2", "width= is missing; expected rows=N width=N"),
        ("recipe=plain seed=1 rows=2 width=3 depth=4", "depth= is no size of rows"),
        ("recipe=plain seed=1 rows=2 width=3 rows=2", "'rows' twice"),
        ("recipe=plain seed=1 rows=2 width=5000", "width=5000: expected 1 to 4096"),
        ("recipe=plain seed=1 rows=0 width=3", "rows=0: expected 1"),
        ("recipe=plain seed=-1 rows=2 width=3", "seed '-1': expected a whole number"),
        ("recipe=plain seed=1 rows=2 width=1_0", "'width' '1_0': expected a whole number"),
        ("recipe=plane seed=1 rows=2 width=3", "a recipe is 'plane', expected one of"),
        ("seed=1 rows=2 width=3", "has no recipe="),
        ("recipe=plain rows=2 width=3", "has no seed="),
        ("recipe=plain seed=1 rows=2 width", "has 'width', expected name=value"),
        ("", "has no recipe="),
    ],
)
def test_what_is_no_case_is_refused(text: str, said: str) -> None:
    with pytest.raises(StrataError, match=said):
        parse(text, KERNEL)
