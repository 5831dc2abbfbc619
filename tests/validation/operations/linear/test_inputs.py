"""Recipes of dense products reach what they are for: counted from the data."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from strata.formats import FORMATS
from strata.kernels.linear_weights import LINEAR_FORMATS
from validation.operations.experts.reference import quantise
from validation.operations.linear import blocks, inputs, model, plan
from validation.operations.linear.case import LinearCase
from validation.operations.linear.formats import GROUP, HALVES
from validation.operations.linear.inputs import Inputs
from validation.operations.linear.recipes import RECIPES

ALL = (*LINEAR_FORMATS, HALVES)
#: Below it 127 / amax is infinite.
TINY = np.float32(127 / np.float64(np.finfo(np.float32).max))


def made(name: str, mode: str = "q8_0") -> Inputs:
    """Of the first quick case of a recipe that a mode takes."""
    cases = [entry.case for entry in plan.planned(1, "quick") if entry.case.recipe == name]
    return inputs.build(next(case for case in cases if isinstance(case, LinearCase) and case.fits(mode)), mode)


def largest(x: np.ndarray) -> np.ndarray:
    """The largest magnitude of every group."""
    return np.asarray(np.abs(x).reshape(len(x), -1, GROUP).max(axis=-1))


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("mode", ["q4_0", "q5_1", "q6_k", HALVES])
def test_inputs_are_the_same_each_time(name: str, mode: str) -> None:
    one, two = made(name, mode), made(name, mode)
    assert one.matrix.tobytes() == two.matrix.tobytes()
    assert one.x.tobytes() == two.x.tobytes()


@pytest.mark.parametrize("mode", ALL)
def test_every_scale_and_offset_is_set(mode: str) -> None:
    """In the blocks' bytes they stand where the formats read them: with every one at 2**-8 none is another number."""
    given = made("linear_bell", mode)
    assert np.isfinite(inputs.values(mode, given.matrix)).all()
    if mode == HALVES:
        return
    form = FORMATS[mode]
    octets = given.matrix.reshape(-1, form.nbytes).copy()
    halves = blocks.HALVES_OF.get(mode, (blocks.Half(0),))
    for half in halves:
        octets[:, half.at : half.at + 2] = 0
    assert (form.decode(octets) == 0).all()
    assert len(halves) == 1 + form.offset


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("name", RECIPES)
def test_the_last_row_has_the_signs_of_the_first_output(name: str, mode: str) -> None:
    """So its product is the sum of the magnitudes, far beyond what rounding to codes may change."""
    given = made(name, mode)
    first, x = inputs.values(mode, given.matrix[:1])[0].astype(np.float64), given.x[-1].astype(np.float64)
    assert np.isfinite(x).all()
    assert (first * x >= 0).all()
    assert (first * x).sum() > 0


@pytest.mark.parametrize("mode", LINEAR_FORMATS)
def test_codes_reach_their_limits(mode: str) -> None:
    """Of rows and of blocks together: dots and sums of groups are as large as they can be."""
    given = made("linear_extreme", mode)
    codes = quantise(given.x)
    sums = model.sums(codes)
    assert sums.max() == 32 * 127
    assert sums.min() == -32 * 127
    assert (np.abs(codes.q).reshape(len(codes.q), -1, GROUP) == 127).all(axis=-1).any()
    w = model.parts(mode, given.matrix).codes.astype(np.int64)
    groups = w.reshape(len(w), -1, GROUP)
    dots = np.einsum("rgk,ogk->rog", codes.q.reshape(len(codes.q), -1, GROUP).astype(np.int64), groups)
    assert np.abs(dots).max() == 127 * np.abs(groups).sum(axis=-1).max()
    if mode in ("q8_0", "q4_0", "q5_0", "q6_k"):
        assert np.abs(dots).max() == 127 * 32 * -int(w.min())
    if mode in ("q5_1", "q4_k", "q5_k"):
        assert np.abs(dots).max() == 127 * 32 * (15 if mode == "q4_k" else 31)


