"""How far prompt attention may be from FP64: what its arithmetic allows, and the published gates.

Derived bound, per element, by `bounds.softmax` from these errors (U = 2**-24, one float32 rounding):

- score: `bounds.scores`, from the sizes of the case's own sums. Halves of q below the normal FP16
  range lose 2**-25 of a unit in which the head's largest |q| is 2**13 or more: 2**-38 of it (query).
- exponent: the difference of two scores and its scaling: 2 roundings, and that of log2(e)/16. Those
  of the running maximum telescope: its steps add up to the gap that is left.
- weight: exp2 is good to 2 U (0.83 ulp). rescale: each chunk's factor is another exp2, the same for
  all cells of all chunks before it, so what counts for two cells is the chunks from one to the other.
- numerator: weight times V scale, the split, the tensor core over a chunk, one fma a chunk, the
  division. A chunk of 64 cells is two sums of 32. denominator: adds inside a chunk, one fma a chunk.
- floor: halves below the normal range, as for q, and weights that exp2 flushes below 2**-126.

Cross terms are below 2**-9 of these sums, which every sum is raised by.

How tight: over the 174 prompt cases of the quick profile on lanes (rule sm_90, seed 1) the median of
a case's largest observed error over bound is 1/17, 1/14 over the 150 cases that are not exact; the
largest is 0.23 (`peaked`). A kernel of operations that are all as wrong as they may be reaches 0.9 (tests).
Far below lie `flat` (1/1900: equal keys have equal errors of their scores, which the bound does not
know) and `tiny_q` (1/100: no score and no weight is in error at all).

Published gates, from the parity program `qsa_prompt_attn_parity`.
Maxima run over one case; `new` is the path, `old` its baseline, `ref` the FP64 reference.

- Gate 1, accuracy: max|new - ref| <= max(4 max|old - ref|, 1e-6 max|ref|)
- Gate 2, agreement: max|new - old| <= 1e-4 max|old|, over all queries.

They compare the largest errors of two kernels, which few queries estimate badly (a sound path would
fail beside a lucky baseline), and the program runs PUBLISHED_QUERIES or more. So they are required
from that many on. Below it no gate compares the two, not in the mean either: the elements of a head share the
errors of its scores, so a root mean square over few heads rests on few independent errors, and sound
kernels went beyond four times the baseline's by half (8 of 4,759 cases of one query and four heads). What the bound
leaves room for, a loss of precision, is seen by the ledger: the root mean square of error over bound, at one seed.
"""

from __future__ import annotations

import numpy as np

from strata.executors.lanes import Rule
from strata.kernels import tiers
from strata.kernels.paths import Path
from strata.kernels.prompt_attention import cells_per_chunk
from validation.numerics.roundoff import U
from validation.numerics.tensorcore_bound import high_low
from validation.operations.attention.bounds.scores import SPLIT
from validation.operations.attention.bounds.softmax import Rounding

BASELINE_RATIO = 4.0
FLOOR_OF_SCALE = 1e-6
AGREEMENT_OF_SCALE = 1e-4
PUBLISHED_QUERIES = 256

#: Cells that one accumulator of p.v sums.
CELLS_PER_SUM = 32
#: hi + lo of two binary16 numbers below the normal range, of their scale.
SPLIT_FLOOR = 2.0**-38
_CROSS = 1 + 2.0**-9


def rounding(path: Path, cells: int, rule: Rule) -> Rounding:
    """The errors of a path on one query, but for its scores', which `bounds.scores` has.

    Parameters
    ----------
    path
        A path of prompt attention.
    cells
        Ids of the query.
    rule
        The rule that the tensor core follows.
    """
    tier = tiers.find(path.tier)
    products, chunk = tier.fp16.k, cells_per_chunk(path.mode, tier.number)
    chunks, sums = -(-cells // chunk), chunk // CELLS_PER_SUM
    return Rounding(
        score=0.0,  # bounds.scores
        query=SPLIT_FLOOR,
        exponent=3 * U * _CROSS,
        weight=2 * U * _CROSS,
        numerator=(SPLIT + high_low(rule, products, CELLS_PER_SUM) + (2 + chunks * sums) * U) * _CROSS,
        denominator=(chunk // 4 + chunks) * U * _CROSS,
        floor=SPLIT_FLOOR + 2.0**-125,
        rescale=2 * U * _CROSS,
    )


def _largest(x: np.ndarray) -> float:
    return float(np.abs(x).max()) if x.size else 0.0


def accuracy(old: np.ndarray, ref: np.ndarray) -> float:
    """Gate 1: the largest |new - ref|. It is not finite if `old` is not.

    Parameters
    ----------
    old, ref
        Arrays of one shape: the baseline, and the reference.
    """
    return float(np.maximum(BASELINE_RATIO * _largest(old - ref), FLOOR_OF_SCALE * _largest(ref)))


def agreement(old: np.ndarray) -> float:
    """Gate 2: the largest |new - old|, over all queries.

    Parameters
    ----------
    old
        float32 or float64, the baseline's outputs.
    """
    return AGREEMENT_OF_SCALE * _largest(old)
