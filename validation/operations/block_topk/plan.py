"""Which cases of the top of block selection the profiles have."""

from __future__ import annotations

from collections.abc import Iterator

from strata.kernels.selection import BLOCK, TOP
from strata.kernels.topk_kernels import LONG_THREADS, SHORT_BLOCKS, SHORT_THREADS
from validation.core.entry import Planned
from validation.operations.block_select.case import SelectCase
from validation.operations.block_select.recipes import EDITION
from validation.operations.block_topk.recipes import RECIPES

#: Context, queries and top of a quick case: an incomplete block, and a cut inside one.
_SMALL = (4 * 133 + 1, 9, 150)
#: Of recipes that need sizes of their own: every edge.
_OWN = {"topk_lengths": (203, 48, 91), "topk_digits": (4 * 260 + 2, 8, 500)}
#: Sizes of `topk_sizes`: no cell and no block; one score for each thread of either kernel, and one more; as many as are
#: held, and one more, for which the other kernel runs.
SIZES = (
    (0, 1, TOP),
    (3, 2, 1),
    (BLOCK * SHORT_THREADS, 1, 500),
    (BLOCK * (SHORT_THREADS + 1), 1, 1000),
    (BLOCK * LONG_THREADS, 1, 1000),
    (BLOCK * (LONG_THREADS + 1), 1, TOP),
    (BLOCK * SHORT_BLOCKS, 1, TOP),
    (BLOCK * (SHORT_BLOCKS + 1), 1, TOP),
)
#: Cells that there is room for where a context is much smaller, and that context.
CAPACITY, FILLED = 1 << 20, 2100
#: Context, queries, top and capacity of the standard profile, and those of its recipes that say more at that size.
_LARGE = ((200192, 16, TOP, 0), (BLOCK * SHORT_BLOCKS, 32, TOP, 0), (1 << 20, 4, TOP, 0), (FILLED, 64, TOP, 1 << 18))
_AT_SIZE = ("topk_bell", "topk_levels", "topk_nan", "topk_digits", "topk_lengths")


def _quick(seed: int) -> Iterator[SelectCase]:
    for name, recipe in RECIPES.items():
        if name != "topk_sizes":
            yield SelectCase(name, seed, *((9, 1, 4) if recipe.far else _OWN.get(name, _SMALL)))
    for size in SIZES:
        yield SelectCase("topk_sizes", seed, *size)
    yield SelectCase("topk_bell", seed, FILLED, 1, capacity=CAPACITY)


def _standard(seed: int) -> Iterator[SelectCase]:
    for name in _AT_SIZE:
        for size in _LARGE:
            yield SelectCase(name, seed + 1, *size)


def planned(seed: int, profile: str) -> list[Planned]:
    """The cases of a profile."""
    found = [Planned(case, flavor="checked", edition=EDITION) for case in _quick(seed)]
    if profile != "quick":
        found += [Planned(case, edition=EDITION) for case in _standard(seed)]
    return found
