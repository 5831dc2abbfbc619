"""Products in exact rationals, which the tests of model and bound share: of the numbers themselves, and as the
definition rounds them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from strata.formats import FORMATS
from tests.validation.operations.rounding import rounded
from validation.core.random_streams import Stream
from validation.operations.linear import blocks
from validation.operations.linear.formats import GROUP, HALVES

#: Of one scale, two scales, an offset of each kind, codebooks, and FP16.
MODES = ("q4_0", "q6_k", "q5_1", "q4_k", "iq2_s", "f16")


def drawn(seed: int, mode: str, kind: str, exponent: int, rows: int = 2, outputs: int = 2) -> tuple[np.ndarray, ...]:
    """A matrix of a recipe's kind, and rows float32 of about 2**exponent. The last is nowhere negative, so that
    its codes have large sums."""
    stream, width = Stream.of(seed, mode, kind), 64 if mode in ("q4_0", "q5_1") else 132 if mode == HALVES else 256
    matrix = blocks.matrix(stream.child("matrix"), kind, mode, outputs, width)
    size = exponent + stream.child("size").below(3, (rows, width)) - 1
    x = np.ldexp(stream.child("x").normals((rows, width)).astype(np.float64), size).astype(np.float32)
    x[-1] = np.abs(x[-1])
    return matrix, x


def weights(mode: str, matrix: np.ndarray) -> list[list[Fraction]]:
    """The numbers of a matrix."""
    if mode == HALVES:
        return [[Fraction(float(one)) for one in row] for row in matrix.view(np.float16)]
    form, found = FORMATS[mode], []
    for row in matrix.reshape(len(matrix), -1, form.nbytes):
        parts = form.parts(row)
        codes, scales = parts.codes.reshape(-1), parts.scales.reshape(-1)
        offsets = np.zeros(len(codes) // GROUP) if parts.offsets is None else parts.offsets.reshape(-1)
        each = len(codes) // len(scales)
        found.append(
            [
                Fraction(float(scales[k // each])) * int(code) - Fraction(float(offsets[k // GROUP]))
                for k, code in enumerate(codes)
            ]
        )
    return found


def product(weights: list[Fraction], x: np.ndarray) -> Fraction:
    """The sum of the products of an output's weights with a row."""
    return sum((w * Fraction(float(one)) for w, one in zip(weights, x, strict=True)), Fraction(0))


def one(value: Fraction) -> Fraction:
    """A number rounded once to float32."""
    return Fraction(float(rounded(value)))


def dot(a: list[int], b: list[int]) -> int:
    """The sum of products of codes."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def codes_of(x: np.ndarray) -> tuple[list[int], Fraction]:
    """Codes and scale of a group of 32 finite values, float32."""
    values = [Fraction(float(value)) for value in x]
    largest = max(abs(value) for value in values)
    if largest == 0 or 127 / largest >= Fraction(2) ** 128 * (1 - Fraction(1, 1 << 25)):
        return [0] * len(values), Fraction(0)
    inverse = one(127 / largest)
    return [round(one(value * inverse)) for value in values], one(largest / 127)  # ties to the even one


def rounded_product(mode: str, matrix: np.ndarray, output: int, x: np.ndarray) -> Fraction:
    """What the definition makes of an output of a row, every operation rounded once."""
    if mode == HALVES:
        return _of_halves(matrix.view(np.float16)[output], x)
    form = FORMATS[mode]
    parts = form.parts(matrix[output].reshape(-1, form.nbytes))
    codes, scales = parts.codes.reshape(-1).tolist(), [Fraction(float(s)) for s in parts.scales.reshape(-1)]
    each, total = form.scales, Fraction(0)
    for group in range(len(codes) // GROUP):
        c, d = codes_of(x[GROUP * group : GROUP * (group + 1)])
        q = codes[GROUP * group : GROUP * (group + 1)]
        width = GROUP // each
        dots = [dot(q[at : at + width], c[at : at + width]) for at in range(0, GROUP, width)]
        v = one(scales[each * group] * dots[0])
        if each == 2:
            v = one(scales[2 * group + 1] * dots[1] + v)
        if parts.offsets is not None:
            v = one(v - Fraction(float(parts.offsets.reshape(-1)[group])) * sum(c))
        total = one(v * d + total)
    return total


def _of_halves(w: np.ndarray, x: np.ndarray) -> Fraction:
    lanes = [Fraction(0)] * 32
    for k, (weight, value) in enumerate(zip(w, x, strict=True)):
        lane = k // 4 % 32
        lanes[lane] = one(Fraction(float(weight)) * Fraction(float(value)) + lanes[lane])
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [one(a + b) for a, b in zip(lanes[:half], lanes[half:], strict=True)]
    return lanes[0]
