"""What is infinite: scales of blocks, whose outputs are all NaN; sums of down that overflow, which stay and are
counted; h of every size up to there."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors.lanes import LanesExecutor
from strata.formats import FORMATS
from strata.kernels import expert_fused
from strata.kernels.experts import formats_of
from tests.strata.kernels.expert_small import Layer, differences, expected, fused, layer
from validation.operations.experts.inputs import decoded
from validation.operations.experts.reference import swiglu

N, FF, ROW, INFINITIES = 256, 64, 5, (0x7C00, 0xFC00)


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor()


def infinite(mode: str) -> Layer:
    """Expert 0 has infinite scales in a row of gate, expert 1 in a row of down. Token 1 is zero; every dot of token 0
    with that row of gate is above zero, so that infinities alone would add up to one."""
    made = layer(mode, tokens=6, experts=2, top=1, n=N, ff=FF)
    made.ids[:, 0] = np.arange(6) // 2 % 2
    gate_up, down = (FORMATS[name] for name in formats_of(mode))
    for expert, (form, k) in enumerate(((gate_up, N), (down, FF))):
        first = (0, made.experts.layout.down)[expert] + ROW * form.row_bytes(k)
        last = first + form.row_bytes(k) - form.nbytes
        for at, bits in zip((first, last), INFINITIES, strict=True):
            made.experts.blobs[expert][at : at + 2] = [bits & 255, bits >> 8]
    row = decoded(gate_up.name, made.experts.blobs[0][: made.experts.layout.up], FF).q[ROW]
    made.x[0] = np.where(row < 0, -1, 1)
    return made


@pytest.mark.parametrize(("mode", "tier"), [("iq3_xxs/iq4_nl", 75), ("iq2_xs/q2_0", 80)])
def test_infinite_block_scales_make_nan(lanes: LanesExecutor, mode: str, tier: int) -> None:
    """Also where a dot is zero, as those of a zero token are."""
    made = infinite(mode)
    want = expected(made)
    for shape in expert_fused.SHAPES:
        got = fused(lanes, made, tier, shape=shape, trace=True)
        assert differences(got, want) == []
        assert got.status is not None
        assert got.status[0] == 0
        assert got.status[1] == np.isnan(want.h_scales).sum() > 0
        assert got.status[2] == (~np.isfinite(want.rows)).sum()
        assert got.gate is not None
        of_first = made.ids[:, 0] == 0
        assert np.isnan(got.gate[of_first, :, ROW]).all()
        assert np.isfinite(got.gate[~of_first]).all()
        assert np.isnan(got.rows[of_first]).all()
        assert np.isnan(got.rows[~of_first][..., ROW]).all()
        assert np.isfinite(np.delete(got.rows[~of_first], ROW, axis=-1)).all()


@pytest.mark.parametrize("tier", [75, 80])
def test_sums_of_down_that_overflow_are_infinite_and_counted(lanes: LanesExecutor, tier: int) -> None:
    """Tokens alone whose rows have infinities and no NaN: nothing else says that something was lost."""
    made = layer("iq3_xxs/iq4_nl", tokens=64, experts=1, top=1, n=N, ff=FF)
    made = Layer(made.experts, np.ldexp(made.x[:1], np.arange(64)[:, None]), np.zeros((64, 1), np.int32))
    form, first = FORMATS["iq4_nl"], made.experts.layout.down
    largest = made.experts.blobs[0][first : first + 8 * form.row_bytes(FF)].reshape(-1, form.nbytes)
    largest[:, :2] = [0xFF, 0x7B]  # the largest binary16 as the scale of eight rows
    rows = expected(made).rows[:, 0]
    chosen = np.isinf(rows).any(axis=1) & ~np.isnan(rows).any(axis=1)
    assert chosen.any()
    some = Layer(made.experts, np.ascontiguousarray(made.x[chosen]), made.ids[chosen])
    want = expected(some)
    for shape in expert_fused.SHAPES:
        got = fused(lanes, some, tier, shape=shape, trace=True)
        assert differences(got, want) == []
        assert got.status == (0, 0, np.isinf(want.rows).sum())


@pytest.mark.parametrize("tier", [75, 80])
def test_h_of_every_size(lanes: LanesExecutor, tier: int) -> None:
    """From blocks too small to invert to infinite ones, each beside others: special cases are asked for in all."""
    made = layer("iq3_xxs/iq4_nl", tokens=1, experts=1, top=1, n=N, ff=FF)
    x = np.ldexp(made.x, np.arange(-100, 120)[:, None])
    some = Layer(made.experts, x, np.zeros((len(x), 1), np.int32))
    want = expected(some)
    with np.errstate(all="ignore"):
        h = np.abs(swiglu(want.gate, want.up)).reshape(-1, 32).max(axis=1)
    assert ((h > 0) & (want.h_scales.reshape(-1) == 0)).any()
    assert np.isinf(h).any()
    for shape in expert_fused.SHAPES:
        got = fused(lanes, some, tier, shape=shape, trace=True)
        assert differences(got, want) == []
        assert got.status is not None
        assert got.status[1] == (~np.isfinite(h)).sum()
