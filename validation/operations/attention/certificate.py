"""The true value of single outputs, enclosed between two rational numbers: what the FP64 reference is held against.

Everything here is exact but one function. q, K and V are integers times powers of two, read from the bits of
the inputs and from the bytes of the pool, so scores are integers in a common unit:

    s[c] = (q . K[c]) / 16 = S[c] 2^-k        out = sum_c w[c] V[c] / sum_c w[c],    w[c] = exp((S[c] - S[m]) 2^-k)

with m the cell of the largest score. Only w has to be enclosed: by mpmath's interval exp, to 2^-BITS absolute and
2^-120 relative. The sums are integers, the quotient a fraction. Nothing is shared with the reference: not the page
walk, not the decoders, not the order of a sum.

An enclosure costs about 15 microseconds a cell and head, so a case has a few, chosen by its seed: from its narrowest
row that has cells, its widest and one more, one query head of two KV heads each, and the same dims of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from mpmath.libmp import from_man_exp, mpi_exp

from strata.kernels.pool import HEAD_DIM, Pool
from validation.numerics.interval import Enclosure
from validation.operations.attention.pools import Inputs
from validation.operations.attention.selection import WIDTH
from validation.operations.kv_pack.case import Case

#: Fraction bits of a weight: more than any weight that FP64 tells from zero needs (2**-1074).
BITS = 1100
#: exp of less than minus this is below 2**-BITS.
VANISHED = 780
#: Precision of exp in mpmath, and the part of a weight by which its interval is widened besides, for mpmath
#: rounds a value that it computed to 14 more bits outwards and does not prove those.
PRECISION, WIDENED_BY = 128, 120
#: K and V in units of 2**-24, the smallest FP16 number; below 2**48 as such, so that two limbs of 24 bits hold it.
UNIT_BITS, LIMB_K, LIMB_Q = 24, 24, 21
#: KV heads of a row, and dims of a head, that are enclosed.
KV_HEADS, DIMS = 2, 4


class NotFiniteError(ValueError):
    """An input is infinite or NaN, so there is no true value to enclose; the message says which."""


def halves(bits: np.ndarray) -> np.ndarray:
    """int64: finite FP16 numbers, given as uint16 bits, in units of 2**-24. Raises NotFiniteError for others."""
    wide = bits.astype(np.int64)
    exponent, fraction = wide >> 10 & 31, wide & 1023
    if (exponent == 31).any():
        raise NotFiniteError("a value or scale of K or V is not finite, so no true value exists")
    size = np.where(exponent == 0, fraction, (fraction | 1024) << np.maximum(exponent - 1, 0))
    return np.asarray(np.where(wide >> 15 == 1, -size, size))


def units(plane: np.ndarray, scales: np.ndarray | None, pages: np.ndarray, slots: np.ndarray, head: int) -> np.ndarray:
    """int64 [cells, 256]: rows of one plane of the pool (K or V) in units of 2**-24, exact."""
    rows = plane[pages, head, slots]
    if scales is not None:  # int8: a scale for 64 dims
        scale = halves(scales[pages, head, slots].view(np.uint16))
        return np.asarray(rows.astype(np.int64) * np.repeat(scale, HEAD_DIM // scale.shape[-1], axis=-1))
    if rows.dtype != np.uint8:
        return halves(rows.view(np.uint16))
    blocks = rows.reshape(len(rows), 8, 18).astype(np.int64)  # q4_0: a scale for 32 dims, low nibbles first
    scale = halves((blocks[..., 0] | blocks[..., 1] << 8).astype(np.uint16))
    codes = np.concatenate([blocks[..., 2:] & 15, blocks[..., 2:] >> 4], axis=-1) - 8
    return np.asarray((codes * scale[..., None]).reshape(len(rows), HEAD_DIM))


def dots(q: np.ndarray, k: np.ndarray) -> tuple[list[int], int]:
    """The products q . k[c] in units of 2**-e, as (integers, e), e >= 0. q: float32 [256], finite; k: `units`.

    Limbs of 21 and 24 bits: every sum of 256 products is below 2**53, where FP64 is exact in any order.
    """
    bits = q.view(np.uint32).astype(np.int64)
    exponent = np.maximum(bits >> 23 & 255, 1)
    if (exponent == 255).any():
        raise NotFiniteError("an element of q is not finite, so no true value exists")
    fraction = np.where((bits >> 23 & 255) == 0, bits & 0x7FFFFF, bits & 0x7FFFFF | 0x800000)
    lowest = int(exponent[fraction > 0].min(initial=255))
    sizes = [f << max(e - lowest, 0) for f, e in zip(fraction.tolist(), exponent.tolist(), strict=True)]
    signs = np.where(bits >> 31 == 1, -1.0, 1.0)
    count = max(max(sizes).bit_length(), 1)
    limbs = range(0, count, LIMB_Q)
    mask = (1 << LIMB_Q) - 1
    q_limbs = np.array([[float(size >> at & mask) for size in sizes] for at in limbs]) * signs
    low, high = (k & (1 << LIMB_K) - 1).astype(np.float64), (k >> LIMB_K).astype(np.float64)
    parts = [(part.astype(np.int64)).tolist() for part in (q_limbs @ low.T, q_limbs @ high.T)]
    total = [0] * len(k)
    for at, low_row, high_row in zip(limbs, *parts, strict=True):
        total = [t + ((lo + (hi << LIMB_K)) << at) for t, lo, hi in zip(total, low_row, high_row, strict=True)]
    down = 150 - lowest + UNIT_BITS
    return (total, down) if down >= 0 else ([t << -down for t in total], 0)


def weights(products: Sequence[int], down: int) -> list[tuple[int, int]]:
    """Integers (low, high) with low <= exp(s[c] - max s) 2**BITS <= high, s[c] = products[c] 2**-down / 16."""
    best, shift = max(products), down + 4
    known: dict[int, tuple[int, int]] = {0: (1 << BITS, 1 << BITS)}

    def enclosed(gap: int) -> tuple[int, int]:
        if -gap > VANISHED << shift:
            return 0, 1
        x = from_man_exp(gap, -shift)
        # A raw number of mpmath is (sign, mantissa, exponent, bits); these are not negative.
        low, high = ((int(end[1]), int(end[2])) for end in mpi_exp((x, x), PRECISION))
        floor, ceiling = _shifted(*low), _shifted(*high) + 1
        return max(floor - (floor >> WIDENED_BY) - 1, 0), ceiling + (ceiling >> WIDENED_BY) + 1

    for product in products:
        gap = product - best
        if gap not in known:
            known[gap] = enclosed(gap)
    return [known[product - best] for product in products]


def _shifted(mantissa: int, exponent: int) -> int:
    """floor(mantissa 2**(exponent + BITS)), mantissa not negative."""
    place = int(exponent) + BITS
    return int(mantissa) << place if place >= 0 else int(mantissa) >> -place


def _mean(of: Sequence[tuple[int, int]], values: Sequence[int]) -> tuple[Fraction, Fraction]:
    """The weighted mean of integers under weights between the two ends of `of`, enclosed."""
    low = sum((w[0] if v >= 0 else w[1]) * v for w, v in zip(of, values, strict=True))
    high = sum((w[1] if v >= 0 else w[0]) * v for w, v in zip(of, values, strict=True))
    least, most = sum(w[0] for w in of), sum(w[1] for w in of)
    return Fraction(low, most if low >= 0 else least), Fraction(high, least if high >= 0 else most)


def enclose(inputs: Inputs, query: int, head: int, dims: Sequence[int], row: int = 0) -> list[Enclosure]:
    """Enclosures of out[query, head, dim] for every one of `dims`. Raises NotFiniteError."""
    pool: Pool = inputs.pool
    cells = inputs.ids[query, : int(inputs.steps[query, WIDTH])].astype(np.int64)
    pages, slots = pool.table[cells // pool.page_size].astype(np.int64), cells % pool.page_size
    here = pages >= 0
    pages, slots = pages[here], slots[here]
    if len(pages) == 0:
        return [Enclosure(row, query, head, dim, Fraction(0), Fraction(0)) for dim in dims]
    kv_head = head // (inputs.q.shape[1] // pool.n_head_kv)
    of = weights(*dots(np.ascontiguousarray(inputs.q[query, head]), units(pool.k, pool.k_scale, pages, slots, kv_head)))
    v = units(pool.v, pool.v_scale, pages, slots, kv_head)
    unit = Fraction(1, 1 << UNIT_BITS)
    ends = [_mean(of, v[:, dim].tolist()) for dim in dims]
    return [
        Enclosure(row, query, head, dim, low * unit, high * unit) for dim, (low, high) in zip(dims, ends, strict=True)
    ]


@dataclass
class Certificate:
    """Enclosures of one case in one mode. queries: those of the reference; sampled: outputs chosen by the case."""

    inputs: Inputs
    queries: np.ndarray
    sampled: list[Enclosure]
    _asked: dict[tuple[int, int, int], Enclosure] = field(default_factory=dict)

    def at(self, row: int, head: int, dim: int) -> Enclosure:
        """The enclosure of one more output, [row, head, dim] of the reference's array; kept once made."""
        place = (row, head, dim)
        if place not in self._asked:
            self._asked[place] = enclose(self.inputs, int(self.queries[row]), head, [dim], row)[0]
        return self._asked[place]


def certify(case: Case, inputs: Inputs, queries: np.ndarray) -> Certificate:
    """The certificate of a case: `queries`, int64, are those that have a reference; at least one."""
    stream = case.stream("certificate")
    widths = inputs.steps[queries, WIDTH].astype(np.int64)
    filled = np.where(widths > 0, widths, np.iinfo(np.int64).max)
    rows = {int(filled.argmin()), int(widths.argmax()), int(stream.child("row").below(len(queries), 1)[0])}
    group = inputs.q.shape[1] // inputs.pool.n_head_kv
    dims = sorted(set(stream.child("dims").below(HEAD_DIM, DIMS).tolist()))
    found: list[Enclosure] = []
    for row in sorted(rows):
        for kv_head in stream.child("kv", row).permutation(inputs.pool.n_head_kv)[:KV_HEADS].tolist():
            head = kv_head * group + int(stream.child("head", row, kv_head).below(group, 1)[0])
            found += enclose(inputs, int(queries[row]), head, dims, row)
    return Certificate(inputs, queries, found)
