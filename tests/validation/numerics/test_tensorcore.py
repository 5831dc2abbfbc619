"""The bit model of the tensor core against exact rationals, published results and special values."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from validation.core.random_streams import Stream
from validation.numerics import tensorcore_model as rational
from validation.numerics.tensorcore import PRESETS, Params, dot, mma, mma_int8
from validation.numerics.tensorcore_data import FAMILIES, FINITE, tiles
from validation.numerics.tensorcore_parts import CANONICAL_NAN, decode, round_f32
from validation.numerics.tensorcore_vectors import VECTORS, VECTORS_K16, Vector, vector_operands, vectors

RIVALS = [
    replace(base, **{rule: word})  # type: ignore[arg-type]  # all of these fields are words
    for base in (Params(8, 24), Params(16, 25))
    for rule, words in {
        "align": ("floor", "rne"),
        "final": ("rne", "floor"),
        "c_join": ("after",),
        "prod_exp": ("norm",),
        "sub_in": ("norm", "flush"),
        "zero_exp": ("count",),
        "order": ("rev", "strided"),
        "neg_zero": ("ieee",),
    }.items()
    for word in words
]
RULES = [
    Params(4, 23), Params(4, 24), Params(8, 23), Params(8, 24), Params(8, 25), Params(16, 25), Params(16, 26),
    Params(16, 22), Params(8, 30), Params(4, 25, order="strided"),
]  # fmt: skip


def _name(params: Params) -> str:
    changed = [f"{rule}={word}" for rule, word in vars(params).items() if word != getattr(Params(), rule)]
    return " ".join(changed) or "common"


def test_every_half_is_decoded() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    read = decode(bits, 10, 5, "raw")
    finite = ~read.special
    value = np.ldexp(read.significand.astype(np.float64), read.exponent - 10)
    assert np.array_equal(value[finite], bits.view(np.float16).astype(np.float64)[finite])
    assert np.array_equal(read.nan, np.isnan(bits.view(np.float16)))


def test_rationals_read_floats_as_numpy_does() -> None:
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    for half in halves[np.isfinite(halves)][::7]:
        assert rational.half_value(int(half.view(np.uint16))) == Fraction(float(half))
    floats = (Stream.of(12).words(3000) >> np.uint64(11)).astype(np.uint32).view(np.float32)
    floats = np.concatenate([floats, np.array([0, 1, 0x007FFFFF, 0x00800000, 0x807FFFFF], np.uint32).view(np.float32)])
    for value in floats[np.isfinite(floats)]:
        assert rational.float_value(int(value.view(np.uint32))) == Fraction(float(value))


def test_rationals_round_as_numpy_does() -> None:
    """The reference's own rounding, where NumPy has an answer: float64 to float32, nearest even."""
    words = Stream.of(3).words(2000)
    values = words.view(np.float64)
    values = values[np.isfinite(values) & (np.abs(values) < 2.0**127) & (np.abs(values) > 2.0**-160)]
    near = (Stream.of(4).words(2000) >> np.uint64(2) | np.uint64(0x3000000000000000)).view(np.float64)
    ties = np.array([1 + 2.0**-24, 1 + 3 * 2.0**-24, 2.0**-150, 3 * 2.0**-150, 2.0**-126 - 2.0**-150])
    for value in np.concatenate([values, near, ties, -ties]):
        want = int(np.float32(value).view(np.uint32))
        assert rational.float_of(Fraction(float(value)), "rne") == want


def test_rounded_is_the_rounded_fraction() -> None:
    for family in FINITE:
        t = tiles(family, 1, 16, 5)
        for i, j in ((0, 0), (3, 6), (9, 2), (15, 7)):
            a, b, c = t.a[0, i].tolist(), t.b[0, :, j].tolist(), int(t.c[0, i, j])
            exact = sum(
                (rational.half_value(x) * rational.half_value(y) for x, y in zip(a, b, strict=True)),
                rational.float_value(c),
            )
            assert rational.rounded(a, b, c) == rational.float_of(exact, "rne")


