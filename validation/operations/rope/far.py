"""Rope at the last rows, heads and positions of so many that every array has more than 2^32 elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from strata.executors.lanes import LanesExecutor
from strata.kernels import rope
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.core.verdict import Check
from validation.operations.rope.case import DIMS, RopeCase

#: Rows and positions at most, and heads of `DIMS` dims that come to as many elements of one row as need 33 bits.
_MOST, _HEADS = (1 << 31) - 1, (1 << 30) - 1
#: Rows that are turned, and their positions from the last on.
_ROWS = 3


def parts(case: RopeCase, executor: LanesExecutor) -> Sequence[Part]:
    """The last rows of the most, the last heads of one row, and the last positions of tables."""
    shapes = {
        "far rows": (_MOST, 1, DIMS, _ROWS),
        "far heads": (1, _HEADS, DIMS, 1),
        "far positions": (_ROWS, 1, DIMS, _MOST),
    }
    return [Part(name, partial(_far, case, executor, name, *shape)) for name, shape in shapes.items()]


def _far(case: RopeCase, executor: LanesExecutor, name: str, rows: int, heads: int, d: int, positions: int) -> Check:
    stream, near_rows, near_heads = case.stream(name), min(rows, _ROWS), min(heads, _ROWS)
    kept = min(positions, _ROWS)
    x = stream.child("x").normals((near_rows, near_heads, d))
    cos, sin = (stream.child(part).normals((kept, d // 2)) for part in ("cos", "sin"))
    steps = np.zeros((near_rows, rope.WORDS), np.int32)
    steps[:, 0] = np.arange(near_rows)[::-1] % kept
    near = rope.run(executor, x, steps, cos, sin)
    far_x, far_steps = Mapped((rows, heads, d), np.float32, "x"), Mapped((rows, rope.WORDS), np.int32, "steps")
    far_x.view()[-near_rows:, -near_heads:] = x
    far_steps.view()[-near_rows:] = steps
    far_steps.view()[-near_rows:, 0] += positions - kept
    far_cos, far_sin = (Mapped((positions, d // 2), np.float32, part) for part in ("cos", "sin"))
    for buffer, table in ((far_cos, cos), (far_sin, sin)):
        buffer.view()[-kept:] = table
    out = Mapped((rows, heads, d), np.float32, "out")
    grid, fours = rope.blocks(rows, heads, d), rows * heads * (d // (2 * rope.FOUR))
    first = (fours - near_rows * near_heads) // rope.THREADS
    args = (far_x, far_steps, far_cos, far_sin, out, np.int32(rows), np.int32(heads), np.int32(d))
    executor.launch_end(rope.kernel(), (grid, 1, 1), args, first)
    pairs = [("dims", out.view()[-near_rows:, -near_heads:], near.out)]
    return same(name, pairs, [far_x, far_steps, far_cos, far_sin, out])
