"""Small cases of the top of block selection at drawn sizes: what a soak runs."""

from __future__ import annotations

from collections.abc import Sequence

from validation.operations.block_select import random_cases
from validation.operations.block_select.case import SelectCase


def case(recipe: str, seed: int, words: Sequence[int]) -> SelectCase:
    """The case of a recipe whose sizes some words choose."""
    return random_cases.case(recipe, seed, words)
