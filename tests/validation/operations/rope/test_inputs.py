"""Recipes of rope reach what they are for: counted from the data."""

from __future__ import annotations

import numpy as np
import pytest

from validation.core.random_streams import Stream
from validation.operations.rope import inputs, plan, reference
from validation.operations.rope.case import RopeCase
from validation.operations.rope.inputs import Inputs
from validation.operations.rope.recipes import RECIPES


def made(name: str) -> Inputs:
    """Of the first quick case of a recipe."""
    return inputs.build(next(entry.case for entry in plan.planned(1, "quick") if entry.case.recipe == name))  # type: ignore[arg-type]


def due(given: Inputs) -> np.ndarray:
    return reference.turn_bits(given.x, given.cos[given.positions], given.sin[given.positions])


@pytest.mark.parametrize("name", RECIPES)
def test_inputs_are_the_same_each_time_and_no_position_is_outside(name: str) -> None:
    one, two = made(name), made(name)
    for field in ("x", "steps", "cos", "sin"):
        assert getattr(one, field).tobytes() == getattr(two, field).tobytes()
    assert (one.positions >= 0).all()
    assert (one.positions < len(one.cos)).all()


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "rope_sizes"])
def test_positions_that_are_not_asked_for_are_nan(name: str) -> None:
    given = made(name)
    others = np.setdiff1d(np.arange(len(given.cos)), given.positions)
    assert len(others)
    assert np.isnan(given.cos[others]).all()
    assert np.isnan(given.sin[others]).all()


def test_the_first_and_the_last_position_and_both_sides_of_powers_of_two_are_asked() -> None:
    case = RopeCase("rope_angles", 1, 48, context=32768)
    found = set(inputs.positions(case, Stream.of(1, "positions")).tolist())
    assert {0, 32767, 1, 16383, 16384, 1023, 1024} <= found
    assert {0, 32767} <= set(made("rope_angles").positions.tolist())


def test_cancelling_leaves_what_only_a_fused_product_leaves() -> None:
    given = made("rope_cancelling")
    at, half = given.positions, given.x.shape[2] // 2
    low, high = given.x[..., :half], given.x[..., half:]
    plain = low * given.cos[at][:, None] - high * given.sin[at][:, None]
    assert (plain == 0).all()
    assert (due(given)[..., :half] != 0).mean() > 0.9


def test_zeros_of_both_signs_come_out() -> None:
    out = due(made("rope_zeros"))
    assert min(((out == 0) & np.signbit(out)).sum(), ((out == 0) & ~np.signbit(out)).sum()) > 5


def test_broken_rows_have_all_that_is_no_number_and_the_last_has_none() -> None:
    given = made("rope_broken")
    assert min(np.isnan(given.x).sum(), np.isposinf(given.x).sum(), np.isneginf(given.x).sum()) > 0
    assert np.isfinite(given.x[-1]).all()
    out = due(given)
    assert min(np.isnan(out).sum(), np.isinf(out).sum()) > 0
    assert np.isfinite(out).mean() > 0.3


def test_the_ladder_has_subnormal_products_nothing_and_infinities() -> None:
    given = made("rope_ladder")
    out = due(given)
    tiny = np.finfo(np.float32).tiny
    assert ((np.abs(out) < tiny) & (out != 0)).sum() > 50
    assert (out == 0).sum() > 50
    assert np.isfinite(out).all(axis=(1, 2)).sum() >= 5
