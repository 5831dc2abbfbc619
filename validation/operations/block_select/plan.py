"""Which cases of block selection the profiles have, and those that a record must hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strata.kernels import block_select_warp
from strata.kernels.block_select import DESCRIPTOR, TILES
from strata.kernels.selection import BLOCK, TOP
from strata.kernels.topk_kernels import SHORT_BLOCKS
from validation.core.entry import Planned
from validation.operations.block_select.case import SelectCase
from validation.operations.block_select.recipes import EDITION, RECIPES

#: Cases that a record must hold for each path: (context, queries).
(_REQUIRED,) = DESCRIPTOR.required
_QUERIES, _BLOCKS = TILES["simt"]
_TENSOR_QUERIES, _TENSOR_BLOCKS = TILES["sm75"]
#: Context, queries and top of a quick case: a block more than a tile has, an incomplete one, and a cut inside a block.
_SMALL = (BLOCK * (_BLOCKS + 1) + 1, 5, 150)
#: Of recipes that need sizes of their own: many blocks around the cut; tiles of queries, the last one short.
_OWN = {
    "select_near": (1024, 5, 500),
    "select_lengths": (2 * BLOCK * _BLOCKS + 18, 2 * _QUERIES + 6, 91),
}
#: Sizes of `select_sizes`: no cell, and a single block; on both sides of what a warp's block and each tile have, and of
#: the usual width, in order.
SIZES = (
    (0, 1, TOP),
    (BLOCK + 1, 3, 1),
    (BLOCK * (block_select_warp.WARPS + 1), 2, 5),
    (BLOCK * _BLOCKS, _TENSOR_QUERIES, 30),
    (BLOCK * (_BLOCKS + 1), _TENSOR_QUERIES + 1, 31),
    (BLOCK * _TENSOR_BLOCKS, _QUERIES, 30),
    (BLOCK * (_TENSOR_BLOCKS + 1), _QUERIES + 1, 31),
    (TOP + BLOCK, 2, TOP),
)
#: Cells that there is room for where a context is much smaller, and that context.
CAPACITY, FILLED = 1 << 14, 2100
#: Context, queries and top past the usual selection, of every recipe of the standard profile.
_WIDE = (8200, 40, TOP)
#: Context, queries and capacity of the standard profile: past what the short top-k reaches, up to the most cells there
#: may be, and far less than there is room for.
_LARGE = (
    ("select_bell", 4096, 2048, 0),
    ("select_bell", 32768, 512, 0),
    ("select_near", 32768, 64, 0),
    ("select_bell", BLOCK * SHORT_BLOCKS, 8, 0),
    ("select_lengths", 200192, 40, 0),
    ("select_near", 200192, 8, 0),
    ("select_bell", 1 << 20, 2, 0),
    ("select_bell", FILLED, 256, 1 << 18),
)
#: Of the full profile besides: a whole prompt's part at the longest context.
_LARGEST = (("select_bell", 200192, 2048, 0), ("select_near", 131072, 512, 0))


def _quick(seed: int) -> Iterator[SelectCase]:
    for name, recipe in RECIPES.items():
        if name != "select_sizes":
            yield SelectCase(name, seed, *((9, 1, 4) if recipe.far else _OWN.get(name, _SMALL)))
    for size in SIZES:
        options = (("lengths", "causal"),) if size[1] == 2 else ()
        yield SelectCase("select_sizes", seed, *size, options=options)
    yield SelectCase("select_bell", seed, FILLED, 1, capacity=CAPACITY)


def _standard(seed: int) -> Iterator[SelectCase]:
    for name, recipe in RECIPES.items():
        if not recipe.far and name != "select_sizes":
            yield SelectCase(name, seed + 1, *_WIDE)
    yield from _sized(seed, _LARGE)


def _sized(seed: int, sizes: Sequence[tuple[str, int, int, int]]) -> Iterator[SelectCase]:
    for name, context, queries, capacity in sizes:
        yield SelectCase(name, seed, context, queries, capacity=capacity)


def planned(seed: int, profile: str) -> list[Planned]:
    """The cases of a profile."""
    found = [Planned(case, flavor="checked", edition=RECIPES[case.recipe].edition) for case in _quick(seed)]
    if profile != "quick":
        found += [Planned(case, edition=RECIPES[case.recipe].edition) for case in _standard(seed)]
    if profile == "full":
        found += [Planned(case, edition=EDITION) for case in _sized(seed, _LARGEST)]
    return found


def required(seed: int) -> list[Planned]:
    """The cases that a record must hold whatever its profile."""
    return [Planned(SelectCase(_REQUIRED.recipe, seed, context, queries)) for context, queries in _REQUIRED.sizes]
