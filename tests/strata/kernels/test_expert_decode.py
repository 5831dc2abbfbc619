"""The decode-width expert kernels on lanes: every bit against their model, whatever the other tokens are."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import expert_decode
from strata.kernels.experts import DOWN, GATE_UP, Geometry, Routed
from strata.kernels.paths import Path
from tests.strata.kernels.expert_data import Data, assert_bits, bits, draw, expected, placed
from validation.core.random_streams import Stream
from validation.operations.experts import reference_decode as reference
from validation.operations.experts.reference import Rows

MODE = "iq3_xxs/iq4_nl"
#: Every format of gate and up once, every format of down.
MODES = [f"{gate_up}/{down}" for gate_up, down in zip(GATE_UP, cycle(DOWN), strict=False)]
SMALL = Geometry(256, 64)


def path(mode: str) -> Path:
    return Path("expert_decode", mode, "simt", 60)


def model(data: Data) -> Rows:
    return expected(data, reference.matrix, reference.quantise, reference.expert)


def run(executor: LanesExecutor, data: Data) -> Routed:
    return expert_decode.run(executor, path(data.experts.mode), placed(executor, data), data.x, data.ids, trace=True)


@pytest.mark.parametrize("mode", MODES)
def test_every_format(checked: LanesExecutor, mode: str) -> None:
    data = draw(mode, 1, 3, 3, 2, Geometry(512, 128))
    assert_bits(run(checked, data), model(data))


@pytest.mark.parametrize("form", ["iq3_xxs", "iq2_xxs", "iq2_xs", "iq2_s"])
def test_truncation_is_towards_zero(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """The data tells it from rounding down: negative sums that do not divide."""
    data = draw(f"{form}/iq4_nl", 2, 2, 1, 1, Geometry(512, 128))
    w, x = reference.matrix(form, data.matrix(0, "gate"), 128), reference.quantise(data.x)
    plain = reference.scaled_dots(w, x)
    monkeypatch.setattr(reference, "truncated", lambda value, divisor: value // divisor)
    floored = reference.scaled_dots(w, x)
    assert (plain != floored).any()
    assert (plain < 0).any()


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_drawn_sizes(checked: LanesExecutor, data: st.DataObject) -> None:
    """Widths with more groups than lanes among them, and experts with more pairs than share a decoding."""
    geometry = Geometry(256 * data.draw(st.sampled_from([1, 2, 5])), 64 * data.draw(st.integers(1, 3)))
    tokens, top = data.draw(st.integers(1, 11), "tokens"), data.draw(st.integers(1, 3), "top")
    count, seed = data.draw(st.integers(1, 4), "experts"), data.draw(st.integers(0, 2**32), "seed")
    made = draw(MODE, seed, tokens, count, top, geometry, data.draw(st.integers(-12, 8), "exponent"))
    assert_bits(run(checked, made), model(made))


def test_every_number_of_pairs_of_an_expert(fast: LanesExecutor) -> None:
    counts = [1, 2, 3, 0, 7, 8, 9, 16, 17, 0, 25]
    data = draw(MODE, 3, sum(counts), len(counts), 1, SMALL)
    ids = np.repeat(np.arange(len(counts)), counts)[Stream.of(3, "order").permutation(sum(counts))]
    data = replace(data, ids=ids[:, None].astype(np.int32))
    assert_bits(run(fast, data), model(data))


def test_other_tokens_do_not_change_a_bit(checked: LanesExecutor) -> None:
    data = draw(MODE, 4, 12, 3, 3, SMALL)
    whole = run(checked, data)
    for token in (0, 5, 11):
        one = run(checked, replace(data, x=data.x[token : token + 1], ids=data.ids[token : token + 1]))
        assert np.array_equal(bits(one.rows)[0], bits(whole.rows)[token])
    order = Stream.of(4, "tokens").permutation(12)
    moved = run(checked, replace(data, x=data.x[order], ids=data.ids[order]))
    assert np.array_equal(bits(moved.rows), bits(whole.rows[order]))


def test_scales_are_binary16(checked: LanesExecutor) -> None:
    """Tiny blocks lose their scale, large ones overflow it and are counted, and codes follow the scale before that."""
    data = draw(MODE, 5, 4, 2, 1, SMALL)
    x = data.x
    x[0] = np.ldexp(np.sign(x[0]), -30)  # d is below half of the smallest binary16
    x[1] = np.ldexp(np.sign(x[1]), -146)  # d is subnormal in FP32, and the quotient above 127
    x[2, 32:64] = 65520 * 127 * np.sign(x[2, 32:64])  # the first d that rounds to infinity
    x[3, 32:64] = 65504 * 127 * np.sign(x[3, 32:64])
    codes = reference.quantise(x)
    assert not codes.scale[:2].any()
    assert codes.scale[2, 1] == np.inf
    assert codes.scale[3, 1] == 65504
    got = run(checked, data)
    assert_bits(got, model(data))
    assert not bits(got.rows[:2]).any()
    assert got.status is not None
    assert got.status[0] == 1
    assert np.isnan(got.rows[2]).all()
    assert np.isfinite(got.rows[3]).all() == np.isfinite(model(data).out[3]).all()


def test_quantised_rows(checked: LanesExecutor) -> None:
    """Codes and scales themselves, of every size: where d is subnormal it may be too small for its block by half."""
    stream = Stream.of(9, "sizes")
    exponent = np.repeat(stream.child("exponent").below(275, (60, 2)) - 149, 32, axis=1)
    x = np.ldexp(stream.child("x").normals((60, 64)), exponent.astype(np.int32))
    x[0, :32] = np.ldexp(np.float32(190), -149)
    x[1, 40], x[2, 3] = np.nan, -np.inf
    source = checked.array(x, "x")
    codes, scales = checked.empty(x.shape, np.int8), checked.empty((60, 2), np.uint16)
    lost = checked.array(np.zeros(1, np.int32), "lost", written=True)
    sizes = (np.int32(60), np.int32(64))
    kernel = expert_decode.pass_kernel("expert_decode_quantise")
    checked.launch(kernel, (-(-60 // 8), 1, 1), (source, codes, scales, lost, *sizes))
    want = reference.quantise(x)
    assert np.array_equal(codes.host(), want.q)
    assert np.array_equal(bits(scales.host().view(np.float16).astype(np.float32)), bits(want.scale))
    assert int(lost.host()[0]) == want.lost
    assert want.q[0, 0] == 127
    assert (want.scale == 0).any()
    assert np.isinf(want.scale).any()
    assert codes.guards_intact()
    assert scales.guards_intact()


def test_what_is_not_finite_spoils_its_rows_and_is_counted(checked: LanesExecutor) -> None:
    data = draw(MODE, 6, 5, 3, 2, SMALL)
    clean = run(checked, data)
    data.x[1, 40] = np.nan
    data.x[3, [0, 70]] = np.inf, -np.inf
    got = run(checked, data)
    assert_bits(got, model(data))
    spoilt = np.array([False, True, False, True, False])
    assert np.isnan(got.rows[spoilt]).all()
    assert np.array_equal(bits(got.rows[~spoilt]), bits(clean.rows[~spoilt]))
    assert got.status == (3, 4 * 2, 4 * 256)


def test_what_runs(checked: LanesExecutor) -> None:
    data = draw(MODE, 7, 2, 2, 2, SMALL)
    got = run(checked, data)
    entries = [witness.entry for witness in got.witnesses]
    expected_entries = ["expert_decode_quantise", "expert_decode", "swiglu_rows"]
    assert entries == [*expected_entries, "expert_decode_quantise", "expert_decode"]
    assert {kernel.entry for kernel in expert_decode.kernels(path(MODE))} == set(entries)


def test_bad_inputs_are_refused(checked: LanesExecutor) -> None:
    data = draw(MODE, 8, 2, 2, 2, SMALL)
    on = placed(checked, data)
    with pytest.raises(StrataError, match="token 0 rank 1 names expert 2, expected 0 to 1; 1 such ids"):
        expert_decode.run(checked, path(MODE), on, data.x, np.array([[0, 2], [1, 1]], np.int32))
    with pytest.raises(StrataError, match="x is float64"):
        expert_decode.run(checked, path(MODE), on, data.x.astype(np.float64), data.ids)
    with pytest.raises(StrataError, match="cannot run on experts of iq3_xxs/iq4_nl"):
        expert_decode.run(checked, path("iq3_s/iq4_nl"), on, data.x, data.ids)
