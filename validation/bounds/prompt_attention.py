"""How far prompt attention may be from FP64 and from the kernel it replaces: the published gates.

Source: the parity program `qsa_prompt_attn_parity` of the published engine, whose two conditions a
kernel had to meet before it was used (spec/attention.md, section 4.1). Every maximum runs over the
elements of one case; `new` is the path, `old` its baseline, `ref` the FP64 reference.

Gate 1, accuracy:   max|new - ref| <= max(4 max|old - ref|, 1e-6 max|ref|)
    The path may be at most four times as far from the truth as the plain FP32 kernel, and an error
    of 1e-6 of the output's scale is never an error: 2**-20 of the scale, sixteen roundings of a
    float32, is less than one FP32 sum of 2,051 weighted values is entitled to.
Gate 2, agreement:  max|new - old| <= 1e-4 max|old|
    Over all queries, also those without a reference. It bounds what one wrong element may hide.
Anchor (ours):      max|old - ref| <= 1e-4 max|ref|
    Gate 1 is as wide as the baseline is wrong, and gate 2 is passed by a fault that both kernels
    share (one wrong table, one wrong header). So the baseline itself must agree with the truth as
    closely as gate 2 asks the kernels to agree with one another.

K8V4 is gated on the exact reference, because this project's kernels keep V exact; the distance to
the reference with V rounded to FP16 is reported beside it.
"""

from __future__ import annotations

import numpy as np

BASELINE_RATIO = 4.0
FLOOR_OF_SCALE = 1e-6
AGREEMENT_OF_SCALE = 1e-4


def _largest(x: np.ndarray) -> float:
    return float(np.abs(x).max()) if x.size else 0.0


def accuracy(old: np.ndarray, ref: np.ndarray) -> float:
    """Gate 1: the largest |new - ref|. old, ref: arrays of one shape. Not finite if `old` is not."""
    return float(np.maximum(BASELINE_RATIO * _largest(old - ref), FLOOR_OF_SCALE * _largest(ref)))


def agreement(old: np.ndarray) -> float:
    """Gate 2: the largest |new - old|, over all of `old`."""
    return AGREEMENT_OF_SCALE * _largest(old)


def anchor(ref: np.ndarray) -> float:
    """The largest |old - ref| of a baseline that may serve as one."""
    return AGREEMENT_OF_SCALE * _largest(ref)
