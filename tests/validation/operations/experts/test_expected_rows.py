"""What is made of a case expert by expert, against each part made alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from validation.operations.experts import expected, inputs
from validation.operations.experts.arithmetic import DECODE, FUSED, MMQ, Arithmetic
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.expected_hidden import fronts
from validation.operations.experts.expected_rows import Known, known
from validation.operations.experts.inputs import Inputs
from validation.operations.experts.reference import Codes

ALL = (FUSED, MMQ, DECODE)


def data_of(recipe: str, mode: str) -> Inputs:
    return inputs.build(ExpertCase(recipe, 3, 7, 4, 3, 256, 128), mode)


def made(data: Inputs, arithmetics: tuple[Arithmetic, ...] = ALL) -> tuple[Known, ...]:
    pairs, some = np.flatnonzero(data.named), np.flatnonzero(data.sound)
    return known(data, pairs, some, arithmetics, fronts(data, pairs, some, arithmetics))


@pytest.mark.parametrize("mode", ["iq3_xxs/iq4_nl", "iq2_xs/q2_0"])
@pytest.mark.parametrize("recipe", ["experts_decades", "experts_broken", "experts_extremes", "experts_stray"])
def test_parts_are_those_made_alone(recipe: str, mode: str) -> None:
    data = data_of(recipe, mode)
    kept = np.flatnonzero(data.sound)
    for arithmetic, got in zip(ALL, made(data), strict=True):
        bits = expected.bits(data, np.flatnonzero(data.named), arithmetic)
        for one, two in (
            (got.bits.gate, bits.gate),
            (got.bits.up, bits.up),
            (got.bits.out, bits.out),
            (got.bits.h.scale, bits.h.scale),
        ):
            assert np.array_equal(one.view(np.uint32), two.view(np.uint32))
        assert np.array_equal(got.bits.h.q, bits.h.q)
        assert (got.bits.h.lost, got.bits.lost_x) == (bits.h.lost, bits.lost_x)
        at = np.searchsorted(bits.pairs, kept)
        kept = kept[expected.finite(bits.gate[at], bits.up[at], bits.h.scale[at], bits.out[at])]
        assert np.array_equal(got.referenced, kept)
        if got.model is None:
            continue
        alone = expected.model(data, kept, arithmetic)
        # Sums of FP64 may be in another order where other rows are beside them: far less than what a kernel may differ.
        for one, two in (
            (got.model.rounded.value, alone.rounded.value),
            (got.model.rounded.bound, alone.rounded.bound),
            (got.model.unrounded, alone.unrounded),
        ):
            assert np.array_equal(one, two) or arithmetic is not FUSED
            assert (np.abs(one - two) <= alone.rounded.bound).all()


def test_modes_that_differ_in_down_alone_share_their_fronts() -> None:
    one, two = (data_of("experts_decades", f"iq3_s/{down}") for down in ("iq4_nl", "q2_0"))
    pairs = np.flatnonzero(one.named)
    begun = fronts(one, pairs, pairs, (FUSED, MMQ))
    for shared, own in zip(known(two, pairs, pairs, (FUSED, MMQ), begun), made(two, (FUSED, MMQ)), strict=True):
        assert np.array_equal(shared.bits.out.view(np.uint32), own.bits.out.view(np.uint32))
        assert shared.model is not None
        assert own.model is not None
        assert np.array_equal(shared.model.rounded.bound, own.model.rounded.bound)


@pytest.mark.parametrize("recipe", ["experts_plain", "experts_golden", "experts_faint"])
def test_a_format_s_bytes_do_not_depend_on_the_other_format(recipe: str) -> None:
    one, two = (data_of(recipe, mode) for mode in ("iq2_s/iq4_nl", "iq2_s/q2_0"))
    three = data_of(recipe, "iq4_xs/q2_0")
    for expert in range(one.experts):
        assert all(np.array_equal(a, b) for a, b in zip(one.parts(expert)[:2], two.parts(expert)[:2], strict=True))
        assert np.array_equal(two.parts(expert)[2], three.parts(expert)[2])
    assert np.array_equal(one.x, three.x)
    assert np.array_equal(one.ids, three.ids)


def test_steps_follow_the_kernel_s_own_codes() -> None:
    """A kernel whose codes differ is held against the product with its own ones, not with those that were predicted."""
    data = data_of("experts_decades", "iq4_xs/iq4_nl")
    of = made(data, (FUSED,))[0]
    at = np.searchsorted(of.bits.pairs, of.referenced)
    gate, up = of.bits.gate[at], of.bits.up[at]
    h = Codes(of.bits.h.q[at], of.bits.h.scale[at])
    same = of.steps(gate, up, h)
    assert same.down is of.down
    alone = expected.steps(data, of.referenced, gate, up, h, FUSED)
    assert np.array_equal(same.h.low, alone.h.low)
    assert np.array_equal(same.gate.value, alone.gate.value)
    for other in (replace(h, q=-h.q), replace(h, scale=2 * h.scale)):
        due = of.steps(gate, up, other).down
        assert not np.array_equal(due.value, of.down.value)
        assert np.array_equal(due.value, expected.steps(data, of.referenced, gate, up, other, FUSED).down.value)
