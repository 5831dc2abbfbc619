"""The MMQ-style expert kernels on lanes: every bit against their model, whatever the tile, the tier and the order."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.formats import FORMATS
from strata.kernels import expert_mmq, tiers
from strata.kernels.experts import DOWN, GATE_UP, Geometry, Routed
from strata.kernels.paths import Path
from tests.strata.kernels.expert_data import Data, assert_bits, bits, draw, expected, placed
from validation.core.random_streams import Stream
from validation.core.verdict import identical
from validation.numerics.fma import NAN
from validation.operations.experts import reference_mmq as reference
from validation.operations.experts.reference import Rows, Weights

TIERS = ("sm75", "sm80")
MODE = "iq3_xxs/iq4_nl"
#: Every format of gate and up once, every format of down.
MODES = [f"{gate_up}/{down}" for gate_up, down in zip(GATE_UP, cycle(DOWN), strict=False)]


def path(mode: str, tier: str) -> Path:
    return Path("expert_mmq", mode, tier, int(tier[2:]))


def decoded(form: str, data: np.ndarray, rows: int) -> Weights:
    q, scale = FORMATS[form].quants(data.reshape(rows, -1, FORMATS[form].nbytes))
    return Weights(q.reshape(rows, -1), scale.reshape(rows, -1))


def model(data: Data) -> Rows:
    return expected(data, decoded, reference.quantise, reference.expert)


def run(executor: LanesExecutor, data: Data, tier: str = "sm80", together: int | None = None) -> Routed:
    where = path(data.experts.mode, tier)
    return expert_mmq.run(executor, where, placed(executor, data), data.x, data.ids, trace=True, together=together)


#: Every format with sm80; with sm75 one of each kind: one scale for 32 values, one for 16 and a narrow tile.
CASES = [(mode, "sm80") for mode in MODES] + [("iq3_xxs/iq4_nl", "sm75"), ("iq2_s/q2_0", "sm75")]


@pytest.mark.parametrize(("mode", "tier"), CASES)
def test_every_format(checked: LanesExecutor, mode: str, tier: str) -> None:
    data = draw(mode, 1, 5, 3, 2)
    assert_bits(run(checked, data, tier), model(data))


@pytest.mark.parametrize(("flavor", "tier"), [("fast", "sm80"), ("checked", "sm75")])
def test_every_number_of_rows_of_an_expert(request: pytest.FixtureRequest, flavor: str, tier: str) -> None:
    """Experts with 1 to 300 rows and none, at the edges of fragments and of tiles."""
    counts = [1, 2, 7, 8, 9, 0, 15, 16, 17, 31, 32, 33, 48, 49, 0, 127, 128, 129, 161, 300]
    data = draw(MODE, 2, sum(counts), len(counts), 1, Geometry(256, 64))
    ids = np.repeat(np.arange(len(counts)), counts)[Stream.of(2, "order").permutation(sum(counts))]
    data = replace(data, ids=ids[:, None].astype(np.int32))
    got = run(request.getfixturevalue(flavor), data, tier)
    assert_bits(got, model(data))
    assert got.offsets is not None
    assert np.diff(got.offsets).tolist() == counts


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_drawn_sizes(checked: LanesExecutor, data: st.DataObject) -> None:
    geometry = Geometry(256 * data.draw(st.integers(1, 3)), 64 * data.draw(st.integers(1, 4)))
    tokens, top = data.draw(st.integers(1, 9), "tokens"), data.draw(st.integers(1, 3), "top")
    count, seed = data.draw(st.integers(1, 4), "experts"), data.draw(st.integers(0, 2**32), "seed")
    made = draw(MODE, seed, tokens, count, top, geometry, data.draw(st.integers(-20, 20), "exponent"))
    assert_bits(run(checked, made, data.draw(st.sampled_from(TIERS))), model(made))


def test_tiers_launches_and_order_do_not_change_a_bit(checked: LanesExecutor) -> None:
    data = draw(MODE, 3, 40, 5, 3)
    whole = run(checked, data)
    order = Stream.of(3, "tokens").permutation(40)
    others = {
        "sm75": run(checked, data, "sm75"),
        "one expert a launch": run(checked, data, together=1),
        "two experts a launch": run(checked, data, "sm75", together=2),
    }
    for name, got in others.items():
        assert np.array_equal(bits(got.rows), bits(whole.rows)), name
    moved = run(checked, replace(data, x=data.x[order], ids=data.ids[order]))
    assert np.array_equal(bits(moved.rows), bits(whole.rows[order]))
    alone = run(checked, replace(data, x=data.x[7:8], ids=data.ids[7:8, 1:2]))
    assert np.array_equal(bits(alone.rows)[0, 0], bits(whole.rows)[7, 1])
    # Lists of ranks turned round: each row follows its id.
    turned = run(checked, replace(data, ids=np.ascontiguousarray(data.ids[:, ::-1])))
    assert np.array_equal(bits(turned.rows), bits(whole.rows[:, ::-1]))


def test_pairs_are_grouped_in_their_order(checked: LanesExecutor) -> None:
    data = draw(MODE, 4, 12, 4, 3, Geometry(256, 64))
    got = run(checked, data)
    assert got.slot is not None
    assert got.source is not None
    assert got.offsets is not None
    flat = data.ids.reshape(-1)
    assert sorted(got.slot.tolist()) == list(range(36))
    assert np.array_equal(got.source[got.slot], np.arange(36) // 3)
    for expert in range(4):
        own = got.slot[flat == expert]
        assert own.tolist() == list(range(got.offsets[expert], got.offsets[expert + 1]))


def test_an_expert_named_twice_by_a_token_gives_two_rows(checked: LanesExecutor) -> None:
    data = draw(MODE, 5, 4, 3, 3, Geometry(256, 64))
    data.ids[1] = 2
    got = run(checked, data)
    assert_bits(got, model(data))
    assert (bits(got.rows[1]) == bits(got.rows[1, :1])).all()


def test_codes_round_ties_away_from_zero(checked: LanesExecutor) -> None:
    """A block whose largest value is 127 has scale 1: halves are ties."""
    data = draw(MODE, 6, 2, 1, 1, Geometry(256, 64))
    halves = (np.arange(256) - 127.5).clip(-126.5, 126.5).astype(np.float32)
    halves[::32] = 127
    data = replace(data, x=np.stack([halves, -halves]))
    codes = reference.quantise(data.x)
    assert (np.abs(codes.q[0]) != np.abs(np.rint(halves))).sum() > 100
    assert np.array_equal(codes.q[0], -codes.q[1])
    assert_bits(run(checked, data), model(data))


@pytest.mark.parametrize("width", [64, 128, 192])
def test_quantised_rows(checked: LanesExecutor, width: int) -> None:
    """Blocks of 128 values, those of all rows together, with zeros behind the end of a row; one row a pair."""
    stream = Stream.of(9, "sizes", width)
    exponent = np.repeat(stream.child("exponent").below(275, (11, width // 32)) - 149, 32, axis=1)
    x = np.ldexp(stream.child("x").normals((11, width)), exponent.astype(np.int32))
    x[1, 40], x[2, 3] = np.nan, -np.inf
    pairs = stream.child("pairs").permutation(33).astype(np.int32)
    blocks = -(-width // expert_mmq.BLOCK)
    out = checked.empty((blocks, 33, expert_mmq.BLOCK_BYTES), np.uint8)
    lost = checked.array(np.zeros(1, np.int32), "lost", written=True)
    sizes = (np.int32(33), np.int32(width), np.int32(3))
    args = (checked.array(x, "x"), checked.array(pairs, "pairs"), out, lost, *sizes)
    checked.launch(expert_mmq.pass_kernel("expert_mmq_quantise"), (-(-33 * blocks // 8), 1, 1), args)
    want = reference.quantise(x)
    codes, scales = np.zeros((33, blocks * 128), np.int8), np.zeros((33, blocks * 4), np.float32)
    codes[:, :width], scales[:, : width // 32] = want.q[pairs // 3], want.scale[pairs // 3]
    got = out.host()
    assert np.array_equal(got[..., 16:].view(np.int8), codes.reshape(33, blocks, 128).transpose(1, 0, 2))
    held = np.ascontiguousarray(got[..., :16]).view(np.float32)
    assert np.array_equal(bits(held), bits(scales.reshape(33, blocks, 4).transpose(1, 0, 2)))
    assert int(lost.host()[0]) == want.lost == 2
    assert out.guards_intact()


def test_tiny_and_zero_blocks_count_as_zeros(checked: LanesExecutor) -> None:
    data = draw(MODE, 7, 4, 2, 2, Geometry(256, 64))
    x = data.x
    x[0] = 0
    x[1] = np.where(x[1] > 0, np.float32(0), np.float32(-0.0))
    x[2] = np.ldexp(np.sign(x[2]), -130)  # 127 / amax is infinite
    x[3, :32] = np.ldexp(np.sign(x[3, :32]), -120)  # and here it is not
    got = run(checked, data)
    assert_bits(got, model(data))
    assert not bits(got.rows[:3]).any()
    assert got.status == (0, 0, 0)
    assert reference.quantise(x).scale[3, 0] > 0


def test_what_is_not_finite_spoils_its_rows_and_is_counted(checked: LanesExecutor) -> None:
    data = draw(MODE, 8, 6, 3, 2, Geometry(256, 64))
    clean = run(checked, data)
    data.x[1, 40] = np.nan
    data.x[3, [0, 70]] = np.inf, -np.inf
    got = run(checked, data)
    want = model(data)
    assert_bits(got, want)
    spoilt = np.array([False, True, False, True, False, False])
    assert np.isnan(got.rows[spoilt]).all()
    assert np.array_equal(bits(got.rows[~spoilt]), bits(clean.rows[~spoilt]))
    # Blocks of x once a token: one and two of them. Each of their four pairs loses all blocks of h and its row.
    assert got.status == (3, 4 * 2, 4 * 256)


def test_large_values_overflow_to_counted_rows(checked: LanesExecutor) -> None:
    data = draw(MODE, 9, 3, 2, 2, Geometry(256, 64), exponent=120)
    got = run(checked, data)
    want = model(data)
    assert_bits(got, want)
    assert got.status is not None
    assert got.status[0] == 0
    assert got.status[2] == int((~np.isfinite(want.out)).sum())
    assert got.status[1] == int(np.isnan(want.h.scale).sum()) > 0


def test_infinite_block_scales_make_nan_and_are_counted(checked: LanesExecutor) -> None:
    data = draw(MODE, 10, 3, 2, 1, Geometry(256, 64))
    data.ids[:, 0] = [0, 1, 0]
    data.matrix(1, "down").reshape(-1, 18)[5, :2] = [0x00, 0x7C]  # infinity, in one block of one row
    got = run(checked, data)
    assert_bits(got, model(data))
    assert not np.isfinite(got.rows[1, 0, 5 // 2])
    assert got.status == (0, 0, 1)


def test_a_prepared_run_can_be_repeated(fast: LanesExecutor) -> None:
    data = draw(MODE, 11, 9, 3, 2, Geometry(256, 64))
    where = path(MODE, "sm80")
    p = expert_mmq.prepare(fast, where, placed(fast, data), data.x, data.ids)
    first = expert_mmq.launch(fast, where, p)
    out = p.rows.host()
    again = expert_mmq.launch(fast, where, p)
    check = identical("repeat", p.rows.host(), out)
    assert check.verdict.passes, check.reason
    assert first == again
    entries = [witness.entry for witness in first]
    assert entries == ["expert_mmq_quantise", "expert_mmq", "swiglu_rows", "expert_mmq_quantise", "expert_mmq"]
    assert {kernel.entry for kernel in expert_mmq.kernels(where)} == set(entries)


@pytest.mark.parametrize("tier", [75, 80])
def test_tiles_are_as_wide_as_fits(tier: int) -> None:
    """64 KiB on Turing: where the tables leave no room for 128 columns a tile has fewer."""
    limit = tiers.of_capability(tier).shared_bytes
    for form in ("iq3_xxs", "iq3_s", "iq4_xs", "iq2_xxs", "iq2_xs", "iq2_s", "iq4_nl", "q2_0"):
        wide = expert_mmq.columns(form, tier)
        assert expert_mmq.shared_bytes(form, tier, wide) <= limit
        wider = [n for n in expert_mmq.COLUMNS if n > wide]
        assert all(expert_mmq.shared_bytes(form, tier, n) > limit for n in wider)


def test_bad_inputs_are_refused(checked: LanesExecutor) -> None:
    data = draw(MODE, 12, 3, 2, 2, Geometry(256, 64))
    on = placed(checked, data)
    where = path(MODE, "sm80")
    for ids, said in (
        (np.array([[0, 1], [1, 2], [0, 0]], np.int32), "token 1 rank 1 names expert 2, expected 0 to 1; 1 such ids"),
        (np.array([[0, 1], [1, 1], [-1, -1]], np.int32), "token 2 rank 0 names expert -1, expected 0 to 1; 2 such ids"),
        (data.ids[:2], "ids is int32"),
        (data.ids.astype(np.int64), "ids is int64"),
    ):
        with pytest.raises(StrataError, match=said):
            expert_mmq.run(checked, where, on, data.x, ids)
    with pytest.raises(StrataError, match="x is float32"):
        expert_mmq.run(checked, where, on, data.x[:, :128], data.ids)
    with pytest.raises(StrataError, match="cannot run on experts of iq3_xxs/iq4_nl"):
        expert_mmq.run(checked, path("iq3_s/iq4_nl", "sm80"), on, data.x, data.ids)
    with pytest.raises(StrataError, match="0 experts of a launch"):
        expert_mmq.run(checked, where, on, data.x, data.ids, together=0)
    with pytest.raises(StrataError, match="tier 70"):
        expert_mmq.product_kernel("iq3_xxs", 70)


def test_a_computed_nan_has_the_bits_of_a_card(checked: LanesExecutor) -> None:
    data = draw(MODE, 13, 1, 1, 1, Geometry(256, 64))
    data.x[0, 3] = np.nan
    got = run(checked, data)
    assert (got.rows.view(np.uint32) == NAN).all()
