"""Cells whose weight is exactly zero, put behind every list of a case.

A weight is 2^(x - m) with x the score of a cell and m the largest so far, and exp2 gives +0 below
-126 (include/exp2.cuh). The keys here point against q, so far that x - m lies below -252 in FP64: no rounding
of a score spans the other half.

Zeros then change nothing. In the denominator +0 is added. In the numerator of decode attention
fma(v, 0, acc) is acc for every finite v; a chunk of such cells alone has a merge weight of 0. A tensor
core leaves products of zero out. What remains is the exponent of the largest V scale of a chunk, which
prompt attention takes out of p': a larger one would cost the weights beside it their low bits. So a far
cell in the last chunk of a list has V scales as large as the largest there and no larger, and one in a
chunk of its own the largest that FP16 has: that chunk adds zeros, and the unit of the sum moves by a
power of two. FP16 values are not folded, and take the largest everywhere.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from strata.kernels.pool import HEAD_DIM, MODE_FORMATS, Pool
from validation.operations.attention import fp16_fields
from validation.operations.attention.pools import Inputs
from validation.operations.attention.reference import terms
from validation.operations.attention.selection import TAIL, WIDTH
from validation.operations.kv_pack.pages import place
from validation.operations.kv_pack.planes import Cells
from validation.operations.kv_pack.reference import INT8_GROUP, Q4_BLOCK, Q4_ROW, Q4_ZERO

LOG2_E = math.log2(math.e)
#: Twice the distance at which exp2 gives zero.
GAP = 2 * 126
#: The largest finite half, and the scale of far keys: codes of 7 and more make it 56 or more.
_LARGEST = 0x7BFF
_KEY_SCALE = np.float16(8)
#: The two cells: behind the last cell of a list in its chunk, and in a chunk of their own.
_BESIDE, _APART = 0, 1


def append(inputs: Inputs, chunk: int, folded: bool) -> Inputs | str:
    """Inputs with far cells behind each list, or why there can be none.

    chunk: cells that the path takes at once; folded: whether it folds V scales into weights. Every list is filled
    to a whole number of chunks; all but each third get half a chunk or a whole one and a cell besides.
    """
    widths = inputs.widths.tolist()
    if min(widths) < 1:
        return "a list is empty"
    pool, heads = inputs.pool, inputs.pool.n_head_kv
    away = _against(inputs.q, heads)
    if away is None:
        return "query heads of one KV head have no signs in common"
    k_form, v_form = MODE_FORMATS[pool.mode]
    limit = _LARGEST if v_form == "fp16" or not folded else _largest_scales(inputs, chunk)
    bits = np.empty((2, heads, HEAD_DIM // (Q4_BLOCK if v_form == "q4_0" else INT8_GROUP)), dtype=np.uint16)
    bits[_BESIDE], bits[_APART] = limit, _LARGEST
    longer = _with_cells(pool, _keys(away, k_form), _values(bits, v_form))
    first = pool.table.size * pool.page_size
    extra = [(-width % chunk, (0, chunk // 2, chunk + 1)[query % 3]) for query, width in enumerate(widths)]
    if not any(beside for beside, _ in extra) or not any(apart for _, apart in extra):
        return "no list ends within a chunk, or none gets a chunk of far cells"
    total = [width + beside + apart for width, (beside, apart) in zip(widths, extra, strict=True)]
    ids = np.full((len(widths), max(total) + TAIL), inputs.ids[0, -1], dtype=np.int32)
    for query, (width, (beside, apart)) in enumerate(zip(widths, extra, strict=True)):
        ids[query, : total[query]] = np.concatenate(
            [inputs.ids[query, :width], np.repeat([first + _BESIDE, first + _APART], [beside, apart])]
        )
    steps = inputs.steps.copy()
    steps[:, WIDTH] = total
    made = replace(inputs, pool=longer, ids=ids, steps=steps, widths=np.array(total, dtype=np.int64))
    gap = smallest_gap(made, inputs.widths)
    if not gap >= GAP:
        return f"far cells are 2^-{gap:.0f} of the largest weight, expected 2^-{GAP} or less"
    return made


def smallest_gap(inputs: Inputs, widths: np.ndarray) -> float:
    """How far the nearest cell behind `widths` lies below the largest score before, in powers of two of the weight.

    Infinity where nothing stands behind; minus infinity for a list without a resident cell before.
    """
    gap = math.inf
    for query, (width, total) in enumerate(zip(widths.tolist(), inputs.widths.tolist(), strict=True)):
        before = len(fp16_fields.slots(inputs, query, width)[0])
        scores = terms(inputs.q[query], inputs.pool, inputs.ids[query], total).scores
        if before == 0:
            return -math.inf
        if scores.shape[-1] > before:
            distance = scores[..., :before].max(axis=-1) - scores[..., before:].max(axis=-1)
            gap = min(gap, float(distance.min()) * LOG2_E)
    return gap


def _against(q: np.ndarray, heads: int) -> np.ndarray | None:
    """int8 [kv, 256] of -1 and 1: signs opposite to those of all query heads; None where they disagree."""
    grouped = q.reshape(len(q), heads, -1, HEAD_DIM)
    positive, negative = (grouped > 0).any(axis=(0, 2)), (grouped < 0).any(axis=(0, 2))
    if (positive & negative).any():
        return None
    return np.where(positive, -1, 1).astype(np.int8)


def _largest_scales(inputs: Inputs, chunk: int) -> np.ndarray:
    """uint16 [kv, groups]: the largest |V scale| in the last, unfinished chunk of a list, the smallest of all lists."""
    bits = fp16_fields.halves(inputs.pool, "v") & np.uint16(0x7FFF)
    least = np.full((bits.shape[1], bits.shape[3]), _LARGEST, dtype=np.uint16)
    for query, width in enumerate(inputs.widths.tolist()):
        if width % chunk == 0:
            continue
        before = len(fp16_fields.slots(inputs, query, width - width % chunk)[0])
        page, slot = (place[before:] for place in fp16_fields.slots(inputs, query, width))
        tail = bits[page, :, slot]
        finite = np.where(fp16_fields.exponents(tail) == fp16_fields.SPECIAL, 0, tail)
        least = np.minimum(least, finite.max(axis=0, initial=0).astype(np.uint16))
    return least


def _keys(away: np.ndarray, form: str) -> Cells:
    """Two equal cells of far keys."""
    both = np.stack([away, away])
    if form == "fp16":
        return Cells((both * (8 * _KEY_SCALE)).astype(np.float16))
    if form == "int8":
        scale = np.full((*both.shape[:2], HEAD_DIM // INT8_GROUP), _KEY_SCALE, dtype=np.float16)
        return Cells((both * np.int8(127)).astype(np.int8), scale)
    return q4_0(both * np.int8(Q4_ZERO - 1), np.full((2, away.shape[0], 8), _KEY_SCALE, np.float16).view(np.uint16))


def _values(scale: np.ndarray, form: str) -> Cells:
    """Cells of large codes of both signs under scales (uint16 bits [cells, kv, groups]); FP16: the scales' values."""
    sign = (1 - 2 * (np.arange(HEAD_DIM) % 2)).astype(np.int8)
    shape = (*scale.shape[:2], HEAD_DIM)
    if form == "fp16":
        value = scale.view(np.float16).repeat(HEAD_DIM // scale.shape[-1], axis=-1)
        return Cells((value * sign).astype(np.float16))
    if form == "int8":
        return Cells(np.broadcast_to(sign * np.int8(127), shape).copy(), scale.view(np.float16))
    return q4_0(np.broadcast_to(sign * np.int8(Q4_ZERO - 1), shape), scale)


def q4_0(codes: np.ndarray, scale: np.ndarray) -> Cells:
    """Q4_0 rows of codes (int8 [cells, kv, 256], -8..7) and scales (uint16 bits [cells, kv, 8])."""
    block = (codes.astype(np.int64) + Q4_ZERO).reshape(*codes.shape[:2], -1, 2, Q4_BLOCK // 2)
    nibbles = block[..., 0, :] | block[..., 1, :] << 4
    pair = np.stack([scale & 0xFF, scale >> 8], axis=-1)
    return Cells(np.concatenate([pair, nibbles], axis=-1).astype(np.uint8).reshape(*codes.shape[:2], Q4_ROW))


def _with_cells(pool: Pool, keys: Cells, rows: Cells) -> Pool:
    """The pool with more logical pages behind those of the table, which hold the given cells and else poison."""
    more = -(-len(keys.data) // pool.page_size)
    own = place(keys, rows, pool.mode, np.arange(more, dtype=np.int32), more, pool.page_size)
    table = np.concatenate([pool.table, pool.k.shape[0] + own.table]).astype(np.int32)

    def joined(one: np.ndarray | None, two: np.ndarray | None) -> np.ndarray | None:
        return None if one is None or two is None else np.concatenate([one, two])

    k, v = np.concatenate([pool.k, own.k]), np.concatenate([pool.v, own.v])
    k_scale, v_scale = joined(pool.k_scale, own.k_scale), joined(pool.v_scale, own.v_scale)
    return replace(pool, k=k, v=v, k_scale=k_scale, v_scale=v_scale, table=table)
