"""Small cases of visible cells at drawn sizes: what a soak runs."""

from __future__ import annotations

from collections.abc import Sequence

from strata.kernels.visible_cells import LAST
from validation.operations.visible_cells.case import CellsCase

ROWS = (1, 2, 3, 5, 7, 13, 31)
WINDOWS = (1, 2, 3, 31, 127, 128, 129, 511, 512, 513, 1537)


def case(recipe: str, seed: int, words: Sequence[int]) -> CellsCase:
    """The case of a recipe whose sizes some words choose: near cell 0, near a full window, or anywhere."""
    rows, window = ROWS[words[0] % len(ROWS)], WINDOWS[words[1] % len(WINDOWS)]
    first = (words[2] % 40, max(window - 1 - words[2] % 16, 0), words[2] % (LAST + 2 - rows))[words[3] % 3]
    return CellsCase(recipe, seed, first, rows, window)
