"""The NumPy twin of the project's exp2: its fused multiply-add against rationals, its error and its ends."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from validation.core.random_streams import Stream
from validation.numerics.exp2 import exp2, fma32
from validation.numerics.tensorcore_model import float_of, float_value


def test_fma_is_rounded_once() -> None:
    count = 4000
    bits = [(Stream.of(1, name).words(count) >> np.uint64(9)).astype(np.uint32) for name in "abc"]
    bits = [np.where((x & 0x7F800000) == 0x7F800000, x & np.uint32(0x807FFFFF), x) for x in bits]
    # Most accumulators lie close to the product, where a second rounding would show.
    near = ((bits[0] >> np.uint32(23)) & 255).astype(np.int64) + ((bits[1] >> np.uint32(23)) & 255) - 127
    near = np.clip(near + Stream.of(1, "gap").below(60, count) - 30, 0, 254)
    close = (near.astype(np.uint32) << np.uint32(23)) | (bits[2] & np.uint32(0x807FFFFF))
    bits[2] = np.where(Stream.of(1, "close").below(10, count) < 7, close, bits[2])
    with np.errstate(over="ignore"):
        got = fma32(*(x.view(np.float32) for x in bits)).view(np.uint32)
    for a, b, c, have in zip(*(x.tolist() for x in bits), got.tolist(), strict=True):
        want = float_of(float_value(a) * float_value(b) + float_value(c), "rne")
        if want & 0x7FFFFFFF == 0:  # the sign of a zero is no matter of rounding
            assert have & 0x7FFFFFFF == 0
        else:
            assert have == want, (hex(a), hex(b), hex(c))


def test_a_double_rounding_is_avoided() -> None:
    """a * b + c just above the middle of two floats, by less than float64 can hold."""
    a, b, c = (np.array([x], np.float32) for x in (1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60))
    exact = Fraction(float(a[0])) * Fraction(float(b[0])) + Fraction(float(c[0]))
    assert int(fma32(a, b, c).view(np.uint32)[0]) == float_of(exact, "rne")
    twice = (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float32)
    assert twice.view(np.uint32)[0] != fma32(a, b, c).view(np.uint32)[0]


def test_every_result_is_a_neighbour_of_the_truth() -> None:
    """Faithful: one of the two floats around 2^x. The source states 0.83 units of the last place."""
    x = (Stream.of(2).below(254 << 20, 400_000).astype(np.float64) / 2**20 - 126).astype(np.float32)
    true = np.exp2(x.astype(np.float64))
    nearest = true.astype(np.float32)
    below = np.where(nearest <= true, nearest, np.nextafter(nearest, np.float32(0)))
    got = exp2(x)
    assert ((got == below) | (got == np.nextafter(below, np.float32(np.inf)))).all()


def test_integers_are_exact() -> None:
    n = np.arange(-126, 128).astype(np.float32)
    assert np.array_equal(exp2(n), np.ldexp(np.float32(1), n.astype(np.int32)))


def test_ends() -> None:
    x = np.array([128, np.inf, -np.inf, -126, np.nextafter(np.float32(-126), np.float32(-127)), -0.0, np.nan])
    want = [0x7F800000, 0x7F800000, 0, 0x00800000, 0, 0x3F800000, 0x7FFFFFFF]
    assert exp2(x.astype(np.float32)).view(np.uint32).tolist() == want
