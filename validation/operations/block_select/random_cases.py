"""Small cases of block selection at drawn sizes: what a soak runs."""

from __future__ import annotations

from collections.abc import Sequence

from strata.kernels.selection import BLOCK
from validation.operations.block_select.case import LENGTHS, SelectCase

#: Cells and queries of one: around the edges of blocks and of tiles.
CONTEXTS = (0, 1, 3, 4, 5, 31, 127, 128, 131, 255, 256, 257, 259, 300, 517)
QUERIES = (1, 2, 7, 8, 9, 31, 32, 33, 40)


def case(recipe: str, seed: int, words: Sequence[int]) -> SelectCase:
    """The case of a recipe whose sizes some words choose."""
    context, queries = CONTEXTS[words[0] % len(CONTEXTS)], QUERIES[words[1] % len(QUERIES)]
    top = words[2] % (context + 2 * BLOCK)
    room = -(-context // BLOCK) + words[4] % 70 if words[3] % 2 else 0
    options = (("lengths", LENGTHS[words[5] % len(LENGTHS)]),) if words[6] % 2 else ()
    return SelectCase(recipe, seed, context, queries, top, room * BLOCK, options)
