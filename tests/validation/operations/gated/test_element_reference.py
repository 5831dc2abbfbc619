"""References of operations on elements: FP64 by mpmath, bits against scalar walks with exact rationals."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from strata.executors.base import StrataError
from validation.core.random_streams import Stream
from validation.numerics.exp2 import exp2
from validation.numerics.tensorcore_model import float_of
from validation.operations.gated import reference

ENDS = [0.0, -0.0, 1e-30, -1e-30, 0.5, -0.5, 3.0, -3.0, 9.0, -9.0, 12.0, -12.0, 88.0, -88.0, 3e38, -3e38]


def _gelu(g: mpmath.mpf) -> mpmath.mpf:
    u = mpmath.sqrt(2 / mpmath.pi) * (g + mpmath.mpf("0.044715") * g**3)
    return g / 2 * (1 + mpmath.tanh(u))


def _silu(g: mpmath.mpf) -> mpmath.mpf:
    return g / (1 + mpmath.exp(-g))


@pytest.mark.parametrize(("mode", "exact"), [("gelu_tanh", _gelu), ("swiglu", _silu)])
def test_activations_are_the_definitions(mode: str, exact: object) -> None:
    """1 + tanh cancels: it takes as many digits as the result is small."""
    gates = np.array(ENDS, np.float32)
    with mpmath.workdps(4000 if mode == "gelu_tanh" else 60):
        for gate, got in zip(gates, reference.gated(mode, gates, np.ones_like(gates)), strict=True):
            if abs(gate) > 1e30:  # where an exponential of that size takes for ever
                assert float(got) == max(float(gate), 0)
                continue
            due = exact(mpmath.mpf(float(gate)))  # type: ignore[operator]
            assert abs(mpmath.mpf(float(got)) - due) <= abs(due) * mpmath.mpf(2) ** -40 + mpmath.mpf(2) ** -1060


def test_soft_capping_is_the_definition() -> None:
    x = np.array(ENDS, np.float32)
    with mpmath.workdps(60):
        for value, got in zip(x, reference.softcap(x, 30.0), strict=True):
            due = 30 * mpmath.tanh(mpmath.mpf(float(value)) / 30)
            assert abs(mpmath.mpf(float(got)) - due) <= abs(due) * mpmath.mpf(2) ** -50


def _rounded(exact: Fraction) -> Fraction:
    return Fraction(float(np.uint32(float_of(exact, "rne")).view(np.float32)))


def _power(exponent: Fraction) -> Fraction:
    return Fraction(float(exp2(np.array([float(exponent)], np.float32))[0]))


def _constant(of: np.ndarray | np.float32) -> Fraction:
    return Fraction(float(of))


def test_bits_are_those_of_a_walk_with_rationals() -> None:
    stream = Stream.of(1, "walk")
    gates, ups = stream.child("gate").normals(24, 1), stream.child("up").normals(24)
    gelu, silu = (reference.gated_bits(mode, gates, ups) for mode in ("gelu_tanh", "swiglu"))
    capped = reference.softcap_bits(gates, 3.0)
    for i in range(24):
        g, up = Fraction(float(gates[i])), Fraction(float(ups[i]))
        p = _rounded(_rounded(g * g) * _constant(reference.CUBIC) + 1)
        for got, power in (
            (gelu, _rounded(_rounded(g * p) * _constant(reference.GELU))),
            (silu, _rounded(g * _constant(reference.MINUS_LOG2_E))),
        ):
            due = _rounded(_rounded(g / _rounded(1 + _power(power))) * up)
            assert due == Fraction(float(got[i]))
        t = _power(_rounded(abs(_rounded(g / 3)) * _constant(reference.SOFTCAP)))
        due = _rounded(3 * _rounded(_rounded(1 - t) / _rounded(1 + t)))
        assert (due if g > 0 else -due) == Fraction(float(capped[i]))


def test_constants_are_the_nearest_floats() -> None:
    with mpmath.workdps(40):
        log2e = 1 / mpmath.log(2)
        for bits, exact in (
            (reference.CUBIC, mpmath.mpf("0.044715")),
            (reference.GELU, -2 * mpmath.sqrt(2 / mpmath.pi) * log2e),
            (reference.SOFTCAP, -2 * log2e),
            (reference.MINUS_LOG2_E, -log2e),
        ):
            beside = [np.nextafter(np.float32(bits), np.float32(end)) for end in (-9, 9)]
            nearest = min([np.float32(bits), *beside], key=lambda one: abs(mpmath.mpf(float(one)) - exact))
            assert nearest == bits


def test_another_mode_is_refused() -> None:
    x = np.ones(1, np.float32)
    for ask in (reference.gated, reference.gated_bits):
        with pytest.raises(StrataError, match="gated mode 'relu': expected gelu_tanh or swiglu"):
            ask("relu", x, x)
