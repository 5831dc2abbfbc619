"""Small cases of RMSNorm at drawn sizes: what a soak runs."""

from __future__ import annotations

from collections.abc import Sequence

from validation.operations.rms_norm.case import EPS, NormCase

#: Columns around a warp's turns, and those of models.
COLUMNS = (4, 8, 124, 128, 132, 252, 256, 260, 512, 640, 1152)
MOST_ROWS = 33
EPSILONS = (EPS, EPS, "1e-5", "1.1754944e-38", "1")


def case(recipe: str, seed: int, words: Sequence[int]) -> NormCase:
    """The case of a recipe whose sizes some words choose."""
    eps = EPSILONS[words[2] % len(EPSILONS)]
    options = () if eps == EPS else (("eps", eps),)
    return NormCase(recipe, seed, 1 + words[0] % MOST_ROWS, COLUMNS[words[1] % len(COLUMNS)], options)
