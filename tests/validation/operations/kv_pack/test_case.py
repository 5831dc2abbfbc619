"""The text form of a case is a bijection, and what cannot be a case is refused in one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.core.case import CaseError
from validation.operations.kv_pack.case import Case

CASES = st.builds(
    lambda recipe, seed, context, share, page, kv, group, top, options: Case(
        recipe, seed, context, int(context * share), page, kv, group, top, tuple(sorted(options.items()))
    ),
    recipe=st.sampled_from(["uniform", "captured", "x"]),
    seed=st.integers(0, 2**64 - 1),
    context=st.integers(1, 1 << 24),
    share=st.floats(0, 1 / 16),
    page=st.sampled_from([1, 4, 16, 64]),
    kv=st.integers(1, 8),
    group=st.integers(1, 16),
    top=st.integers(1, 4096),
    options=st.dictionaries(st.sampled_from(["layer", "packer"]), st.sampled_from(["0", "17", "kernel"])),
)


@given(CASES)
def test_text_and_parse_are_inverse(case: Case) -> None:
    assert Case.parse(case.text()) == case
    assert "\n" not in case.text()
    assert "'" not in case.text()


def test_the_text_form_is_the_documented_one() -> None:
    case = Case("uniform", 7, 64, 8)
    assert case.text() == "recipe=uniform seed=7 context=64 queries=8 page=4 kv=2 group=12 top=2051"
    assert Case.parse("recipe=uniform seed=7 context=64 queries=8") == case
    assert Case.parse("queries=8 context=64  seed=7 recipe=uniform page=4") == case


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "recipe is missing"),
        ("recipe=uniform seed=1 context=64", "queries is missing"),
        ("recipe=uniform seed=1 context=0 queries=0", "context is 0, expected 1"),
        ("recipe=uniform seed=1 context=64 queries=65", "queries is 65, expected at most the context of 64"),
        ("recipe=uniform seed=-1 context=64 queries=8", "seed is '-1'"),
        ("recipe=uniform seed=1 context=64 queries=8 pages=4", "unknown key 'pages'; the nearest is 'page'"),
        ("recipe=uniform seed=1 context=64 queries", "'queries' is not of the form key=value"),
        ("recipe=uniform seed=1 context=64 queries=8 page=0", "page is 0, expected 1"),
        ("recipe=uniform seed=1 context=64 queries=8 group=999", "group is 999"),
        ("recipe=uniform seed=1 context=6² queries=8", "context is"),
    ],
)
def test_a_bad_text_names_value_and_expectation(text: str, message: str) -> None:
    with pytest.raises(CaseError) as caught:
        Case.parse(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_are_checked() -> None:
    with pytest.raises(CaseError, match="unknown option 'speed'"):
        Case("captured", 1, 4, 1, options=(("speed", "1"),))
    with pytest.raises(CaseError, match="one word"):
        Case("captured", 1, 4, 1, options=(("layer", "1 2"),))
    with pytest.raises(CaseError, match="sorted"):
        Case("captured", 1, 4, 1, options=(("packer", "gguf"), ("layer", "1")))


def test_streams_differ_by_seed_recipe_and_purpose() -> None:
    case = Case("uniform", 1, 4, 1)
    keys = {
        case.stream("k").key,
        case.stream("v").key,
        Case("uniform", 2, 4, 1).stream("k").key,
        Case("flat", 1, 4, 1).stream("k").key,
    }
    assert len(keys) == 4
    assert case.stream("k") == Case("uniform", 1, 9, 3).stream("k")


@pytest.mark.parametrize(
    ("text", "brief"),
    [
        ("recipe=flat seed=1 context=64 queries=8", "recipe=flat seed=1 context=64 queries=8"),
        (
            "recipe=flat seed=1 context=64 queries=8 page=16 top=9",
            "recipe=flat seed=1 context=64 queries=8 page=16 top=9",
        ),
        (
            "recipe=flat seed=4 context=4 queries=2 page=4 kv=2 group=12 top=2051",
            "recipe=flat seed=4 context=4 queries=2",
        ),
        ("recipe=captured seed=1 context=9 queries=2 layer=4", "recipe=captured seed=1 context=9 queries=2 layer=4"),
    ],
)
def test_the_brief_form_leaves_defaults_out_and_is_the_same_case(text: str, brief: str) -> None:
    case = Case.parse(text)
    assert case.brief() == brief
    assert Case.parse(brief) == case
