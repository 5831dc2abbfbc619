"""How far the FP32 baseline may be from FP64, per element, by `bounds.softmax` (U = 2**-24).

- score: a chain of 8 products, 5 butterfly additions: 13 roundings; scaled by a rounded log2(e)/16:
  2 more. K is dequantised exactly.
- exponent: the differences to a chunk's maximum and of that to the largest: their sizes add up to the
  gap, one rounding each.
- weight: exp2 (2 U) inside a chunk and again in the merge.
- numerator: at most 64 fused multiply-adds in a chunk, one a chunk in the merge, the division.
  denominator: 6 additions in a chunk, one fma a chunk.
- floor: weights that exp2 flushes below 2**-126, in a chunk and in the merge.
"""

from __future__ import annotations

from strata.kernels.decode_attention import CELLS
from validation.numerics.roundoff import U
from validation.operations.attention.bounds.softmax import Rounding

_CROSS = 1 + 2.0**-9


def rounding(cells: int) -> Rounding:
    """The errors of the baseline on a query of `cells` ids."""
    chunks = -(-cells // CELLS)
    return Rounding(
        score=15 * U * _CROSS,
        query=0.0,
        exponent=U * _CROSS,
        weight=4 * U * _CROSS,
        numerator=(CELLS + chunks + 1) * U * _CROSS,
        denominator=(6 + chunks) * U * _CROSS,
        floor=2.0**-124,
    )
