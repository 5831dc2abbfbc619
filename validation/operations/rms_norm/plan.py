"""Which cases of RMSNorm the profiles have."""

from __future__ import annotations

from collections.abc import Iterator

from strata.kernels.rms_norm import WARPS
from validation.core.entry import Planned
from validation.operations.rms_norm.case import NormCase
from validation.operations.rms_norm.recipes import RECIPES

#: Columns that a warp takes at a time.
_TURN = 128
#: Rows of the recipe in which each has a size of its own, and of the one whose faults take turns.
LADDER_ROWS, TURNS = 52, 19
#: Rows and columns: rows on both sides of a block's, columns on both sides of a lane's and of a warp's turns.
SIZES = (
    (1, 4),
    (WARPS - 1, _TURN - 4),
    (WARPS, _TURN),
    (WARPS + 1, _TURN + 4),
    (2, 2 * _TURN - 4),
    (3, 2 * _TURN),
    (2, 2 * _TURN + 4),
)
#: eps at the ends of its range beside that of a model.
ENDS = ("1.1754944e-38", "1")
#: One row, as a token that is decoded has it, and a few; and what profiles beyond the quick one have besides.
_QUICK = ((5, 640), (1, 260))
_MORE = ((512, 640), (64, 5376), (7, 65536))


def _cases(seed: int, profile: str) -> Iterator[NormCase]:
    usual = _QUICK if profile == "quick" else _QUICK + _MORE
    for name, recipe in RECIPES.items():
        if recipe.ladder:
            yield NormCase(name, seed, LADDER_ROWS, 132)
            for eps in ENDS:
                yield NormCase(name, seed, LADDER_ROWS, 132, (("eps", eps),))
        elif not recipe.far:
            for rows, n in usual:
                yield NormCase(name, seed, rows, n)
    for name in ("rms_overflow", "rms_broken"):
        yield NormCase(name, seed, TURNS, 260)
    for rows, n in SIZES:
        yield NormCase("rms_sizes", seed, rows, n)


def planned(seed: int, profile: str) -> list[Planned]:
    """The cases of a profile."""
    return [Planned(case, flavor="checked") for case in _cases(seed, profile)]
