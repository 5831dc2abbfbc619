"""The exact-bit model of an expert against fractions, and FP64 beside it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validation.operations.rounding import rounded
from validation.core.random_streams import Stream
from validation.numerics.fma import NAN
from validation.operations.experts import inputs
from validation.operations.experts import reference as experts
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.reference import BLOCK, LARGEST, Codes, Weights

BITS = st.integers(0, (1 << 32) - 1)


@settings(max_examples=200)
@given(st.lists(BITS, min_size=BLOCK, max_size=BLOCK))
def test_codes_follow_their_definition(bits: list[int]) -> None:
    x = np.array([bits], np.uint32).view(np.float32)
    got = experts.quantise(x)
    if not np.isfinite(x).all():
        assert got.lost == 1
        assert not got.q.any()
        assert got.scale.view(np.uint32)[0, 0] == NAN
        return
    assert got.lost == 0
    amax = max(abs(Fraction(float(v))) for v in x[0])
    inverse = rounded(Fraction(LARGEST) / amax) if amax else np.float32(np.inf)
    if np.isinf(inverse):
        assert not got.q.any()
        assert not got.scale.any()
        return
    assert got.scale[0, 0] == rounded(amax / LARGEST)
    for value, code in zip(x[0], got.q[0], strict=True):
        scaled = Fraction(float(rounded(Fraction(float(value)) * Fraction(float(inverse)))))
        assert code == round(scaled)  # of halves to even
        assert -LARGEST <= code <= LARGEST


def drawn(seed: int, rows: int, width: int, per_block: int) -> tuple[Weights, Codes]:
    stream = Stream.of(seed, "product")
    q = (stream.child("q").below(255, (rows, width)) - 127).astype(np.int8)
    scale = stream.child("scale").normals((rows, width // BLOCK * per_block), -9)
    return Weights(q, scale), experts.quantise(stream.child("x").normals((3, width), 2))


@pytest.mark.parametrize("per_block", [1, 2])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_a_product_is_what_fractions_say(per_block: int, seed: int) -> None:
    w, x = drawn(seed, 4, 96, per_block)
    got = experts.product(w, x)
    width = BLOCK // per_block
    for token in range(3):
        for row in range(4):
            acc = np.float32(0)
            for block in range(3):
                d_x = Fraction(float(x.scale[token, block]))
                parts = []
                for half in range(per_block):
                    at = slice(block * BLOCK + half * width, block * BLOCK + (half + 1) * width)
                    dot = int(w.q[row, at].astype(int) @ x.q[token, at].astype(int))
                    parts.append((Fraction(float(w.scale[row, block * per_block + half])), dot))
                inner = rounded(parts[0][0] * parts[0][1])
                for scale, dot in parts[1:]:
                    inner = rounded(scale * dot + Fraction(float(inner)))
                acc = rounded(d_x * Fraction(float(inner)) + Fraction(float(acc)))
            assert got[token, row] == acc


def test_a_scaled_dot_of_zero_is_positive_and_an_infinite_scale_gives_nan() -> None:
    scale = np.array([-2.0, 2.0, 0.0, -0.0, np.inf, -np.inf, np.nan, -2.0], np.float32)
    dot = np.array([0, -0.0, -3, 3, 5, 0, 5, 3], np.float32)
    zeros, lost = experts.scaled(scale, dot)[:4], experts.scaled(scale, dot)[4:7]
    assert (zeros.view(np.uint32) == 0).all()
    assert (lost.view(np.uint32) == NAN).all()
    assert experts.scaled(scale, dot)[7] == -6


def test_swiglu_s_ends() -> None:
    gate = np.array([0.0, -0.0, 200.0, -200.0, np.inf, -np.inf, np.nan, 1.0], np.float32)
    out = experts.swiglu(gate, np.full(8, 2.0, np.float32))
    assert out[0] == 0
    assert out[2] == 400
    assert out[3] == 0
    assert np.isinf(out[4])
    assert (out[5:7].view(np.uint32) == NAN).all()
    assert abs(float(out[7]) - 2 / (1 + np.exp(-1.0))) < np.spacing(np.float32(2))


def test_the_rounded_model_is_the_exact_one_but_for_roundings() -> None:
    """Their difference is of float32 roundings and of codes on ties; that to the unrounded one is of int8 codes."""
    case = ExpertCase("experts_decades", 1, 5, 2, 1, 512, 64)
    data = inputs.build(case, "iq3_s/iq4_nl")
    made = data.matrices(0)
    codes = experts.quantise(data.x)
    bits = experts.expert(*made, codes).out.astype(np.float64)
    near, far = experts.rounded(*made, codes), experts.unrounded(*made, data.x)
    size = np.abs(near).max(axis=1, keepdims=True)
    assert (np.abs(bits - near) / size).max() < 1 / LARGEST**2
    assert (np.abs(far - near) / size).max() > 1 / LARGEST**2


def test_ties_go_to_even() -> None:
    x = np.zeros((1, experts.BLOCK), np.float32)
    x[0, :6] = 127, 0.5, 1.5, 2.5, -0.5, -1.5
    assert experts.quantise(x).q[0, :6].tolist() == [127, 0, 2, 2, 0, -2]
