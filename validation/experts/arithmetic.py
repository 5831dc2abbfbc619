"""What an operation's kernels compute, as the functions that predict its bits and bound its errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation.bounds import expert_decode as decode_bounds
from validation.bounds import experts as bounds
from validation.bounds.experts import Allowed, Bounded
from validation.experts.inputs import Inputs, Matrices
from validation.reference import expert_decode as decode
from validation.reference import expert_mmq as mmq
from validation.reference import experts as fused
from validation.reference.experts import Codes, Rows

#: Gate, up and down of one expert, as `Arithmetic.matrices` has them.
Three = tuple[Any, Any, Any]


@dataclass(frozen=True)
class Arithmetic:
    """quantise: float32 rows to codes; expert: the bits of its three matrices on quantised tokens; product: FP64 of a
    matrix and codes, with its bound; codes: what values with errors may be quantised to; decode: its own way to read
    an expert, None for that of the formats. whole: whether the rounded model of `bounds.experts.path` bounds the path
    as a whole."""

    quantise: Callable[[np.ndarray], Codes]
    expert: Callable[[Any, Any, Any, Codes], Rows]
    product: Callable[[Any, Codes], Bounded]
    codes: Callable[[Bounded], Allowed] = bounds.codes
    decode: Callable[[Inputs, int], Three] | None = None
    whole: bool = True

    def matrices(self, inputs: Inputs, expert: int, made: Matrices | None = None) -> Three:
        """Those of one expert. made: as the formats decode them, where that was done."""
        if self.decode is not None:
            return self.decode(inputs, expert)
        return inputs.matrices(expert) if made is None else made


def _decode_matrices(inputs: Inputs, expert: int) -> Three:
    gate, up, down = inputs.parts(expert)
    return (
        decode.matrix(inputs.gate_up, gate, inputs.ff),
        decode.matrix(inputs.gate_up, up, inputs.ff),
        decode.matrix(inputs.down, down, inputs.n),
    )


def _product(w: fused.Weights, x: Codes) -> Bounded:
    return bounds.product(w, fused.values(x))


FUSED = Arithmetic(fused.quantise, fused.expert, _product)
#: The same roundings in another order of the factors.
MMQ = Arithmetic(mmq.quantise, mmq.expert, _product)
#: Its truncation keeps it apart from the rounded model, by about 1.9e-3 in RMS.
DECODE = Arithmetic(
    decode.quantise, decode.expert, decode_bounds.product, decode_bounds.codes, _decode_matrices, whole=False
)
