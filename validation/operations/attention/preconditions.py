"""What a recipe promises of its data, looked for in the data that a case was really given.

A generator that has gone soft (scales all positive, the identity page table, zeros where poison should lie) makes
every kernel look right. So each case reads its own pool, lists and queries back, and is VOID when they are not what
its recipe says. Promises are counted from the stored bytes; nothing is taken from the generator's own words. Those
about random draws are asked only where chance all but never breaks them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from strata.kernels.decode_attention import CELLS as DECODE_CELLS
from strata.kernels.pool import HEAD_DIM, Pool
from strata.kernels.prompt_attention import cells_per_chunk
from validation.core.verdict import Check, Verdict
from validation.operations.attention import kv_preconditions, pools, selected
from validation.operations.attention.kv_preconditions import DRAWS, SIGNS
from validation.operations.attention.pools import EDGE_WIDTHS, Inputs, beyond_widths
from validation.operations.attention.reference import values
from validation.operations.attention.selection import TAIL, WIDTH
from validation.operations.kv_pack import planes
from validation.operations.kv_pack.case import BLOCK, Case
from validation.operations.kv_pack.pages import ABSENT_CELLS, POISON_CODE, POISON_HALF
from validation.operations.kv_pack.recipes import Aim, Kind, Pages, Recipe, Widths, find
from validation.operations.kv_pack.reference import Q4_BYTES

#: Cells, and slots that belong to no cell, that are looked at; more are read at as many even steps.
LOOKED_AT = 512
#: Pages from which on a random order is not the ascending one (1/32!).
PAGES = 32


def kept(case: Case, mode: str, inputs: Inputs) -> Check:
    """EXACT when the inputs are what the case's recipe promises, else VOID naming the first promise broken."""
    recipe = find(case.recipe)
    table, captured = inputs.pool.table[: -(-case.context // case.page_size)], recipe.name == "captured"
    cells = np.flatnonzero(table[np.arange(case.context) // case.page_size] >= 0)
    cells = cells[_even(len(cells))]
    k, v = kv_preconditions.stored(inputs.pool, cells)

    def broken() -> Iterator[str]:
        yield from _table(recipe, case, table)
        if not captured:  # a captured pool has its packer's own poison
            yield from _poison(inputs.pool, table, case)
        yield from kv_preconditions.broken(recipe.k, k, captured)
        yield from kv_preconditions.broken(recipe.v, v, captured)
        if len(cells) and k.form == v.form and np.array_equal(k.rows, v.rows):
            yield "K and V of their own, their bytes are the same"
        yield from _lists(recipe, case, mode, inputs)
        if not captured:
            yield from _queries(recipe, case, inputs)

    first = next(broken(), None)
    if first is None:
        return Check("data", Verdict.EXACT, "", {"cells": len(cells)})
    return Check("data", Verdict.VOID, f"this recipe promises {first}")


def _even(count: int) -> np.ndarray:
    """Indices of at most LOOKED_AT of `count` things, the first and the last among them."""
    return np.unique(np.arange(LOOKED_AT, dtype=np.int64) * max(count - 1, 0) // (LOOKED_AT - 1))[:count]


def _table(recipe: Recipe, case: Case, table: np.ndarray) -> Iterator[str]:
    """The page table of the cells; int32 [logical pages]."""
    there, count = table[table >= 0], len(table)
    if recipe.pages is Pages.NONE:
        if len(there):
            yield f"no resident page, {len(there)} are"
        return
    if recipe.pages is Pages.ABSENT:
        forced = np.zeros(count, dtype=bool)
        for first, end in ABSENT_CELLS:
            forced[first // case.page_size : -(-end // case.page_size)] = True
        if (table[forced] >= 0).any():
            yield f"absent chunks, {int((table[forced] >= 0).sum())} of their pages are resident"
        others = table[~forced] < 0
        if len(others) >= PAGES and (others.all() or (len(others) >= DRAWS and not others.any())):
            yield f"a quarter of the other pages absent, {int(others.sum())} of {len(others)} are"
    elif recipe.pages is Pages.PATCHY:
        gaps = np.arange(count) % 5 == 4
        if ((table < 0) != gaps).any():
            yield f"every fifth page absent and no other, {int((table < 0).sum())} of {count} are"
    elif len(there) < count:
        yield f"resident pages, {count - len(there)} are absent"
    rises = bool((np.diff(there) > 0).all())
    if recipe.pages is Pages.IN_ORDER:
        if not (table == np.arange(count)).all():
            yield "pages in order from page 0 on, they are not"
    elif rises and len(there) >= PAGES:
        yield f"shuffled pages, all {len(there)} are in ascending order"
    shared = len(there) - len(np.unique(there))
    if (recipe.pages in (Pages.SHARED, Pages.PATCHY) and count >= 4) != (shared > 0):
        yield f"{'shared pages' if not shared else 'a page for each'}, {shared} are shared"


def _poison(pool: Pool, table: np.ndarray, case: Case) -> Iterator[str]:
    """Slots that no cell lives in hold poison, codes and scales; some whole pages are such."""
    used = np.zeros((len(pool.k), pool.page_size), dtype=bool)
    cells = np.arange(case.context)
    pages = table[cells // pool.page_size]
    used[pages[pages >= 0], (cells % pool.page_size)[pages >= 0]] = True
    first = find(case.recipe).pages is not Pages.IN_ORDER and bool(used[0].any())
    if first or used[-1].any():
        yield "a first and a last page without cells, cells live there"
    free = np.argwhere(~used)
    free = free[_even(len(free))]
    # The slots behind the last cell, in its own page: padding that a kernel reads with the tile.
    page = int(table[-1])
    if page >= 0:
        behind = np.flatnonzero(~used[page])
        free = np.concatenate([free, np.stack([np.full_like(behind, page), behind], axis=1)])
    for name, plane in (("K", pool.k), ("V", pool.v), ("K scale", pool.k_scale), ("V scale", pool.v_scale)):
        if plane is None:
            continue
        rows = np.ascontiguousarray(plane[free[:, 0], :, free[:, 1]])
        stale = (rows.view(np.uint8).reshape(len(rows), -1) != _poisoned(rows)).any(axis=1)
        if stale.any():
            slot = free[int(np.argmax(stale))].tolist()
            yield f"poison in every slot without a cell, {name} of page and slot {slot} holds something else"


def _poisoned(rows: np.ndarray) -> np.ndarray:
    """uint8: what a row of [free slots, kv, row] holds when it is poison."""
    shape = rows.shape[1:]
    if rows.dtype == np.float16:
        return np.full(shape, POISON_HALF, "<u2").view(np.uint8).reshape(-1)
    out = np.full(shape, POISON_CODE, np.uint8).reshape(-1)
    if rows.dtype == np.uint8:
        out.reshape(-1, Q4_BYTES)[:, :2] = (POISON_HALF & 0xFF, POISON_HALF >> 8)
    return out


def _lists(recipe: Recipe, case: Case, mode: str, inputs: Inputs) -> Iterator[str]:
    """Ids ascend below the query's own cells, what is behind a width is poisoned, widths are the recipe's."""
    ids, widths, table = inputs.ids, inputs.widths, inputs.pool.table
    if not np.array_equal(inputs.steps[:, WIDTH], widths):
        yield "widths in the step records, they differ from the widths of the lists"
    behind = np.arange(ids.shape[1]) >= widths[:, None]
    if ids.shape[1] < int(widths.max()) + TAIL:
        yield f"{TAIL} ids behind the widest row, there are {ids.shape[1] - int(widths.max())}"
    pages = table[ids[behind] // case.page_size]
    resident = np.isin(pages, table[: -(-case.context // case.page_size)])
    # A table without spare pages ends with a ragged one, which is poison behind the last cell.
    resident &= (ids[behind] < case.context) | (len(table) > -(-case.context // case.page_size))
    if resident.any() or (pages < 0).any():
        yield "ids behind a width that point at poison, some point elsewhere"
    inside = ~behind[:, 1:] & ~behind[:, :-1]
    if (np.diff(ids, axis=1)[inside] <= 0).any() or (ids[~behind] >= case.context).any() or (ids[~behind] < 0).any():
        yield f"ascending ids below {case.context}, some are not"
    if recipe.widths is Widths.ZERO:
        if widths.any():
            yield f"empty lists, the widest holds {int(widths.max())}"
    elif recipe.widths is Widths.CAUSAL:
        seen = np.arange(case.context - case.queries + 1, case.context + 1)
        if not np.array_equal(widths, np.minimum(seen, case.top)):
            yield "widths of all cells seen so far, up to the most, some rows have others"
        sparse = np.flatnonzero(seen > case.top)
        if len(sparse) and bool((ids[sparse[-1], : case.top] == np.arange(case.top)).all()):
            yield "a selection of the older cells, the first ones are taken"
    elif recipe.widths is Widths.SELECTED:
        yield from _selected(case, inputs)
    elif recipe.widths is Widths.BEYOND:
        due = np.resize(beyond_widths(case), case.queries)
        if not np.array_equal(widths, due):
            yield f"widths {due.tolist()}, they are {widths.tolist()}"
    else:
        yield from _edges(case, mode, widths)


def _selected(case: Case, inputs: Inputs) -> Iterator[str]:
    """Queries of any length, incomplete blocks of every size among them as far as there are queries for that, whose ids
    are the choice of the indexer's scores."""
    cells, index = inputs.steps[:, 1], inputs.index
    if index is None or not np.array_equal(index.steps, inputs.steps):
        yield "what block selection chooses by, for the very queries of attention"
        return
    if not np.array_equal(inputs.widths, np.minimum(cells, case.top)):
        yield "widths of all cells seen, up to the most, some rows have others"
    if case.queries > 2 and (np.diff(cells) >= 0).all():
        yield "queries of lengths in no order, they grow"
    missing = {1, 2, 3} - set((cells % BLOCK).tolist())
    if case.queries >= 4 * BLOCK and missing:
        yield f"incomplete blocks of 1 to 3 cells, none has {min(missing)}"
    due = selected.choice(index, inputs.ids.shape[1])
    if not np.array_equal(due, selected.canonical(inputs.ids, inputs.widths)):
        yield "ids that the definition chooses by FP64 scores, some are others"


def _edges(case: Case, mode: str, widths: np.ndarray) -> Iterator[str]:
    """Widths at, below and above the tiles of every kernel, as far as the case has rows for them."""
    limit, found = min(case.context, case.top), set(widths.tolist())
    possible = sum(width <= limit for width in EDGE_WIDTHS)
    if len(found) < min(case.queries, possible):
        yield f"{min(case.queries, possible)} edge widths, there are {len(found)}"
    tiles = {cells_per_chunk(mode, 75), cells_per_chunk(mode, 80), DECODE_CELLS}
    wanted = {0, 1} | {tile * count + step for tile in tiles for count in (1, 2, 3, 4) for step in (-1, 0, 1)}
    missing = sorted(width for width in wanted if width <= limit and width not in found)
    if case.queries >= possible and missing:
        yield f"widths at the edges of tiles, {missing[0]} is missing"


def _queries(recipe: Recipe, case: Case, inputs: Inputs) -> Iterator[str]:
    """Signs and sizes of q; rows that are zero on purpose, and no others."""
    q, of = inputs.q, recipe.q
    zero = np.zeros(q.shape[:2], dtype=bool)
    if of.zero_rows:
        zero[0], zero[:, 1] = True, True
    loud = np.zeros(q.shape[:2], dtype=bool)
    loud[:, 2 :: case.group] = of.loud > 0
    if (q.any(axis=-1) == zero).any():
        yield f"{int(zero.sum())} rows of q that are zero, {int((~q.any(axis=-1)).sum())} are"
    yield from kv_preconditions.both_signs("q", q[q != 0])
    if of.ladders:
        yield from _ladders(recipe, case, inputs)
        return
    # The largest of HEAD_DIM bell-shaped numbers is 1 to 3 deviations.
    for rows, exponent in ((q[~zero & ~loud], of.exponent), (q[~zero & loud], of.exponent + of.loud)):
        sizes = np.sort(np.abs(rows), axis=-1)
        if of.spike and len(rows):
            # One element is 2**spike times what it was drawn as; the others are as ever.
            if not float(sizes[:, -1].max()) > 4 * float(sizes[:, -2].max()):
                yield f"a spike of 2^{of.spike} in q, the largest is {float(sizes[:, -1].max()):g}"
            sizes = sizes[:, :-1]
        largest = float(sizes.max(initial=0.0))
        if len(rows) and not 2.0**exponent <= largest <= 3 * 2.0**exponent:
            yield f"q near 2^{exponent}, the largest is {largest:g}"
    rows = q[~zero & ~loud]
    if len(rows) > 1 and (rows == rows[:1]).all():
        yield "queries of their own, all are alike"
    if of.aim is Aim.CLIMB:
        yield from _rising(recipe, inputs)


def _ladders(recipe: Recipe, case: Case, inputs: Inputs) -> Iterator[str]:
    """Heads of q at the steps of their ladders, once what makes up for a slope of K is taken off."""
    level = np.ldexp(inputs.q.astype(np.float64), planes.slope(recipe.k, case.n_head_kv).repeat(case.group, axis=0))
    largest = np.abs(level).max(axis=-1)
    due = pools.q_sizes(recipe, case)
    # Rounding to a subnormal may take a step from either end.
    wrong = ~((largest >= due / 2) & (largest <= 4 * due))
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        yield f"q near {due[at]:g} in one head, the largest is {largest[at]:g}"
    if recipe.q.aim is Aim.TURNS:
        yield from _rising(recipe, inputs)


def _rising(recipe: Recipe, inputs: Inputs) -> Iterator[str]:
    """Scores of the last query over a CLIMBING K; with TURNS those of every second KV head fall."""
    last = int(inputs.widths[-1]) - 1
    if recipe.k.kind is not Kind.CLIMBING or last < SIGNS:
        return
    k, _ = values(inputs.pool, inputs.ids[-1, [0, last]].astype(np.int64))
    scores = np.einsum("hgd,chd->chg", inputs.q[-1].astype(np.float64).reshape(k.shape[1], -1, HEAD_DIM), k)
    rises = scores[1] > scores[0]
    falls = np.arange(len(rises)) % 2 == 1 if recipe.q.aim is Aim.TURNS else np.zeros(len(rises), dtype=bool)
    if (rises == falls[:, None]).any():
        yield "scores that rise along the cells, some fall"
