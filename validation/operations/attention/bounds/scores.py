"""How far a score of the prompt kernel may be from the exact one, from the sizes that its own sums have.

A warp adds 32 dims in one accumulator: the lo products first, then the hi ones, 16 dims (a slice) at a time, in
`steps` of `products` each. By the rule of the tensor core (docs/arithmetic.md) a step with accumulator c cuts at
most products + 1 addends, each by less than 2**-F of the largest of them, and its sum by less than
2**-23 of itself. In a slice, p the products and S the sum after it,

    largest addend <= max(max |p|, |c|),    max |p| <= (sum p**4)**(1/4)

with c the sum S of the slice before, or, between the steps of a slice, at most (|S before| + |S after| + sum |p|) / 2,
whichever products came first: |c| <= |S before| + what came, |c| <= |S after| + what is to come.
All of these are formed from the case's own q and K, in FP64; the errors made meanwhile and the lo sums, below
2**-11 of P = sum |p| over the 32 dims together, are added to every |c|. A common scale of K changes nothing.

Besides: q as hi + lo is off by 2**-23 of itself (hi leaves at most 2**-11, of 13 bits, of which lo keeps 11), the lo
steps, all whose addends are 2**-11 of P at most, and the roundings (U) of what follows: the sums of 32 dims are
put together to one of 64 with the K scale in two roundings (three for a scale per 32 dims), then four of those in
three.
"""

from __future__ import annotations

import numpy as np

from strata.executors.lanes import RULES, Rule
from validation.numerics.roundoff import U
from validation.numerics.tensorcore_bound import SLICE, TURING_RIVAL, slice_error
from validation.operations.attention.terms import Terms

DIMS_PER_SUM = 32
SPLIT = 2.0**-23
#: hi of a number leaves at most this part of it to lo.
LOW = 2.0**-11
_SCALE = 1.0 / 16.0
#: Products of two errors, each below 2**-9.
_CROSS = 1 + 2.0**-9


def score_error(of: Terms, products: int, rule: Rule) -> np.ndarray:
    """The largest error of every score.

    Parameters
    ----------
    of
        What the query's outputs are made of.
    products
        Products of one instruction of the tier.
    rule
        The rule that the tensor core follows.

    Returns
    -------
    float64 array [kv, group, n]
    """
    kv, group, dims = of.q.shape
    cells, slices = of.k.shape[-1], dims // SLICE
    q = of.q.reshape(kv, group, slices, SLICE).transpose(0, 2, 1, 3) * _SCALE
    k = of.k.reshape(kv, slices, SLICE, cells)
    shape = (kv, slices // 2, 2, group, cells)
    sums = (q @ k).reshape(shape)
    sizes = (np.abs(q) @ np.abs(k)).reshape(shape)
    largest = np.sqrt(np.sqrt(np.square(np.square(q)) @ np.square(np.square(k)))).reshape(shape)
    total = sizes.sum(axis=2)  # [kv, 8, group, n]
    spare = LOW * total
    first, second = np.abs(sums[:, :, 0]) + spare, np.abs(sums.sum(axis=2)) + spare
    halves = ((spare, first, sizes[:, :, 0], largest[:, :, 0]), (first, second, sizes[:, :, 1], largest[:, :, 1]))
    readings = (rule, TURING_RIVAL) if rule == RULES["sm_75"] else (rule,)
    cuts = [sum(slice_error(reading, products, *half) for half in halves) for reading in readings]
    cut = np.max(np.array(cuts), axis=0) + LOW * _low(rule, products) * total
    # 32 dims to 64, to all: partial sums in the order of the kernel.
    whole = sums.sum(axis=2)
    warps = whole[:, 0::2] + whole[:, 1::2]
    partial = np.abs(np.cumsum(warps, axis=1))[:, 1:].sum(axis=1)
    joined = np.abs(whole[:, 0::2]).sum(axis=1) + 2 * np.abs(warps).sum(axis=1) + partial
    size = total.sum(axis=1)
    return np.asarray((SPLIT * size + cut.sum(axis=1) + U * (joined + LOW * size)) * _CROSS)


def _low(rule: Rule, products: int) -> float:
    """The error of the lo steps of 32 dims, of the sum of the magnitudes of their products."""
    count = min(rule.block or products, products)
    steps = DIMS_PER_SUM // min(count, TURING_RIVAL.block)
    return steps * ((count + 1) * 2.0**-24 + 2.0**-23)
