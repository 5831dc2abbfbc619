"""Small cases of combining at drawn sizes: what a soak runs."""

from __future__ import annotations

from collections.abc import Sequence

from validation.operations.experts.case import ExpertCase
from validation.operations.experts.random_cases import EXPERTS, FEATURES, HIDDEN, SUMMED, TOPS, tokens


def case(recipe: str, seed: int, words: Sequence[int]) -> ExpertCase:
    """The case of a recipe whose sizes some words choose."""
    n, top = HIDDEN[words[0] % len(HIDDEN)], TOPS[words[3] % len(TOPS)]
    return ExpertCase(recipe, seed, tokens(words[4], SUMMED // (top * n)), EXPERTS, top, n, FEATURES[0])
