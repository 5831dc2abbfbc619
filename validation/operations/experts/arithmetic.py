"""What an operation's kernels compute, as the functions that predict its bits and bound its errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation.operations.experts import bound as bounds
from validation.operations.experts import bound_decode as decode_bounds
from validation.operations.experts import reference as fused
from validation.operations.experts import reference_decode as decode
from validation.operations.experts import reference_mmq as mmq
from validation.operations.experts.bound import Allowed, Bounded
from validation.operations.experts.inputs import Inputs, decoded
from validation.operations.experts.reference import Codes


@dataclass(frozen=True)
class Arithmetic:
    """quantise: float32 rows to codes; multiply: the bits of a matrix and codes; product: FP64 of them, with its bound;
    codes: what values with errors may be quantised to; decode: a matrix of a format, from its bytes and its number of
    rows. whole: whether the rounded model of `bounds.experts.path` bounds the path as a whole."""

    quantise: Callable[[np.ndarray], Codes]
    multiply: Callable[[Any, Codes], np.ndarray]
    product: Callable[[Any, Codes], Bounded]
    codes: Callable[[Bounded], Allowed] = bounds.codes
    decode: Callable[[str, np.ndarray, int], Any] = decoded
    whole: bool = True

    def matrices(self, inputs: Inputs, expert: int) -> tuple[Any, Any, Any]:
        """Gate, up and down of one expert."""
        gate, up, down = inputs.parts(expert)
        return (
            self.decode(inputs.gate_up, gate, inputs.ff),
            self.decode(inputs.gate_up, up, inputs.ff),
            self.decode(inputs.down, down, inputs.n),
        )

    def hidden(self, gate: Any, up: Any, x: Codes) -> tuple[np.ndarray, np.ndarray, Codes]:
        """The bits of gate and up of quantised tokens, and the codes of h."""
        g, u = self.multiply(gate, x), self.multiply(up, x)
        return g, u, self.quantise(fused.swiglu(g, u))


def _product(w: fused.Weights, x: Codes) -> Bounded:
    return bounds.product(w, fused.values(x))


FUSED = Arithmetic(fused.quantise, fused.product, _product)
#: The same roundings in another order of the factors.
MMQ = Arithmetic(mmq.quantise, mmq.product, _product)
#: Its truncation keeps it apart from the rounded model, by about 1.9e-3 in RMS.
DECODE = Arithmetic(
    decode.quantise, decode.product, decode_bounds.product, decode_bounds.codes, decode.matrix, whole=False
)
