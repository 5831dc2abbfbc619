"""Which cases of combining the profiles have."""

from __future__ import annotations

from collections.abc import Iterator

from strata.kernels.combine import THREADS
from strata.kernels.experts import MAX_TOP
from validation.core.entry import Planned
from validation.operations.combine.recipes import RECIPES
from validation.operations.experts.case import ExpertCase
from validation.operations.router.inputs import BESIDE

#: Experts, and the width of one, which combining does not look at.
_EXPERTS, _FF = 64, 64
#: Tokens of the recipe in which each has a size of its own.
LADDER_ROWS = 48
_WARP = 32
#: Tokens, ranks and columns: ranks on both sides of powers of two, up to the most that experts give; columns of half a
#: block's threads, of all, and of one and a half.
SIZES = (
    (3, 2, 256),
    (2, 15, 256),
    (3, 16, 4 * THREADS),
    (2, 17, 256),
    (2, 31, 256),
    (1, _WARP, 256),
    (3, _WARP + 1, 256),
    (2, MAX_TOP - 1, 256),
    (2, MAX_TOP, 768),
)
#: Of recipes that need sizes of their own, behind all others: every distance with both signs; and every turn of fours.
EDGES = {"combine_gates": (4 * BESIDE, 1, 256), "combine_counts": (4, 2, 256)}
#: One and many ranks, narrow and real rows; and what profiles beyond the quick one have besides.
_QUICK = ((9, 10, 256), (3, 1, 512), (5, 10, 2560))
_MORE = ((256, 10, 2560), (33, 7, 768))


def _sizes(profile: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Recipe, and tokens, ranks and columns."""
    usual = _QUICK if profile == "quick" else _QUICK + _MORE
    for name, recipe in RECIPES.items():
        if not recipe.far and name not in EDGES:
            for size in ((LADDER_ROWS, 10, 256),) if recipe.ladder else usual:
                yield name, size
    for size in SIZES:
        yield "combine_sizes", size
    yield from EDGES.items()


def planned(seed: int, profile: str) -> list[Planned]:
    """The cases of a profile."""
    return [
        Planned(ExpertCase(name, seed, tokens, _EXPERTS, ranks, columns, _FF), flavor="checked")
        for name, (tokens, ranks, columns) in _sizes(profile)
    ]
