"""Rows of codes as they lie in memory: for every 128 values a unit of 160 bytes.

A unit is four FP32 scales of groups of 32, four int32 sums of their codes, and 128 int8 codes. Groups behind the end of
a row are zeros.
"""

from __future__ import annotations

import numpy as np

from validation.operations.experts.reference import Codes
from validation.operations.linear.formats import GROUP

#: Groups of a unit, and bytes of one.
_GROUPS, _BYTES = 4, 160


def shape(rows: int, width: int) -> tuple[int, int, int]:
    """Rows, units of a row, and bytes of a unit."""
    return rows, -(-width // (_GROUPS * GROUP)), _BYTES


def packed(codes: Codes) -> np.ndarray:
    """uint8 of `shape`: the units of quantised rows."""
    rows, width = codes.q.shape
    made = shape(rows, width)
    more = made[1] * _GROUPS - width // GROUP
    q = np.pad(codes.q, ((0, 0), (0, more * GROUP)))
    scales = np.pad(codes.scale, ((0, 0), (0, more))).astype("<f4")
    sums = q.reshape(rows, -1, GROUP).sum(axis=-1, dtype=np.int32).astype("<i4")
    parts = (part.view(np.uint8).reshape(*made[:2], -1) for part in (scales, sums, q))
    return np.concatenate(list(parts), axis=-1)
