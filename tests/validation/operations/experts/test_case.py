"""Expert cases as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.core.case import CaseError
from validation.operations.experts.case import FF, ExpertCase, N
from validation.operations.experts.recipes import RECIPES
from validation.operations.kv_pack.case import Case
from validation.operations.registry import parse

CASES = st.builds(
    ExpertCase,
    st.sampled_from(sorted(RECIPES)),
    st.integers(0, (1 << 64) - 1),
    st.integers(1, 1 << 20),
    st.integers(1, 1024),
    st.integers(1, 64),
    st.integers(1, 200).map(lambda k: 256 * k),
    st.integers(1, 200).map(lambda k: 64 * k),
)


@given(CASES)
def test_text_is_read_back(case: ExpertCase) -> None:
    assert ExpertCase.parse(case.text()) == parse(case.text()) == case
    assert parse(case.brief()) == case
    assert case.pairs == case.tokens * case.top


def test_the_model_s_sizes_may_be_left_out() -> None:
    case = ExpertCase("experts_plain", 1, 3, 4, 2)
    assert (case.n, case.ff) == (N, FF)
    assert case.brief() == "recipe=experts_plain seed=1 tokens=3 experts=4 top=2"


def test_attention_cases_keep_their_form() -> None:
    text = "recipe=uniform seed=7 context=64 queries=8 page=4 kv=2 group=12 top=2051"
    assert parse(text) == Case.parse(text)
    assert Case.parse(text).text() == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("recipe=experts_plain seed=1 tokens=3 experts=4", "top is missing"),
        ("seed=1 tokens=3 experts=4 top=2", "recipe is missing"),
        ("recipe=experts_plain seed=1 tokens=0 experts=4 top=2", "tokens is 0, expected 1.."),
        ("recipe=experts_plain seed=1 tokens=3 experts=1025 top=2", "experts is 1025, expected 1..1024"),
        ("recipe=experts_plain seed=1 tokens=3 experts=4 top=2 n=300", "n is 300, expected a multiple of 256"),
        ("recipe=experts_plain seed=1 tokens=3 experts=4 top=2 ff=96", "ff is 96, expected a multiple of 64"),
        ("recipe=experts_plain seed=one tokens=3 experts=4 top=2", "seed is 'one'"),
        ("recipe=experts_plain seed=1 token=3 experts=4 top=2", "unknown key 'token'; the nearest is 'tokens'"),
        (
            f"recipe=experts_plain seed={'7' * 5000} tokens=3 experts=4 top=2",
            "seed is '7+...': expected a whole number of 0 to 18446744073709551615",
        ),
        ("recipe=experts_plain seed=1 seed=2 tokens=3 experts=4 top=2", "seed is said twice"),
        ("recipe=experts_plain seed=1 tokens= experts=4 top=2", "not of the form key=value"),
    ],
)
def test_bad_text_names_the_value(text: str, said: str) -> None:
    with pytest.raises(CaseError, match=said):
        parse(text)
