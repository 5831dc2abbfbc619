"""Pages of a pool: tables, and cells put where they say."""

from __future__ import annotations

from typing import Any

import numpy as np

from strata.kernels.pool import Pool
from validation.core.random_streams import Stream
from validation.operations.kv_pack.planes import Cells
from validation.operations.kv_pack.recipes import Pages
from validation.operations.kv_pack.reference import Q4_BYTES

#: Rows that a pool has fewer of, by `Pool.check`.
MOST_ROWS = 1 << 31
#: Logical pages past the last cell. They map to a poisoned physical page; ids past a row's width
#: point there, so a kernel that follows one reads NaN instead of faulting. A table in order whose last
#: page is ragged has none: there the ids point at the poison behind the last cell, on its page.
SPARE_PAGES = 2
#: What unreferenced slots hold: an FP16 NaN, in scales and FP16 values, and codes of 0x7f.
POISON_HALF = 0x7FDB
POISON_CODE = 0x7F
#: Cells whose pages the ABSENT table leaves out besides a random quarter: whole chunks, the first too.
ABSENT_CELLS = ((0, 64), (128, 192))


def page_table(stream: Stream, pattern: Pages, cells: int, page_size: int) -> tuple[np.ndarray, int]:
    """int32 table of the logical pages and SPARE_PAGES more, and how many physical pages there are.

    The first and the last physical page belong to no cell, so both hold poison; in order, page 0 is used.
    """
    logical = -(-cells // page_size)
    shared = pattern in (Pages.SHARED, Pages.PATCHY)
    spread = 3 if shared else 1
    physical = logical * spread + 2
    exact = pattern is Pages.IN_ORDER and cells % page_size != 0
    table = np.full(logical + (0 if exact else SPARE_PAGES), physical - 1, dtype=np.int32)
    if pattern is Pages.IN_ORDER:
        table[:logical] = np.arange(logical)
    else:
        table[:logical] = 1 + stream.child("order").permutation(logical * spread)[:logical]
    if shared:
        table[3:logical:4] = table[2 : logical - 1 : 4]
    if pattern is Pages.PATCHY:
        table[4:logical:5] = -1
    if pattern is Pages.NONE:
        table[:logical] = -1
    if pattern is Pages.ABSENT:
        absent = stream.child("absent").below(4, logical) == 0
        for first, end in ABSENT_CELLS:
            absent[first // page_size : -(-end // page_size)] = True
        table[:logical][absent] = -1
    return table, physical


def place(
    keys: Cells, rows: Cells, mode: str, table: np.ndarray, pages: int, page_size: int, onto: Pool | None = None
) -> Pool:
    """The pool that holds logical K and V at the pages of `table`.

    All other slots hold poison, or what `onto` has there.
    """
    cells, heads = keys.data.shape[:2]
    logical = np.arange(cells, dtype=np.int64)
    page = table[logical // page_size].astype(np.int64)
    here = page >= 0
    page, slot = page[here], (logical % page_size)[here]

    def spread(source: np.ndarray, base: np.ndarray | None) -> np.ndarray:
        out = _poisoned((pages, heads, page_size, source.shape[-1]), source.dtype) if base is None else base.copy()
        out[page, :, slot] = source[here]
        return out

    k_base, v_base, k_scale_base, v_scale_base = (
        (onto.k, onto.v, onto.k_scale, onto.v_scale) if onto else (None, None, None, None)
    )
    return Pool(
        mode,
        page_size,
        heads,
        spread(keys.data, k_base),
        spread(rows.data, v_base),
        None if keys.scale is None else spread(keys.scale, k_scale_base),
        None if rows.scale is None else spread(rows.scale, v_scale_base),
        table,
    )


def _poisoned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """A plane of a pool: NaN for halves, 0x7f for codes, NaN scales inside Q4_0 blocks."""
    if dtype == np.float16:
        return np.full(shape, POISON_HALF, np.uint16).view(np.float16)
    out = np.full(shape, POISON_CODE, np.uint8).view(dtype)
    if dtype == np.uint8:
        blocks = out.reshape(*shape[:-1], -1, Q4_BYTES)
        blocks[..., 0], blocks[..., 1] = POISON_HALF & 0xFF, POISON_HALF >> 8
    return out
