"""Small cases of dense products at drawn sizes: what a soak runs."""

from __future__ import annotations

from collections.abc import Sequence

from validation.operations.linear.case import LinearCase

#: Rows and outputs of one, around what blocks of threads take; widths that every mode has.
ROWS = (1, 2, 3, 4, 5, 8, 9, 31, 32, 33, 40)
OUTPUTS = (1, 2, 7, 8, 9, 16, 31, 127, 128, 129, 140)
WIDTHS = (256, 512, 768, 1024, 1280, 2048, 2304)
#: Of rows that cancel, whose halves are whole blocks.
HALVED = (512, 1024, 1536, 2560)


def case(recipe: str, seed: int, words: Sequence[int]) -> LinearCase:
    """The case of a recipe whose sizes some words choose."""
    rows, outputs = ROWS[words[0] % len(ROWS)], OUTPUTS[words[1] % len(OUTPUTS)]
    widths = HALVED if recipe == "linear_cancelling" else WIDTHS
    return LinearCase(recipe, seed, rows, outputs, widths[words[2] % len(widths)])