@pytest.mark.parametrize("params", RULES + RIVALS, ids=_name)
def test_model_equals_the_rational_reference(params: Params) -> None:
    compared = 0
    for k in (8, 16):
        for family in FINITE:
            t = tiles(family, 2, k, 1)
            got = mma(t.a, t.b, t.c, params, integers=True)
            for tile, i, j in ((0, 0, 0), (0, 7, 3), (0, 15, 7), (1, 4, 1), (1, 11, 5)):
                want = rational.dot(t.a[tile, i].tolist(), t.b[tile, :, j].tolist(), int(t.c[tile, i, j]), params)
                assert int(got[tile, i, j]) == want, (family, k, tile, i, j)
                compared += 1
    assert compared == 2 * 11 * 5


@pytest.mark.parametrize("params", RIVALS, ids=_name)
def test_every_rival_is_told_apart(params: Params) -> None:
    """The families separate each changed rule from the common one: a card's scan can decide."""
    common = Params(params.block, params.frac)
    differ = 0
    for family in FINITE:
        t = tiles(family, 40, 16, 2)
        differ += int((mma(t.a, t.b, t.c, params) != mma(t.a, t.b, t.c, common)).sum())
    if params == Params(16, 25, order=params.order) and params.order != "seq":
        assert differ == 0  # one step has no order
    else:
        assert differ > 0


@pytest.mark.parametrize("params", [p for p in RULES if p.common], ids=_name)
def test_float_path_equals_integer_path(params: Params) -> None:
    compared = 0
    for k in (8, 16):
        for family in FAMILIES:
            t = tiles(family, 60, k, 3)
            want = mma(t.a, t.b, t.c, params, integers=True)
            assert np.array_equal(mma(t.a, t.b, t.c, params), want), (family, k)
            compared += want.size
    assert compared == 2 * 12 * 60 * 128


def test_small_integers_have_one_answer_everywhere() -> None:
    stream = Stream.of(6)
    for k in (4, 8, 16):
        a = (stream.child("a", k).below(33, (64, 16, k)) - 16).astype(np.float16)
        b = (stream.child("b", k).below(33, (64, k, 8)) - 16).astype(np.float16)
        c = (stream.child("c", k).below(1999, (64, 16, 8)) - 999).astype(np.float32)
        want = (a.astype(np.int64) @ b.astype(np.int64) + c.astype(np.int64)).astype(np.float32)
        for name, params in PRESETS.items():
            assert np.array_equal(mma(a, b, c, params).view(np.float32), want), (k, name)


INF, NAN = np.inf, np.nan
SPECIAL = [
    ("infinity", [INF], [1], 0.0, 0x7F800000),
    ("minus infinity", [INF], [-1], 0.0, 0xFF800000),
    ("infinity times zero", [INF], [0], 0.0, CANONICAL_NAN),
    ("infinity times minus zero", [INF], [-0.0], 0.0, CANONICAL_NAN),
    ("infinities of both signs", [INF, -INF], [1, 1], 0.0, CANONICAL_NAN),
    ("infinity and c of the other sign", [INF], [1], -INF, CANONICAL_NAN),
    ("infinity and c of the same sign", [INF], [1], INF, 0x7F800000),
    ("NaN in a", [0, NAN], [1, 1], 1.0, CANONICAL_NAN),
    ("NaN times zero", [NAN], [0], 1.0, CANONICAL_NAN),
    ("NaN in b beside infinity", [INF, 1], [1, NAN], 0.0, CANONICAL_NAN),
    ("NaN in c", [0], [1], NAN, CANONICAL_NAN),
    ("infinite c", [1], [1], INF, 0x7F800000),
    ("minus infinite c", [65504], [65504], -INF, 0xFF800000),
    ("minus zeros", [-0.0] * 16, [1] * 16, -0.0, 0),
    ("only c is minus zero", [0], [1], -0.0, 0),
    ("exact cancellation", [1, -1], [1, 1], 0.0, 0),
    ("cancellation from below", [-1], [1], 1.0, 0),
    ("largest c is not moved", [65504], [65504], float(np.finfo(np.float32).max), 0x7F7FFFFF),
    ("subnormal c", [0], [1], 2.0**-149, 1),
    ("negative subnormal c", [0], [1], -(2.0**-149), 0x80000001),
    ("smallest product", [2.0**-24], [2.0**-24], 0.0, 0x27800000),
]


