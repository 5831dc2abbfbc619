"""The reference packers against rational arithmetic, and against the second implementation of Q4_0."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.core.random_streams import Stream
from validation.operations.kv_pack.reference import (
    hadamard,
    hadamard32,
    pack_fp16,
    pack_int8,
    pack_q4_0,
    q4_0_scales,
    unpack_int8,
    unpack_q4_0,
)

SEEDS = st.integers(0, 2**32)
#: Finite float32 whose squares and quotients stay far from overflow and underflow.
TAME = st.floats(-1000.0, 1000.0, width=32, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 2.0**-60)


def nearest_float32(x: Fraction) -> float:
    """The float32 nearest to a rational, ties to even, for magnitudes of normal float32."""
    if x == 0:
        return 0.0
    exponent = 0
    while abs(x) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (exponent - 23)
    return float(round(x / step) * step)  # round() of a Fraction is to even


@settings(max_examples=50, deadline=None)
@given(SEEDS, st.integers(-30, 17))
def test_int8_follows_the_definition_element_by_element(seed: int, exponent: int) -> None:
    x = Stream.of(seed, "x").normals((2, 128), exponent)
    codes, scale = pack_int8(x)
    assert codes.shape == x.shape
    assert scale.shape == (2, 2)
    for row in range(2):
        for group in range(2):
            own = x[row, group * 64 : group * 64 + 64]
            s = np.float32(np.abs(own).max() / np.float32(127)).astype(np.float16)
            assert scale[row, group] == s
            for value, code in zip(own, codes[row, group * 64 : group * 64 + 64], strict=True):
                want = 0 if s == 0 else max(-127, min(127, round(float(value / np.float32(s)))))
                assert int(code) == want


def test_int8_ties_go_to_even_and_zero_groups_stay_zero() -> None:
    x = np.zeros((1, 128), np.float32)
    x[0, :5] = [127, 0.5, 1.5, -0.5, -2.5]
    codes, scale = pack_int8(x)
    assert scale.tolist() == [[1.0, 0.0]]
    assert codes[0, :5].tolist() == [127, 0, 2, 0, -2]
    assert not codes[0, 64:].any()


def test_an_int8_scale_that_underflows_stores_zeros() -> None:
    codes, scale = pack_int8(np.full((1, 64), 2.0**-30, np.float32))
    assert scale[0, 0] == 0
    assert not codes.any()


def test_q4_0_codes_scale_and_nibble_order_of_a_hand_made_block() -> None:
    x = np.zeros((1, 32), np.float32)
    x[0, 3], x[0, 19], x[0, 0], x[0, 31] = -8.0, 7.0, 1.0, 8.0
    packed = pack_q4_0(x)
    assert q4_0_scales(packed).tolist() == [[1.0]]
    codes = np.full(32, 8)
    codes[3], codes[19], codes[0], codes[31] = 0, 15, 9, 15
    assert packed[0, 2:].tolist() == [int(codes[j]) | int(codes[j + 16]) << 4 for j in range(16)]


@pytest.mark.parametrize(("first", "second", "scale"), [(4.0, -4.0, -0.5), (-4.0, 4.0, 0.5)])
def test_q4_0_tie_takes_the_element_met_first(first: float, second: float, scale: float) -> None:
    x = np.zeros((1, 32), np.float32)
    x[0, 5], x[0, 20] = first, second
    assert q4_0_scales(pack_q4_0(x)).tolist() == [[scale]]


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(-20, 17), st.booleans())
def test_q4_0_bytes_equal_those_of_the_gguf_package(seed: int, exponent: int, ties: bool) -> None:
    from gguf import GGMLQuantizationType, quants

    x = Stream.of(seed, "x").normals((5, 256), exponent)
    if ties:
        x = (Stream.of(seed, "t").below(17, (5, 256)) - 8).astype(np.float32) * np.float32(2.0**exponent)
    assert np.array_equal(pack_q4_0(x), quants.quantize(x, GGMLQuantizationType.Q4_0))


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_q4_0_values_equal_those_of_the_gguf_package(seed: int) -> None:
    from gguf import GGMLQuantizationType, quants

    rows = Stream.of(seed, "r").octets((3, 144)).copy()
    rows.reshape(3, 8, 18)[:, :, 1] &= 0xBF  # exponents below the largest: no infinity, no NaN
    theirs = quants.dequantize(rows, GGMLQuantizationType.Q4_0)
    assert np.array_equal(unpack_q4_0(rows), theirs.astype(np.float64))


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(-10, 10))
def test_unpacked_values_are_within_half_a_step(seed: int, exponent: int) -> None:
    x = Stream.of(seed, "x").normals((3, 256), exponent)
    codes, scale = pack_int8(x)
    # Half a step, and the largest value past 127 steps by what FP16 takes off its scale (2**-11).
    step = scale.astype(np.float64).repeat(64, axis=-1)
    assert (np.abs(unpack_int8(codes, scale) - x) <= step * (0.5 + 127 * 2.0**-11)).all()
    packed = pack_q4_0(x)
    step = np.abs(q4_0_scales(packed).astype(np.float64)).repeat(32, axis=-1)
    # A whole step where the opposite sign saturates at +7.
    assert (np.abs(unpack_q4_0(packed) - x) <= step * (1 + 8 * 2.0**-10)).all()


def test_unpack_int8_is_code_times_scale_exactly() -> None:
    codes = np.arange(-128, 128, dtype=np.int64).astype(np.int8).reshape(1, 256)
    scale = np.array([[0x0001, 0x8001, 0x7BFF, 0x2E66]], np.uint16).view(np.float16)
    want = [Fraction(int(c)) * Fraction(float(s)) for c, s in zip(codes[0], scale[0].repeat(64), strict=True)]
    assert [Fraction(float(v)) for v in unpack_int8(codes, scale)[0]] == want


def test_fp16_rounds_to_nearest_even_and_overflows_to_infinity() -> None:
    x = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 65519.0, 65520.0, -(2.0**-25), 2.0**-24], np.float32)
    assert pack_fp16(x).view(np.uint16).tolist() == [0x3C00, 0x3C02, 0x7BFF, 0x7C00, 0x8000, 0x0001]


def test_what_is_not_finite_is_packed_as_zero_and_kept_by_fp16() -> None:
    x = Stream.of(1, "x").normals((3, 256))
    x[0, :3], x[2, 255] = (np.nan, np.inf, -np.inf), np.nan
    clean = np.where(np.isfinite(x), x, np.float32(0))
    for got, want in zip(pack_int8(x), pack_int8(clean), strict=True):
        assert np.array_equal(got.view(np.uint8), want.view(np.uint8))
    assert np.array_equal(pack_q4_0(x), pack_q4_0(clean))
    x.view(np.uint32)[2, 255] = 0xFFC01234  # a NaN of another sign and payload
    half = pack_fp16(x).view(np.uint16)
    assert half[0, :3].tolist() == [0x7FFF, 0x7C00, 0xFC00]
    assert half[2, 255] == 0x7FFF
    assert (hadamard32(x)[[0, 2]].view(np.uint32) == 0x7FFFFFFF).all()
    assert np.isfinite(hadamard32(x)[1]).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_q4_0_codes_under_an_infinite_inverse(sign: int) -> None:
    x = np.zeros((1, 32), np.float32)
    x[0, 3], x[0, 20], x[0, 31] = sign * 2.0**-136, sign * 2.0**-140, -sign * 2.0**-149
    row = pack_q4_0(x)[0]
    assert row[:2].tolist() == [0, 0x80 if sign > 0 else 0]  # -2**-139 or 2**-139, which FP16 has as a zero
    codes = [*(row[2:] & 15), *(row[2:] >> 4)]
    assert [index for index, code in enumerate(codes) if code] == [31]
    assert codes[31] == 15


@given(SEEDS)
def test_hadamard_is_the_definition_and_its_own_inverse(seed: int) -> None:
    x = Stream.of(seed, "x").below(4096, (2, 256)).astype(np.float64) - 2048
    index = np.arange(256)
    signs = 1 - 2 * (np.bitwise_count(index[:, None] & index).astype(np.int64) & 1)
    assert np.array_equal(hadamard(x), x @ signs / 16)
    assert np.array_equal(hadamard(hadamard(x)), x)


@pytest.mark.parametrize("pack", [pack_int8, pack_q4_0])
def test_packers_refuse_what_is_not_float32_groups(pack: object) -> None:
    assert callable(pack)
    for bad in (np.zeros((1, 64)), np.zeros((1, 30), np.float32)):
        with pytest.raises(ValueError, match="expected float32"):
            pack(bad)
