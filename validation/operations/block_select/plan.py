"""Which cases of block selection the profiles have, and those that a record must hold."""

from __future__ import annotations

from collections.abc import Iterator

from strata.kernels import block_select_warp
from strata.kernels.block_select import DESCRIPTOR, TILES
from strata.kernels.selection import BLOCK, TOP
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
#: Contexts, queries and capacities that a card has besides: to twice what the short top-k reaches, and beyond.
_LARGE = ((4096, 2048, 0), (32768, 512, 0), (131072, 32, 0), (200192, 16, 0), (200192, 2048, 0), (2100, 256, 262144))
#: Recipes of which a larger case says more than a small one.
_WIDE = (8200, 40, TOP)
_AT_SIZE = ("select_bell", "select_near")


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
    for context, queries, capacity in _LARGE:
        for name in _AT_SIZE:
            yield SelectCase(name, seed, context, queries, capacity=capacity)
    yield SelectCase("select_bell", seed, 1 << 20, 2)


def planned(seed: int, profile: str) -> list[Planned]:
    """The cases of a profile."""
    found = [Planned(case, flavor="checked", edition=EDITION) for case in _quick(seed)]
    if profile != "quick":
        found += [Planned(case, edition=EDITION) for case in _standard(seed)]
    return found


def required(seed: int) -> list[Planned]:
    """The cases that a record must hold whatever its profile."""
    return [Planned(SelectCase(_REQUIRED.recipe, seed, *size)) for size in _REQUIRED.sizes]