@pytest.mark.parametrize("name", ["sm_70", "sm_75", "sm_90"])
@pytest.mark.parametrize("case", SPECIAL, ids=[case[0] for case in SPECIAL])
def test_special_values(name: str, case: tuple[str, list[float], list[float], float, int]) -> None:
    _, a, b, c, want = case
    padded = [np.array([(list(x) + [0.0] * 16)[:8]]).astype(np.float16) for x in (a, b)]
    assert int(dot(padded[0], padded[1], np.array([c], np.float32), PRESETS[name])[0]) == want


def test_overflow_is_infinity() -> None:
    """The largest float stays under products too small for it; 2^128 is infinity and not the maximum."""
    a = np.full((1, 8), 65504, np.float16)
    below = np.array([0x7F7FFFFF], np.uint32)
    assert int(dot(a, a, below, Params(8, 24))[0]) == 0x7F7FFFFF
    step = mma(np.full((16, 8), 2.0**15, np.float16), np.full((8, 8), 2.0**15, np.float16),
               np.full((16, 8), 0x7F7FFFFF, np.uint32), Params(8, 25))  # fmt: skip
    assert (step == 0x7F7FFFFF).all()
    # No half is large enough to cross 2^128 in one step, so the rounding itself is asked.
    sums = np.array([(1 << 25) - 1, 1 << 25, -(1 << 25)])
    assert round_f32(sums, np.full(3, 103), "rz").tolist() == [0x7F7FFFFF, 0x7F800000, 0xFF800000]


# sm_70, sm_75, sm_90, and sm_75 if a step had four products.
PUBLISHED = {
    "1*1, c = -(1-2^-24)": (0x34000000, 0x33800000, 0x33800000, 0x33800000),
    "1 + four 2^-25": (0x3F800000, 0x3F800000, 0x3F800001, 0x3F800000),
    "1 at k0, 2^-24 at k1 and k4": (0x3F800000, 0x3F800001, 0x3F800001, 0x3F800000),
    "1 at k0, -1 at k4, 1.5*2^-24 at k1": (0x00000000, 0x33800000, 0x33C00000, 0x00000000),
    "2.25*1 + 2^-23 + two 2^-24": (0x40100000, 0x40100000, 0x40100001, 0x40100000),
    "1.5*1.5 + 2^-23 + two 2^-24": (0x40100000, 0x40100001, 0x40100001, 0x40100001),
    "subnormal a: 2^-24 * 2^15, c = 2^-31": (0x3B000000, 0x3B000000, 0x3B000000, 0x3B000000),
    "0*65504 + 2^-24, c = 2^-46": (0x33800002, 0x33800002, 0x33800002, 0x33800002),
    "1 - 2^-27": (0x3F800000, 0x3F800000, 0x3F800000, 0x3F800000),
    "all products -0, c = -0": (0, 0, 0, 0),
}
# Section 3: one k16 on sm_90; two k8 there; either on sm_80.
PUBLISHED_K16 = {
    "1 at k0, 2^-24 at k1 and k8": (0x3F800001, 0x3F800000, 0x3F800000),
    "1 at k0, -1 at k8, 2^-24 at k1 and k9": (0x34000000, 0x33800000, 0x33800000),
}


@pytest.mark.parametrize("vector", [v for v in VECTORS if v.name in PUBLISHED], ids=lambda v: v.name)
def test_vectors_give_the_published_bits(vector: Vector) -> None:
    a, b, c = vector_operands([vector], 8)
    columns = ("sm_70", "sm_75", "sm_90", "sm_75_block4")
    assert tuple(int(dot(a, b, c, PRESETS[name])[0]) for name in columns) == PUBLISHED[vector.name]


def test_every_published_vector_is_there() -> None:
    assert {v.name for v in VECTORS} >= set(PUBLISHED)
    assert {v.name for v in VECTORS_K16} == set(PUBLISHED_K16)
    assert len(vectors(8)) == 20
    assert len(vectors(16)) == 22


