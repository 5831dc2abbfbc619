"""Drawn sizes: small, as the kernels take them, and such that every recipe keeps its promises at any of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.kernels.experts import EXPERT_MODES, MAX_EXPERTS, MAX_TOP
from strata.kernels.router import MOST_EXPERTS, MOST_RANKS
from validation.core.verdict import Verdict
from validation.operations import registry
from validation.operations.experts import inputs, preconditions, random_cases
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.recipes import RECIPES, Routing

WORDS = st.lists(st.integers(0, (1 << 64) - 1), min_size=random_cases.WORDS, max_size=random_cases.WORDS)
OPERATIONS = [one for one in registry.kinds() if one.data in ("expert", "router", "combine")]
NAMES = [recipe.name for one in OPERATIONS for recipe in one.recipes()]
SEEDS = st.integers(0, (1 << 64) - 1)


@pytest.mark.parametrize("recipe", RECIPES)
@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, words=WORDS, mode=st.sampled_from(EXPERT_MODES))
def test_every_recipe_keeps_its_promises_at_every_size(recipe: str, seed: int, words: list[int], mode: str) -> None:
    case = random_cases.case(recipe, seed, words)
    check = preconditions.kept(case, inputs.build(case, mode))
    assert check.verdict is Verdict.EXACT, f"{mode} {case.text()}: {check.reason}"


@settings(max_examples=120, deadline=None)
@given(parts=st.tuples(SEEDS, SEEDS, SEEDS), seed=SEEDS, words=WORDS, mode=st.sampled_from(EXPERT_MODES))
def test_so_does_every_one_of_drawn_parts(parts: tuple[int, int, int], seed: int, words: list[int], mode: str) -> None:
    recipe = random_cases.recipe(parts)
    assert registry.find(recipe.name) == recipe
    case = random_cases.case(recipe.name, seed, words)
    assert ExpertCase.parse(case.text()) == case
    check = preconditions.kept(case, inputs.build(case, mode))
    assert check.verdict is Verdict.EXACT, f"{mode} {case.text()}: {check.reason}"


@given(st.sampled_from(NAMES), SEEDS, WORDS)
def test_sizes_are_ones_that_the_kernels_take(recipe: str, seed: int, words: list[int]) -> None:
    operation = registry.find(recipe).operation
    (own,) = [one for one in OPERATIONS if one.data == operation]
    case = own.random_case(recipe, [seed, *words], checked=False)
    assert isinstance(case, ExpertCase)
    assert ExpertCase.parse(case.brief()) == case
    assert case == own.random_case(recipe, [seed, *words], checked=True)
    if operation == "router":
        assert case.experts <= MOST_EXPERTS
        assert case.top <= min(case.experts, MOST_RANKS)
        return
    assert case.top <= MAX_TOP
    assert case.experts <= MAX_EXPERTS
    if operation == "expert" and RECIPES[recipe].routing is not Routing.EDGES:
        assert case.tokens <= random_cases.TOKENS
        assert case.tokens == 1 or case.pairs * case.n * case.ff <= random_cases.MOST_WORK


def test_a_few_hundred_draws_reach_every_size() -> None:
    from validation.core.random_streams import Stream

    cases = [
        random_cases.case("experts_plain", 1, Stream.of(1, "sizes", i).words(random_cases.WORDS).tolist())
        for i in range(800)
    ]
    assert {case.n for case in cases} == set(random_cases.HIDDEN)
    assert {case.ff for case in cases} == set(random_cases.FEATURES)
    assert {case.experts for case in cases} == set(range(1, random_cases.EXPERTS + 1))
    assert {case.top for case in cases} == set(random_cases.TOPS)
    assert {case.tokens for case in cases} >= set(random_cases.EDGES)
