"""What the modes of dense products are: formats of blocks, and FP16."""

from __future__ import annotations

from strata.formats import FORMATS

#: The mode whose matrix is FP16 numbers, whose rows are not quantised.
HALVES = "f16"
#: Values that share a scale of a row's codes.
GROUP = 32


def holds(mode: str, width: int) -> bool:
    """Whether so many values are a row of a mode: of any four FP16, else of whole blocks."""
    return width % 4 == 0 if mode == HALVES else width % FORMATS[mode].values == 0
