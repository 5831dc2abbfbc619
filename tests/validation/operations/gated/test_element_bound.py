"""Bounds of operations on elements hold everywhere, are not idle, and refuse what is wrong in the usual ways."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.core.random_streams import Stream
from validation.operations.gated import bound, reference
from validation.operations.gated.edges import beside, gates, values

MODES = ("gelu_tanh", "swiglu")


def finite(seed: int, name: str, count: int) -> np.ndarray:
    """Any finite bits."""
    bits = Stream.of(seed, name).below(1 << 31, count).astype(np.uint32) * np.uint32(2)
    bits = np.where((bits & 0x7F800000) == 0x7F800000, bits & np.uint32(0xBFFFFFFF), bits)
    return np.ascontiguousarray(bits).view(np.float32)


def assert_within(got: np.ndarray, due: np.ndarray, limit: np.ndarray) -> None:
    known = np.isfinite(got)
    assert known.any()
    assert (np.abs(got.astype(np.float64) - due) <= limit)[known].all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(MODES), st.integers(-12, 9), st.integers(-140, 120))
def test_activations_stay_within_their_bound(seed: int, mode: str, size: int, up_size: int) -> None:
    stream = Stream.of(seed, "bound")
    gate = np.concatenate([stream.child("gate").normals(60, size), finite(seed, "any", 30)])
    up = np.concatenate([stream.child("up").normals(60, up_size), finite(seed, "any up", 30)])
    assert_within(reference.gated_bits(mode, gate, up), reference.gated(mode, gate, up), bound.gated(mode, gate, up))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(-140, 120), st.integers(-30, 8))
def test_soft_capping_stays_within_its_bound(seed: int, size: int, beside_it: int) -> None:
    stream = Stream.of(seed, "bound")
    cap = float(abs(stream.child("cap").normals(1, size)[0]) + np.finfo(np.float32).tiny)
    x = np.concatenate([np.ldexp(np.float32(cap) * stream.child("x").normals(60), beside_it), finite(seed, "any", 30)])
    assert_within(reference.softcap_bits(x, cap), reference.softcap(x, cap), bound.softcap(x, cap))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_sums_stay_within_their_bound(seed: int) -> None:
    a, b = finite(seed, "a", 90), finite(seed, "b", 90)
    assert_within(reference.residual_bits(a, b), reference.residual(a, b), bound.residual(a, b))


@pytest.mark.parametrize("mode", MODES)
def test_activations_against_mpmath_beside_every_edge(mode: str) -> None:
    """So that no error of the reference makes room for one of the bound."""
    gate = beside(Stream.of(1, "edges"), gates(), (1, 26 * 25))[0][::3].copy()
    up = np.where(gate < 0, np.float32(2.0**118), np.float32(1))
    got, limit = reference.gated_bits(mode, gate, up), bound.gated(mode, gate, up)
    with mpmath.workdps(60):
        for g, by, value, most in zip(gate.tolist(), up.tolist(), got.tolist(), limit.tolist(), strict=True):
            v = mpmath.mpf(g)
            if mode == "gelu_tanh":
                v = 2 * mpmath.sqrt(2 / mpmath.pi) * (v + mpmath.mpf("0.044715") * v**3)
            assert abs(mpmath.mpf(value) - mpmath.mpf(g) * by / (1 + mpmath.exp(-v))) <= most, g


def test_soft_capping_against_mpmath_beside_every_edge() -> None:
    x = beside(Stream.of(1, "edges"), values() * 30, (1, 24 * 25))[0][::3].copy()
    got, limit = reference.softcap_bits(x, 30.0), bound.softcap(x, 30.0)
    with mpmath.workdps(60):
        for one, value, most in zip(x.tolist(), got.tolist(), limit.tolist(), strict=True):
            assert abs(mpmath.mpf(value) - 30 * mpmath.tanh(mpmath.mpf(one) / 30)) <= most, one


def test_bounds_are_within_ten_times_of_what_happens() -> None:
    stream = Stream.of(2, "idle")
    gate, up = stream.child("gate").normals(4000, 1), stream.child("up").normals(4000)
    shares = [
        np.abs(reference.gated_bits(mode, gate, up) - reference.gated(mode, gate, up)) / bound.gated(mode, gate, up)
        for mode in MODES
    ]
    shares.append(np.abs(reference.softcap_bits(gate, 3.0) - reference.softcap(gate, 3.0)) / bound.softcap(gate, 3.0))
    a, b = finite(2, "a", 4000), np.ldexp(finite(2, "a", 4000), -5)
    shares.append((np.abs(reference.residual_bits(a, b) - reference.residual(a, b)) / bound.residual(a, b))[a != 0])
    assert min(float(share.max()) for share in shares) > 0.1


def test_bounds_refuse_what_is_wrong_in_the_usual_ways() -> None:
    stream = Stream.of(3, "wrong")
    gate, up = stream.child("gate").normals(64, 1), stream.child("up").normals(64)
    want, limit = reference.gated("gelu_tanh", gate, up), bound.gated("gelu_tanh", gate, up)
    sigmoid = gate.astype(np.float64) / (1 + np.exp(-1.702 * gate.astype(np.float64))) * up
    relu = np.maximum(gate, 0).astype(np.float64) * up
    for wrong in (sigmoid, relu, reference.gated("swiglu", gate, up), reference.gated("gelu_tanh", up, gate), -want):
        assert (np.abs(wrong - want) > limit).mean() > 0.5
    want, limit = reference.softcap(gate, 3.0), bound.softcap(gate, 3.0)
    for wrong in (gate.astype(np.float64), np.clip(gate, -3, 3), reference.softcap(gate, 3.01), np.tanh(gate / 3)):
        assert (np.abs(wrong - want) > limit).mean() > 0.5
