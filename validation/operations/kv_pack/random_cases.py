"""Small pools at drawn sizes: what a soak runs."""

from __future__ import annotations

from collections.abc import Sequence

#: Cells: past three chunks and the absent ones. Queries: enough for neighbours.
CONTEXTS = (40, 211)
PAGE_SIZES = (1, 3, 4, 16, 64, 100, 512)
KV_HEADS = (1, 2, 3)


def pool(words: Sequence[int]) -> tuple[int, int, int]:
    """Cells, cells of a page and KV heads that some words choose."""
    context = CONTEXTS[0] + words[1] % (CONTEXTS[1] - CONTEXTS[0] + 1)
    return context, PAGE_SIZES[words[2] % len(PAGE_SIZES)], KV_HEADS[words[3] % len(KV_HEADS)]