@pytest.mark.parametrize("vector", VECTORS_K16, ids=lambda v: v.name)
def test_one_k16_against_two_k8(vector: Vector) -> None:
    a, b, c = vector_operands([vector], 16)

    def twice(params: Params) -> int:
        return int(dot(a[:, 8:], b[:, 8:], dot(a[:, :8], b[:, :8], c, params), params)[0])

    one, two, older = PUBLISHED_K16[vector.name]
    assert int(dot(a, b, c, PRESETS["sm_90"])[0]) == one
    assert twice(PRESETS["sm_90"]) == two
    assert int(dot(a, b, c, PRESETS["sm_80"])[0]) == twice(PRESETS["sm_80"]) == older


def test_operands_of_vectors_are_exact() -> None:
    for k in (8, 16):
        chosen = vectors(k)
        a, b, c = vector_operands(chosen, k)
        for i, v in enumerate(chosen):
            assert a[i].tolist() == (list(v.a) + [0.0] * k)[:k]
            assert b[i].tolist() == (list(v.b) + [0.0] * k)[:k]
            assert float(c[i]) == v.c


def test_order_of_k_matters_across_steps_only() -> None:
    t = tiles("normal", 50, 16, 4)
    inside = np.concatenate([np.arange(8)[::-1], 8 + np.arange(8)[::-1]])
    across = np.arange(16).reshape(2, 8).T.ravel()
    for params, same in ((Params(8, 24), False), (Params(16, 25), True)):
        want = mma(t.a, t.b, t.c, params)
        assert np.array_equal(mma(t.a[:, :, inside], t.b[:, inside], t.c, params), want)
        assert np.array_equal(mma(t.a[:, :, across], t.b[:, across], t.c, params), want) is same


def test_two_k8_are_one_k16_in_steps_of_8() -> None:
    for family in FAMILIES:
        t = tiles(family, 40, 16, 7)
        low = mma(t.a[:, :, :8], t.b[:, :8], t.c, Params(8, 25))
        twice = mma(t.a[:, :, 8:], t.b[:, 8:], low, Params(8, 25))
        assert np.array_equal(twice, mma(t.a, t.b, t.c, Params(8, 25)))


def test_leading_axes_broadcast() -> None:
    t = tiles("normal", 6, 8, 8)
    c = t.c.reshape(2, 3, 16, 8)
    got = mma(t.a[:3], t.b[0], c, Params())
    for i in range(2):
        for j in range(3):
            assert np.array_equal(got[i, j], mma(t.a[j], t.b[0], c[i, j], Params()))


def test_bad_operands_are_refused() -> None:
    t = tiles("normal", 1, 8, 9)
    with pytest.raises(ValueError, match="shapes"):
        mma(t.a, t.b[:, :4], t.c, Params())
    with pytest.raises(ValueError, match="multiple of the block of 8"):
        mma(np.zeros((16, 12), np.float16), np.zeros((12, 8), np.float16), np.zeros((16, 8), np.float32), Params())
    with pytest.raises(TypeError, match="float16 or uint16"):
        mma(t.a.astype(np.float32), t.b, t.c, Params())
    with pytest.raises(ValueError, match="align is 'up'"):
        Params(align="up")


@pytest.mark.parametrize(("a_type", "b_type"), [(np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8)])
def test_int8_is_exact(a_type: type, b_type: type) -> None:
    stream = Stream.of(10)
    a: np.ndarray[Any, Any] = stream.child("a").octets((32, 16, 32)).view(a_type)
    b: np.ndarray[Any, Any] = stream.child("b").octets((32, 32, 8)).view(b_type)
    c = stream.child("c").words((32, 16, 8)).astype(np.uint32).view(np.int32)
    # Some accumulators at the limits, so that wrapping and clamping happen.
    c.reshape(-1)[::3] = np.iinfo(np.int32).max
    c.reshape(-1)[1::3] = np.iinfo(np.int32).min
    exact = a.astype(object) @ b.astype(object) + c.astype(object)
    low, high = -(1 << 31), (1 << 31) - 1
    wrapped = np.array([(v - low) % (1 << 32) + low for v in exact.ravel()]).reshape(exact.shape)
    clamped = np.array([min(max(v, low), high) for v in exact.ravel()]).reshape(exact.shape)
    assert (wrapped != clamped).any()
    assert np.array_equal(mma_int8(a, b, c), wrapped)
    assert np.array_equal(mma_int8(a, b, c, satfinite=True), clamped)
