"""Small cases of rope at drawn sizes: what a soak runs."""

from __future__ import annotations

from collections.abc import Sequence

from validation.operations.rope.case import RopeCase

ROWS = (1, 2, 3, 5, 7, 11, 13, 17, 31)
HEADS = (1, 2, 3, 4, 5, 7, 16)
WIDTHS = (8, 16, 24, 32, 64, 80, 96, 128)
CONTEXTS = (1, 2, 3, 17, 64, 255, 256, 257, 4096)


def case(recipe: str, seed: int, words: Sequence[int]) -> RopeCase:
    """The case of a recipe whose sizes some words choose."""
    sizes = (choice[word % len(choice)] for choice, word in zip((ROWS, HEADS, WIDTHS, CONTEXTS), words, strict=False))
    return RopeCase(recipe, seed, *sizes)
