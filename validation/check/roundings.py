"""Bounds made from counts of roundings, for kernels whose author derives no bound of his own.

A result that is formed by at most k roundings, each of a relative error of at most u, is off by at most

    gamma(k) * magnitude,        gamma(k) = k u / (1 - k u)

where `magnitude` is the same formula with every term replaced by its absolute value and every subtraction by a sum;
where nothing cancels that is the absolute value of the result [1, section 3.1]. Below the smallest normal number a
rounding is off by at most half of the smallest subnormal one, which no relative error covers: k of them add
k * 2**-150 * underflow, raised to a whole smallest number to cover the product of both.

An output narrower than float32 is rounded once more when it is stored.

References
----------
[1] N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM, 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.executors.lanes import Rule
from validation.check.refusal import callable_, refuse, whole
from validation.check.sizes import Sizes
from validation.numerics import tensorcore_bound

#: Unit roundoff of float32, round to nearest, and its smallest number.
U = 2.0**-24
SMALLEST = 2.0**-149
#: Unit roundoff and half of the smallest number of outputs that are narrower.
_STORED = {"float16": (2.0**-11, 2.0**-25)}
#: The reference is off as well: by as many roundings of 2**-53, 2**-29 of these; and so is this bound.
_WIDENED = 1 + 2.0**-28
#: Above this share the first-order reading of gamma is no help: a result without a correct bit.
_MOST_RELATIVE = 0.5
_PRODUCTS = (8, 16)

Count = int | Callable[[Sizes], int]
#: Inputs by name, float ones as float64.
Inputs = Mapping[str, np.ndarray]
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class TensorCore:
    """A chain of tensor-core instructions on fp16 operands, which cut addends where an FMA rounds.

    Parameters
    ----------
    products : int
        Products of one instruction: 8 for m16n8k8, 16 for m16n8k16.
    instructions : int or function of sizes
        Instructions that follow one another into one accumulator.

    Notes
    -----
    The error of a step is that of `validation.numerics.tensorcore_bound.instruction` under the rule of the executor,
    or of the widest known rule where the card's is not established. A chain of n such steps is off by at most
    ``(1 + e)**n - 1`` of the magnitude: each cut is relative to what was summed so far, earlier errors included.
    """

    products: int
    instructions: Count

    def __post_init__(self) -> None:
        if self.products not in _PRODUCTS:
            raise refuse("TensorCore.products", self.products, "8 (m16n8k8) or 16 (m16n8k16)")
        _count("TensorCore.instructions", self.instructions)

    def relative(self, sizes: Sizes, rule: Rule) -> float:
        """The relative error of the chain, of the sum of the magnitudes. Raises StrataError for a count that is
        none."""
        n = _counted("TensorCore.instructions", self.instructions, sizes)
        return float(np.expm1(n * np.log1p(tensorcore_bound.instruction(rule, self.products))))


@dataclass(frozen=True)
class Roundings:
    """The bound of an output from the number of roundings between the inputs and one of its elements.

    Parameters
    ----------
    count : int or function of sizes
        Roundings on the longest way from an input to an output: every addition, product, fma, division, square root
        and conversion that rounds counts once. A function with an error of e ulp counts as ``ceil(2 e)`` of them.
        For a tree or a loop over n elements the depth is enough, n is always safe.
    magnitude : function of (inputs, sizes), optional
        The reference's formula on absolute values: ``sum |x_i w_i|`` for a dot product. inputs: by name, float ones as
        float64. Gives an array of the output's shape, or arrays by the outputs' names. By default |reference|, which
        is right only where nothing cancels.
    tensor_core : TensorCore, optional
        Tensor-core instructions on the way, besides.
    underflow : float or function of (inputs, sizes)
        The largest factor that an intermediate result is multiplied by on its way to the output: an underflow grows
        by it. A function gives a number, or an array that broadcasts to the output's shape.
    flushed : float
        The magnitude below which a result may come out as zero: ``2.0**-126`` where subnormal results are flushed, as
        by `exp2_fma`. It widens the bound of no element that lies above it.

    Raises
    ------
    StrataError
        For counts and factors that are none.

    Notes
    -----
    The bound is ``((1 + gamma(count)) (1 + t) - 1) magnitude + count 2**-149 max(1, underflow)``, t the relative error
    of the tensor core; an output of float16 adds its last rounding. Where ``|reference|`` less the bound is below
    `flushed`, the bound is ``|reference|`` at least.
    """

    count: Count
    magnitude: Callable[[Inputs, Sizes], Any] | None = None
    tensor_core: TensorCore | None = None
    underflow: float | Callable[[Inputs, Sizes], Any] = 1.0
    flushed: float = 0.0

    def __post_init__(self) -> None:
        _count("Roundings.count", self.count)
        if self.magnitude is not None:
            callable_("Roundings.magnitude", self.magnitude, "inputs and sizes")
        if self.tensor_core is not None and not isinstance(self.tensor_core, TensorCore):
            raise refuse("Roundings.tensor_core", self.tensor_core, "a TensorCore, or None")
        if not callable(self.underflow) and not _factor(self.underflow):
            raise refuse("Roundings.underflow", self.underflow, "a factor above 0, or a function of inputs and sizes")

        if isinstance(self.flushed, bool) or not isinstance(self.flushed, int | float) or not 0 <= self.flushed < 1:
            raise refuse("Roundings.flushed", self.flushed, "a magnitude of at least 0 and below 1, such as 2.0**-126")

    def limit(
        self,
        reference: np.ndarray,
        magnitude: np.ndarray | None,
        dtype: str,
        sizes: Sizes,
        rule: Rule,
        grows: Any = 1.0,
    ) -> np.ndarray:
        """The bound of every element.

        Parameters
        ----------
        reference : float64 array
            The reference of the output.
        magnitude : float64 array of the same shape, optional
            What `magnitude` gave; None takes ``|reference|``.
        dtype : str
            The output's type.
        sizes : mapping
            Sizes by name.
        rule : Rule
            The tensor core's rule, for `tensor_core`.
        grows : float or array
            What `underflow` is, or gave.

        Returns
        -------
        float64 array
            Like `reference`; infinite or NaN where it or the magnitude is.

        Raises
        ------
        StrataError
            When the count leaves no correct bit.
        """
        count = _counted("Roundings.count", self.count, sizes)
        if count * U >= _MOST_RELATIVE:
            raise refuse("Roundings.count", count, f"fewer than {int(_MOST_RELATIVE / U)}: no bit would be right")
        chain = self.tensor_core.relative(sizes, rule) if self.tensor_core is not None else 0.0
        relative = (1 + gamma(count)) * (1 + chain) - 1
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.abs(reference) if magnitude is None else np.abs(np.asarray(magnitude, np.float64))
            limit = _WIDENED * relative * size + count * SMALLEST * np.maximum(1.0, np.abs(grows))
            if dtype in _STORED:
                unit, least = _STORED[dtype]
                limit = limit + unit * (np.abs(reference) + limit) + least
            if self.flushed:
                right = np.abs(reference)
                limit = np.where(right - limit < self.flushed, np.maximum(limit, right), limit)
        return np.asarray(limit, np.float64)


def gamma(count: int) -> float:
    """k u / (1 - k u) for k roundings of float32."""
    return count * U / (1 - count * U)


def _factor(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _count(what: str, value: Any) -> None:
    if not callable(value):
        whole(what, value, 0)


def _counted(what: str, value: Count, sizes: Sizes) -> int:
    return whole(what, value(sizes) if callable(value) else value, 0)