def test_ties_lie_half_way_between_codes() -> None:
    x = made("linear_extreme").x[1:-1:2]
    a = largest(x).astype(np.float64)
    exact = x.reshape(*a.shape, GROUP) * (127 / a)[..., None]
    halves = np.abs(exact - np.trunc(exact)) == 0.5
    assert halves.mean() > 0.9


def test_groups_have_sizes_over_decades_and_some_are_zeros_of_both_signs() -> None:
    given = made("linear_decades")
    a = largest(given.x)
    assert (a[a > 0].max() / a[a > 0].min()) > 1e7
    assert (a == 0).any(axis=1).any()
    assert (a == 0).all(axis=1).any()
    zeros = given.x[given.x == 0]
    assert set(np.signbit(zeros).tolist()) == {True, False}
    scales = model.parts("q8_0", given.matrix).scales
    assert set(np.sign(scales).ravel().tolist()) == {-1.0, 1.0}
    assert np.abs(scales).max() / np.abs(scales).min() > 1e4


@pytest.mark.parametrize("mode", ["q8_0", "q6_k", HALVES])
def test_halves_of_a_row_cancel(mode: str) -> None:
    given = made("linear_cancelling", mode)
    w = inputs.values(mode, given.matrix).astype(np.float64)
    half = given.width // 2
    first, all_of_it = (given.x[:-1, :n].astype(np.float64) @ w[:, :n].T for n in (half, given.width))
    assert np.median(np.abs(all_of_it)) < np.median(np.abs(first)) / 100


def test_rows_of_a_ladder_go_over_every_size() -> None:
    given = made("linear_ladder")
    a = largest(given.x).astype(np.float64)
    octaves = np.frexp(a[a > 0])[1]
    assert octaves.min() < -126
    assert octaves.max() > 100
    own = np.delete(np.arange(len(a) - 1), np.s_[2::3])
    steps = np.frexp(a[own].max(axis=1))[1]
    assert all(2 <= two - one <= 40 for one, two in pairwise(steps.tolist()))
    near = a[2::3].ravel()
    assert ((near < TINY) & (near > 0.9 * TINY)).any()
    assert ((near > TINY) & (near < 1.1 * TINY)).any()
    scales = np.abs(model.parts("q8_0", given.matrix).scales)
    assert (scales[1::2] < 2.0**-14).all()
    assert (scales[::2] > 2.0**-14).all()


@pytest.mark.parametrize("mode", ["q8_0", "q5_k", HALVES])
def test_what_is_no_number_stands_in_single_groups(mode: str) -> None:
    given = made("linear_broken", mode)
    lost = ~np.isfinite(given.x)
    assert np.isnan(given.x).any()
    assert np.isinf(given.x).any()
    broken = lost.reshape(len(lost), -1, GROUP).any(axis=-1)
    assert (broken.sum(axis=1) < broken.shape[1]).all()
    bits = model.bits(mode, given.matrix, given.x).out
    whole = np.isfinite(inputs.values(mode, given.matrix)).all(axis=1)
    assert 0 < whole.sum() < len(whole)
    assert (~np.isfinite(bits[lost.any(axis=1)])).all()
    fine = ~lost.any(axis=1) & (largest(given.x).max(axis=1) < 2.0**60)
    assert np.isfinite(bits[np.ix_(fine, whole)]).all()
    overflown = ~lost.any(axis=1) & ~fine
    assert (~np.isfinite(bits[np.ix_(overflown, whole)])).any()


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("name", RECIPES)
def test_any_sizes_can_be_made(name: str, rows: int) -> None:
    for mode, width in (("q8_0", 32), ("q2_0", 64), ("iq4_xs", 256), (HALVES, 4)):
        given = inputs.build(LinearCase(name, 3, rows, 1, width), mode)
        assert given.x.shape == (rows, width)
        assert model.bits(mode, given.matrix, given.x).out.shape == (rows, 1)
