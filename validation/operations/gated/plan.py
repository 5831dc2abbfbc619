"""Which cases of operations on elements the profiles have."""

from __future__ import annotations

from collections.abc import Iterator

from strata.kernels.pointwise import THREADS, VECTOR
from validation.core.entry import Planned
from validation.operations.gated import recipes
from validation.operations.gated.case import ElementCase

#: Rows of a recipe in which each has a size of its own.
LADDER_ROWS = 70
#: Rows and columns whose product lies on both sides of a thread's four and of a block's.
SIZES = ((1, 1), (1, 2), (1, 3), (1, VECTOR), (1, VECTOR + 1), (3, 7), (1, VECTOR * THREADS))
SIZES_BEYOND = ((1, VECTOR * THREADS + 1), (2, VECTOR * THREADS - 1))
#: Every edge with floats beside it, of either activation.
EDGES = (3, 269)
#: Caps at both ends of their range, and small ones.
CAPS = ("1.1754944e-38", "0.3", "1", "50", "3.4028235e38")
_QUICK = ((5, 37), (2, 640))
_MORE = ((512, 2048), (33, 6912), (3, 262144))


def _cases(operation: str, seed: int, profile: str) -> Iterator[ElementCase]:
    usual = _QUICK if profile == "quick" else _QUICK + _MORE
    for recipe in recipes.of(operation):
        if recipe.far:
            continue
        caps = CAPS if operation == "softcap" and not recipe.name.endswith("broken") else ()
        sizes = ((LADDER_ROWS, 19),) if recipe.ladder else usual
        if recipe.name.endswith("edges"):
            sizes = (EDGES,)
        for size in sizes:
            yield ElementCase(recipe.name, seed, *size)
        for cap in caps:
            yield ElementCase(recipe.name, seed, *sizes[0], (("cap", cap),))
    for size in (*SIZES, *SIZES_BEYOND):
        yield ElementCase(f"{operation}_sizes", seed, *size)


def planned(operation: str, seed: int, profile: str) -> list[Planned]:
    """The cases of a profile."""
    return [Planned(case, flavor="checked") for case in _cases(operation, seed, profile)]
