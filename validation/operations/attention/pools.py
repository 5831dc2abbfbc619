"""Carries out a recipe: the inputs of one case in one mode, as host arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from strata.kernels import decode_attention
from strata.kernels.pool import HEAD_DIM, MODE_FORMATS, MODES, Pool
from strata.kernels.prompt_attention import cells_per_chunk
from validation.core.case import CaseError
from validation.operations.attention import selected, selection
from validation.operations.attention.selected import Index
from validation.operations.block_select.choice import NOTHING
from validation.operations.kv_pack import planes
from validation.operations.kv_pack.case import TOP, TOP_K, Case
from validation.operations.kv_pack.pages import page_table, place
from validation.operations.kv_pack.planes import Cells
from validation.operations.kv_pack.recipes import Aim, Recipe, Widths, find

#: Cells that the kernels take at once, at whose edges widths are tried; primes; and the widest rows.
TILES = sorted({cells_per_chunk(mode, tier) for mode in MODES for tier in (75, 80)} | {decode_attention.CELLS})
PRIMES = (37, 61, 67, 127, 1021)
EDGE_WIDTHS = tuple(
    sorted(
        {0, 1, 2, *PRIMES, TOP_K - 1, TOP_K, TOP - 1, TOP}
        | {tile * count + step for tile in TILES for count in (1, 2, 3, 4) for step in (-1, 0, 1)}
    )
)
#: One more than the blocks selected, which EDGE_WIDTHS has not, and widths past the widest row that is served: a kernel
#: takes any width.
BEYOND_WIDTHS = (TOP_K + 1, TOP + 1, TOP + 2)


@dataclass(frozen=True)
class Inputs:
    """What a kernel is given. q: float32 [n_q, n_head, 256]; ids: int32 [n_q, cap]; steps: int32
    [n_q, 4] with the width in entry 3; widths: int64 [n_q]; index: what block selection chooses the ids by, None where
    they are given."""

    q: np.ndarray
    pool: Pool
    ids: np.ndarray
    steps: np.ndarray
    widths: np.ndarray
    index: Index | None = None


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
    index = None
    if recipe.widths is Widths.SELECTED:
        index = selected.draw(case.stream("index"), steps)
        ids = _chosen(index, ids)
    q = queries(case, recipe, keys, ids, widths)
    return Inputs(q, pool, ids, steps, widths, index)


def _chosen(index: Index, ids: np.ndarray) -> np.ndarray:
    """The cells that the definition chooses, in the places of lists of any others."""
    due = selected.choice(index, ids.shape[1])
    return np.where(due == NOTHING, ids[:, -1:], due)


def unchosen(inputs: Inputs) -> Inputs:
    """The same for what chooses ids itself: those it is given all point at poison."""
    return (
        inputs if inputs.index is None else replace(inputs, ids=np.repeat(inputs.ids[:, -1:], inputs.ids.shape[1], 1))
    )


def select(case: Case, widths: Widths, table_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ids, steps and widths of a case's queries, for a page table of `table_size` entries."""
    n_kv = np.arange(case.context - case.queries + 1, case.context + 1, dtype=np.int64)
    stream = case.stream("selection")
    logical = -(-case.context // case.page_size)
    beyond = logical * case.page_size if table_size > logical else case.context
    if widths is Widths.CAUSAL:
        wide = selection.causal_widths(case.context, case.queries, case.top)
        return selection.id_lists(stream, n_kv, wide, case.top, beyond), selection.step_records(n_kv, wide), wide
    if widths is Widths.SELECTED:
        n_kv = selected.lengths(case.stream("lengths"), case.context, case.queries)
        wide = np.minimum(n_kv, case.top)
        ids = np.full((case.queries, int(wide.max()) + selection.TAIL), beyond, dtype=np.int32)
        return ids, selection.step_records(n_kv, wide), wide
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
