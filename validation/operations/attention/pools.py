"""Carries out a recipe: the inputs of one case in one mode, as host arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.kernels import decode_attention
from strata.kernels.paths import MODES
from strata.kernels.pool import HEAD_DIM, MODE_FORMATS, Pool
from strata.kernels.prompt_attention import cells_per_chunk
from validation.core.random_streams import Stream
from validation.operations.attention import planes, selection
from validation.operations.attention.case import Case, CaseError
from validation.operations.attention.planes import Cells
from validation.operations.attention.recipes import Aim, Pages, Recipe, Widths, find
from validation.operations.kv_pack.reference import Q4_BYTES

#: Logical pages past the last cell. They map to a poisoned physical page; ids past a row's width
#: point there, so a kernel that follows one reads NaN instead of faulting. A table in order whose last
#: page is ragged has none: there the ids point at the poison behind the last cell, on its page.
SPARE_PAGES = 2
#: What unreferenced slots hold: an FP16 NaN, in scales and FP16 values, and codes of 0x7f.
POISON_HALF = 0x7FDB
POISON_CODE = 0x7F
#: Cells whose pages the ABSENT table leaves out besides a random quarter: whole chunks, the first too.
ABSENT_CELLS = ((0, 64), (128, 192))
#: Cells that the kernels take at once, at whose edges widths are tried; primes; and the widest rows.
TILES = sorted({cells_per_chunk(mode, tier) for mode in MODES for tier in (75, 80)} | {decode_attention.CELLS})
PRIMES = (37, 61, 67, 127, 1021)
EDGE_WIDTHS = tuple(
    sorted(
        {0, 1, 2, *PRIMES, selection.TOP_K - 1, selection.TOP_K, selection.TOP - 1, selection.TOP}
        | {tile * count + step for tile in TILES for count in (1, 2, 3, 4) for step in (-1, 0, 1)}
    )
)
#: One more than the blocks selected, which EDGE_WIDTHS has not, and widths past the widest row that is served: a kernel
#: takes any width.
BEYOND_WIDTHS = (selection.TOP_K + 1, selection.TOP + 1, selection.TOP + 2)


@dataclass(frozen=True)
class Inputs:
    """What a kernel is given. q: float32 [n_q, n_head, 256]; ids: int32 [n_q, cap]; steps: int32
    [n_q, 4] with the width in entry 3; widths: int64 [n_q]."""

    q: np.ndarray
    pool: Pool
    ids: np.ndarray
    steps: np.ndarray
    widths: np.ndarray


def build(case: Case, mode: str) -> Inputs:
    """The inputs of a synthetic case in a mode: a pure function of both.

    The logical content depends on seed and sizes alone; the page table decides only where it lies.
    """
    recipe = find(case.recipe)
    if recipe.operation != "prompt_attention" or recipe.name == "captured":
        raise CaseError(f"recipe {recipe.name} makes no synthetic attention inputs")
    keys, rows = (
        planes.draw(case.stream(name), plane, form, case.context, case.n_head_kv)
        for name, plane, form in zip("kv", (recipe.k, recipe.v), MODE_FORMATS[mode], strict=True)
    )
    table, pages = page_table(case.stream("pages"), recipe.pages, case.context, case.page_size)
    pool = place(keys, rows, mode, table, pages, case.page_size)
    ids, steps, widths = select(case, recipe.widths, len(table))
    q = queries(case, recipe, keys, ids, widths)
    return Inputs(q, pool, ids, steps, widths)


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


def select(case: Case, widths: Widths, table_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ids, steps and widths of a case's queries, for a page table of `table_size` entries."""
    n_kv = np.arange(case.context - case.queries + 1, case.context + 1, dtype=np.int64)
    stream = case.stream("selection")
    logical = -(-case.context // case.page_size)
    beyond = logical * case.page_size if table_size > logical else case.context
    if widths is Widths.CAUSAL:
        wide = selection.causal_widths(case.context, case.queries, case.top)
        return selection.id_lists(stream, n_kv, wide, case.top, beyond), selection.step_records(n_kv, wide), wide
    edges, widest = [0], min(case.context, case.top)
    if widths is Widths.EDGES:
        edges = [width for width in EDGE_WIDTHS if width <= widest]
        n_kv[:] = case.context
    if widths is Widths.BEYOND:
        edges = beyond_widths(case)
        n_kv[:] = case.context
    wide = np.array([edges[query % len(edges)] for query in range(case.queries)], dtype=np.int64)
    ids = selection.spread_lists(stream, case.context, wide, beyond)
    return ids, selection.step_records(n_kv, wide), wide


def q_sizes(recipe: Recipe, case: Case) -> np.ndarray:
    """float64 [n_q, n_head]: the deviation of each head's q before `loud` and `spike`; on a ladder 1, 1.25, 1.5 or 1.75
    times a power of two."""
    if not recipe.q.ladders:
        return np.full((case.queries, case.n_head), 2.0**recipe.q.exponent)
    first, last = np.resize(recipe.q.ladders, (case.n_head_kv, 2)).T[..., None] * 4
    rows = max(case.queries * case.group - 1, 1)
    quarters = first + np.arange(case.queries * case.group) * (last - first) // rows  # [kv, rows]
    steps = quarters.reshape(-1, case.queries, case.group).swapaxes(0, 1).reshape(case.queries, -1)
    return np.asarray(np.ldexp((4 + steps % 4) / 4, steps // 4))


def beyond_widths(case: Case) -> list[int]:
    """The widths of BEYOND that a case has cells for, or its widest one."""
    widest = min(case.context, case.top)
    return [width for width in BEYOND_WIDTHS if width <= widest] or [widest]


def queries(case: Case, recipe: Recipe, keys: Cells, ids: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """float32 [n_q, n_head, 256]: q of a case."""
    stream = case.stream("q")
    shape = (case.queries, case.n_head, HEAD_DIM)
    q = stream.normals(shape, 0 if recipe.q.ladders else recipe.q.exponent)
    if recipe.q.ladders:
        slope = planes.slope(recipe.k, case.n_head_kv).repeat(case.group, axis=0)
        q = np.ldexp(q * q_sizes(recipe, case)[..., None], -slope).astype(np.float32)  # rounded once
    if recipe.q.aim in (Aim.CLIMB, Aim.TURNS):
        direction = planes.climb_signs(case.stream("k"), case.n_head_kv)
        if recipe.q.aim is Aim.TURNS:
            direction[1::2] *= -1
        q = np.abs(q) * direction.repeat(case.group, axis=0)
    if recipe.q.aim in (Aim.CELL, Aim.SINK):
        towards = 1 if recipe.q.aim is Aim.CELL else -1
        head = np.arange(case.n_head) // case.group
        draws = stream.child("aim").below(1 << 31, (case.queries, case.n_head))
        for query in np.flatnonzero(widths).tolist():
            cells = ids[query, draws[query] % widths[query]]
            signs = keys.signs(cells, head)
            # A value of zero leaves the sign of q as it was drawn.
            q[query] = np.where(signs == 0, q[query], np.abs(q[query]) * (towards * signs))
    if recipe.q.spike:
        place = stream.child("spike").below(HEAD_DIM, (*shape[:2], 1))
        spiked = np.take_along_axis(q, place, axis=2) * np.float32(1 << recipe.q.spike)
        np.put_along_axis(q, place, spiked, axis=2)
    if recipe.q.loud:
        q[:, 2 :: case.group] *= np.float32(1 << recipe.q.loud)
    if recipe.q.zero_rows:
        q[:1] = 0
        q[:, 1] = 0
    return q
