"""A case turned into one whose output says by itself which cell, head and dim it came from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from strata.kernels.pool import HEAD_DIM, MODE_FORMATS
from validation.operations.attention import fp16_fields
from validation.operations.attention.pools import Inputs
from validation.operations.attention.zero_weight_cells import q4_0
from validation.operations.kv_pack.planes import Cells

#: The dim that is one: in the second half of a Q4_0 block and of an INT8 group, off the corners of every tile.
DIM = 245
_ONE = 0x3C00


def one_hot(inputs: Inputs) -> tuple[Inputs, np.ndarray] | str:
    """Inputs with equal keys and V zero but for a one, and the float32 output then due; or why there are none.

    The one stands at the last resident cell of the shortest list, in the last KV head. A query whose list holds it
    m times among n resident cells answers m / n, in that dim of the heads of that KV head: m is more
    than 1 where pages are shared. Slots that no list reaches keep what they hold.
    """
    pool = inputs.pool
    shortest = int(np.argmin(inputs.widths))
    page, slot = fp16_fields.slots(inputs, shortest, int(inputs.widths[shortest]))
    if len(page) == 0:
        return "the shortest list has no resident cell"
    hot, head = (int(page[-1]), int(slot[-1])), pool.n_head_kv - 1
    used_page, used_slot = np.nonzero(fp16_fields.in_use(inputs))
    k = pool.k.copy()
    k[used_page, :, used_slot] = k[hot[0], :, hot[1]]
    k_scale = pool.k_scale
    if k_scale is not None:
        k_scale = k_scale.copy()
        k_scale[used_page, :, used_slot] = k_scale[hot[0], :, hot[1]]
    rows = _rows(MODE_FORMATS[pool.mode][1], pool.n_head_kv, head)
    is_hot = ((used_page == hot[0]) & (used_slot == hot[1])).astype(np.int64)
    v, v_scale = pool.v.copy(), pool.v_scale
    v[used_page, :, used_slot] = rows.data[is_hot]
    if v_scale is not None and rows.scale is not None:
        v_scale = v_scale.copy()
        v_scale[used_page, :, used_slot] = rows.scale[is_hot]
    expected = np.zeros(inputs.q.shape, dtype=np.float32)
    group = inputs.q.shape[1] // pool.n_head_kv
    for query, width in enumerate(inputs.widths.tolist()):
        page, slot = fp16_fields.slots(inputs, query, width)
        if len(page):
            count = int(((page == hot[0]) & (slot == hot[1])).sum())
            expected[query, head * group : (head + 1) * group, DIM] = np.float32(count) / np.float32(len(page))
    made = replace(inputs, pool=replace(pool, k=k, v=v, k_scale=k_scale, v_scale=v_scale))
    return made, expected


def _rows(form: str, heads: int, head: int) -> Cells:
    """Two cells of V: zeros, and zeros with a one; scales of one, so that each fold has something to fold."""
    codes = np.zeros((2, heads, HEAD_DIM), dtype=np.int8)
    codes[1, head, DIM] = 1
    if form == "fp16":
        return Cells(codes.astype(np.float16))
    if form == "int8":
        return Cells(codes, np.ones((2, heads, 4), dtype=np.float16))
    return q4_0(codes, np.full((2, heads, 8), _ONE, dtype=np.uint16))
