"""Scores in exact rationals, which the tests of model and bound share: of the definition, and as each scorer rounds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from strata.executors.lanes import Rule
from strata.kernels.paths import PATHS, Path
from tests.validation.operations.rounding import rounded
from validation.numerics import tensorcore_model
from validation.numerics.tensorcore import Params

SCORERS = [PATHS[f"block_select{name}"] for name in ("_warp/fp32/simt", "/fp32/simt", "/fp32/sm75", "/fp32/sm80")]


def fractions(x: np.ndarray) -> list[Fraction]:
    return [Fraction(float(value)) for value in x]


def units(x: np.ndarray) -> list[int]:
    """Finite float32 as multiples of the smallest one, 2**-149: scaling a float64 by a power of two loses nothing."""
    return [int(value) for value in x.astype(np.float64) * 2.0**149]


def score(q: np.ndarray, key: np.ndarray) -> Fraction:
    """The sum over heads, float32 [heads, dims], of max(0, q . key), key float32 [dims]."""
    k = units(key)
    dots = (sum(a * b for a, b in zip(units(head), k, strict=True)) for head in q)
    return Fraction(sum(max(dot, 0) for dot in dots), 1 << 298)


def rounded_score(path: Path, rule: Rule, q: np.ndarray, key: np.ndarray) -> np.float32:
    """What a scorer makes of it, every operation rounded once, as its words say."""
    total = Fraction(0)
    for head in q:
        dot = _dot(path, rule, head, key)
        total = Fraction(float(rounded(total + (dot if dot > 0 else 0))))
    return np.float32(float(total))


def _dot(path: Path, rule: Rule, q: np.ndarray, key: np.ndarray) -> Fraction:
    if path.tier != "simt":
        return _tensor(8 if path.tier == "sm75" else 16, rule, q, key)
    a, b = fractions(q), fractions(key)
    if path.operation == "block_select":
        return _chain(a, b)
    sums = [_chain(a[at : at + 4], b[at : at + 4]) for at in range(0, len(a), 4)]
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [Fraction(float(rounded(x + y))) for x, y in zip(sums[:half], sums[half:], strict=True)]
    return sums[0]


def _chain(a: list[Fraction], b: list[Fraction]) -> Fraction:
    total = Fraction(0)
    for x, y in zip(a, b, strict=True):
        total = Fraction(float(rounded(x * y + total)))
    return total


def _tensor(products: int, rule: Rule, q: np.ndarray, key: np.ndarray) -> Fraction:
    (q_hi, q_lo, q_e), (k_hi, k_lo, k_e) = _split(q), _split(key)
    low, high = 0, 0
    params = Params(rule.block, rule.frac)
    for at in range(0, len(q_hi), 16):
        for first in range(at, at + 16, products):
            part = slice(first, first + products)
            low = tensorcore_model.dot(q_lo[part], k_hi[part], low, params)
        for first in range(at, at + 16, products):
            part = slice(first, first + products)
            low = tensorcore_model.dot(q_hi[part], k_lo[part], low, params)
        for first in range(at, at + 16, products):
            part = slice(first, first + products)
            high = tensorcore_model.dot(q_hi[part], k_hi[part], high, params)
    total = rounded(tensorcore_model.float_value(high) + tensorcore_model.float_value(low))
    e = q_e + k_e - 28
    first_power = Fraction(2) ** (e // 2)
    return Fraction(
        float(rounded(Fraction(float(rounded(Fraction(float(total)) * first_power))) * Fraction(2) ** (e - e // 2)))
    )


def _split(x: np.ndarray) -> tuple[list[int], list[int], int]:
    """Bits of both halves, and the exponent of the row."""
    largest = max(abs(value) for value in fractions(x))
    e = max(tensorcore_model.exponent_of(largest) + 1, -100) if largest else 0
    hi, lo = [], []
    for value in fractions(x):
        scaled = Fraction(float(rounded(value * Fraction(2) ** (14 - e))))
        top = _half(scaled)
        hi.append(top)
        lo.append(_half(scaled - tensorcore_model.half_value(top)))
    return hi, lo, e


def _half(value: Fraction) -> int:
    """binary16 bits of a fraction below 2**15, to nearest even."""
    if value == 0:
        return 0
    unit = Fraction(2) ** (max(tensorcore_model.exponent_of(value), -14) - 10)
    whole = tensorcore_model.cut(value / unit, "rne") * unit
    return int(np.float16(float(whole)).view(np.uint16))
