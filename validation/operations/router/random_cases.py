"""Small cases of the router at drawn sizes: what a soak runs."""

from __future__ import annotations

from collections.abc import Sequence

from strata.kernels.router import MOST_EXPERTS, MOST_RANKS
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.random_cases import FEATURES, HIDDEN, TOKENS, tokens

#: Experts around multiples of a warp, and the most.
ROUTED = (1, 2, 31, 32, 33, 64, 70, 255, 256, 257, 512, MOST_EXPERTS)


def case(recipe: str, seed: int, words: Sequence[int]) -> ExpertCase:
    """The case of a recipe whose sizes some words choose."""
    experts = ROUTED[words[0] % len(ROUTED)]
    top = 1 + words[1] % min(experts, MOST_RANKS)
    return ExpertCase(recipe, seed, tokens(words[4], TOKENS), experts, top, HIDDEN[0], FEATURES[0])
