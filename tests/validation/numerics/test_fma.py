"""float32 fma made of float64, against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validation.operations.rounding import rounded
from validation.numerics.fma import NAN, Fma, exact, fma, gridded, units

BITS = st.integers(0, (1 << 32) - 1)


def single(bits: int) -> np.float32:
    return np.float32(np.array([bits], np.uint32).view(np.float32)[0])


def one_fma(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    return np.float32(fma(np.array([a]), np.array([b]), np.array([c]))[0])


@settings(max_examples=400)
@given(BITS, BITS, BITS)
def test_fma_is_rounded_once(a: int, b: int, c: int) -> None:
    x, y, z = single(a), single(b), single(c)
    got = one_fma(x, y, z)
    if not all(np.isfinite(v) for v in (x, y, z)):
        with np.errstate(all="ignore"):
            assert np.isnan(got) == np.isnan(np.float64(x) * np.float64(y) + np.float64(z))
        return
    want = rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))
    assert got == want
    assert not np.isnan(got)


@settings(max_examples=300)
@given(st.integers(1 << 23, (1 << 24) - 1), st.integers(-516_128, 516_128), st.integers(0, 60), BITS)
def test_fma_beside_halves(scale: int, dot: int, shift: int, low: int) -> None:
    """Sums that lie on or just beside the middle of two float32: where a second rounding would go wrong."""
    p = np.float32(scale)
    product = Fraction(scale) * dot
    step = Fraction(2) ** (shift - 30)
    c = rounded(-product + step * (2 * (low % 1024) + 1))
    got = one_fma(p, np.float32(dot), c)
    assert got == rounded(product + Fraction(float(c)))


def test_nans_of_sums_have_the_bits_of_a_card() -> None:
    inf, one = np.array([np.inf], np.float32), np.ones(1, np.float32)
    for a, b, c in ((inf, one, -inf), (inf, 0 * one, one), (one, one, np.array([-np.nan], np.float32))):
        assert fma(a, b, c).view(np.uint32)[0] == NAN


def test_a_sum_that_float64_rounds_to_half_way_is_rounded_once() -> None:
    """1 + 2**-23 + 2**-24 - 2**-70 is below the middle of two float32; in float64 it is the middle, and would go up."""
    c = np.float32(1 + 2.0**-23)
    got = fma(np.array([c]), np.array([(1 - 2.0**-23) * 2.0**-24], np.float32), np.array([c]))
    assert got[0] == c


def power(exponent: int) -> np.float32:
    return np.float32(np.ldexp(1.0, exponent))


@settings(max_examples=300)
@given(
    st.integers(-(1 << 24) + 1, (1 << 24) - 1),
    st.integers(-(1 << 24) + 1, (1 << 24) - 1),
    st.integers(-(1 << 24) + 1, (1 << 24) - 1),
    st.integers(-149, 0),
)
def test_sums_of_multiples_of_the_smallest_float32_are_rounded_once(a: int, b: int, c: int, e: int) -> None:
    """Cancellation, zeros and sums below the normal range among them; made in the memory of an addend."""
    x, y = np.float32(a) * power(e), np.float32(b) * power(-149 - e)
    z = rounded(-Fraction(float(x)) * Fraction(float(y)) + Fraction(c) * Fraction(2) ** -149)
    with np.errstate(all="ignore"):
        out = np.array([z])
        Fma((1,), True)(np.array([x]), np.array([y]), out, out=out)
    assert out[0] == rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))


@settings(max_examples=300)
@given(st.lists(BITS.filter(lambda bits: bits & 0x7F800000 != 0x7F800000), min_size=1, max_size=4))
def test_units_are_of_the_last_bit_and_of_the_largest(bits: list[int]) -> None:
    x = np.array([*bits, 0x7F800000, 0x7FC00000, 0], np.uint32).view(np.float32)
    live = [abs(Fraction(float(v))) for v in x[: len(bits)] if v]
    last, size = units(x)
    if not live:
        assert (last, size) == (-149, -148)
        return
    multiples = [v / Fraction(2) ** last for v in live]
    assert all(v.denominator == 1 for v in multiples)
    assert any(v.numerator % 2 for v in multiples)
    assert Fraction(2) ** (size - 24) <= max(live) < Fraction(2) ** size


def test_gridded_products_end_where_float32_does() -> None:
    x = np.array([power(-60), power(3)])
    assert gridded(units(x), units(np.array([power(-89)])))
    assert not gridded(units(x), units(np.array([power(-90)])))


def test_sums_are_exact_up_to_the_bits_of_float64() -> None:
    """Below 1 and multiples of 2**-50: times 7 they take 53 bits."""
    x = np.array([1 - 2.0**-24, 2.0**-50, np.inf], np.float32)
    assert exact(units(x), 7)
    assert not exact(units(x), 8)
    assert not exact(units(x), 1 << 53)


@settings(max_examples=200)
@given(st.lists(st.integers(-(1 << 16), 1 << 16), min_size=3, max_size=3), st.integers(-40, 40))
def test_an_exact_sum_is_rounded_once(parts: list[int], exponent: int) -> None:
    a, c = (np.array([np.ldexp(float(part), exponent)], np.float32) for part in parts[:2])
    b = np.array([parts[2]], np.float32)
    assert exact(units(np.concatenate([a, c])), (1 << 16) + 1)
    out = np.empty(1, np.float32)
    Fma((1,), True, True)(a, b, c, out)
    assert out[0] == fma(a, b, c)[0]


def test_below_the_grid_a_sum_of_subnormals_is_looked_for() -> None:
    """A product of 2**-126 and a little, of 46 bits."""
    a, b = power(-100) + power(-123), power(-26) + power(-49)
    x, y, z = (np.array([v], np.float32) for v in (a, b, power(-149) * 3))
    assert not gridded(units(x), units(y))
    due = rounded(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(z[0])))
    assert fma(x, y, z)[0] == due


def test_one_doubtful_sum_among_others_is_done_again_alone() -> None:
    c = np.full((2, 3), 1 + 2.0**-23, np.float32)
    a, b = np.ones((2, 1), np.float32), np.zeros(3, np.float32)
    a[1], b[2] = c[0, 0], (1 - 2.0**-23) * 2.0**-24
    due = [[rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(c[0, 0]))) for y in b] for x in a[:, 0]]
    assert np.array_equal(fma(a, b, c), np.array(due))
