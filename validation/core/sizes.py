"""Sizes at which something changes in a kernel or in what launches it, and what cases there must be around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Side(Enum):
    """What cases there must be around a value."""

    EDGE = "at it and one more"
    MOST = "at it, the most there may be, and below"
    OVER = "up to it and above"
    EACH = "at each"


@dataclass(frozen=True)
class Size:
    """names: of constants, `file:NAME`; value: the number at which something changes, or several; of: what is measured,
    a key of `measured`; changes: what does."""

    names: tuple[str, ...]
    value: int | tuple[int, ...]
    of: str
    side: Side
    changes: str

    def lacks(self, found: frozenset[int]) -> str:
        """What no case has; "" when there are cases on both sides."""
        values = (self.value,) if isinstance(self.value, int) else self.value
        for value in values:
            have = {
                Side.EDGE: {value, value + 1} <= found,
                Side.MOST: value in found and min(found) < value,
                Side.OVER: min(found) <= value < max(found),
                Side.EACH: value in found,
            }[self.side]
            if not have:
                return f"{self.of} {self.side.value} for {value}"
        return ""


#: Names of what is measured, each with its values.
Measured = Iterator[tuple[str, set[int]]]


@dataclass(frozen=True)
class Sizes:
    """What a kind of operations says of the constants of its kernels.

    Parameters
    ----------
    sources, modules
        Stems of the files of `strata/kernels` that have them, in CUDA and in Python.
    table
        Those at which something changes.
    fixed
        Constants at which no size of a case makes a difference, by the reason; those below, or others.
    of
        What a case has of each size.
    beside
        What checks beside the cases have.
    """

    sources: tuple[str, ...]
    modules: tuple[str, ...]
    table: tuple[Size, ...]
    fixed: Mapping[str, tuple[str, ...]]
    of: Callable[[Any], Measured]
    beside: Mapping[str, frozenset[int]] = field(default_factory=dict)


# Reasons why no size of a case makes a difference.
EVERY_ROW = "every row has so many values, in every case"
TILE = "the shape of a tile or of shared memory, which every case fills; static_assert holds both sides together"
BLOCK = "threads of a block, all of which work in every case"
EVERY_MATRIX = "every matrix has a multiple of so many rows"
AHEAD = "what is fetched ahead or held in registers; no bit depends on it"
BITS = "bits of a number"
PATH = "which format or tier: a path each"
FAR = "beyond it lies what `validation.run.far` asks on lanes (`far`, `few blocks`)"
