"""What an operation's kernels compute, as the functions that predict its bits and bound its errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from validation.bounds import experts as bounds
from validation.bounds.experts import Allowed, Bounded
from validation.reference import expert_mmq as mmq
from validation.reference import experts as fused
from validation.reference.experts import Codes, Rows, Weights


@dataclass(frozen=True)
class Arithmetic:
    """quantise: float32 rows to codes; expert: the bits of gate, up and down on quantised tokens; product: FP64 of
    codes times weights with its bound; codes: what values with errors may be quantised to; path: the rounded model with
    its bound, of gate, up, down and quantised tokens."""

    quantise: Callable[[np.ndarray], Codes]
    expert: Callable[[Weights, Weights, Weights, Codes], Rows]
    product: Callable[[Weights, Codes], Bounded]
    codes: Callable[[Bounded], Allowed]
    path: Callable[[Weights, Weights, Weights, Codes], Bounded]


FUSED = Arithmetic(
    fused.quantise,
    fused.expert,
    lambda w, x: bounds.product(w, fused.values(x)),
    bounds.codes,
    lambda gate, up, down, x: bounds.path(gate, up, down, fused.values(x)),
)

MMQ = Arithmetic(
    mmq.quantise,
    mmq.expert,
    FUSED.product,  # the same roundings: of one factor, of the inner sum, of each step
    bounds.codes,
    FUSED.path,
)
