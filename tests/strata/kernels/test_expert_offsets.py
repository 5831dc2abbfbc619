"""Rows of experts beyond 32 bits of offset, which no case of a size that can be computed has.

Memory is mapped and not touched: only the few rows that a kernel reads or writes take room.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strata.executors.lanes import LanesExecutor
from strata.executors.lanes.executor import HostBuffer
from strata.kernels import expert_fused
from strata.kernels.experts import place
from strata.kernels.paths import PATHS
from tests.strata.kernels.expert_small import layer, same_bits
from validation.magnitude.mapped import Mapped

MODE, TOKENS, TOP, N = "iq4_xs/q2_0", 9, 2, 256


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor(flavor="checked")


def prepared(lanes: LanesExecutor, tier: int, shape: int) -> expert_fused.Prepared:
    """A small layer after one run."""
    made = layer(MODE, TOKENS, 3, TOP)
    path = PATHS[f"expert_fused/{MODE}/sm{tier}"]
    ready = expert_fused.prepare(lanes, path, place(lanes, made.experts), made.x, made.ids, shape)
    ready.launch()
    return ready


def later(lanes: LanesExecutor, ready: expert_fused.Prepared, shift: int) -> HostBuffer:
    """The pairs of its rows, each `shift` later."""
    pairs = ready.pairs.host()
    pairs[: int(ready.offsets.host()[-1])] += shift
    return lanes.array(pairs, "pairs")


@pytest.mark.parametrize("values", [1 << 31, 1 << 32], ids=["31 bits", "32 bits"])
@pytest.mark.parametrize(("tier", "shape"), [(75, 2), (80, 4)])
def test_rows_of_late_pairs_are_written_where_they_belong(
    lanes: LanesExecutor, tier: int, shape: int, values: int
) -> None:
    ready, shift = prepared(lanes, tier, shape), values // N
    want, named = ready.rows.host().reshape(-1, N), ready.slot.host() >= 0
    assert (want[named] != 0).any(axis=1).sum() > TOP
    rows = Mapped((shift + TOKENS * TOP, N), np.float32, "rows")
    moved = replace(ready, rows=rows, pairs=later(lanes, ready, shift))
    for cut in moved.cuts:
        moved.down(cut)
    assert same_bits(rows.view()[shift:][named], want[named])
    assert not rows.view()[: TOKENS * TOP].any()
    assert rows.guards_intact()


@pytest.mark.parametrize("size", [1 << 31, 1 << 32], ids=["31 bits", "32 bits"])
@pytest.mark.parametrize(("tier", "shape"), [(75, 2), (80, 4)])
def test_late_tokens_are_read_where_they_lie(lanes: LanesExecutor, tier: int, shape: int, size: int) -> None:
    ready = prepared(lanes, tier, shape)
    want, own = ready.h.host(), ready.units.host()
    shift = -(-size // own[0].nbytes)
    units = Mapped((shift + TOKENS, *own.shape[1:]), np.uint8, "units of x")
    units.view()[shift:] = own
    fresh = lanes.empty(want.shape, np.uint8, name="units of h")
    moved = replace(ready, units=units, h=fresh, pairs=later(lanes, ready, shift * TOP))
    for cut in moved.cuts:
        moved.gate_up(cut)
    rows = int(ready.offsets.host()[-1])
    # A unit holds 64 codes and two scales; the bytes behind them are nobody's.
    assert same_bits(fresh.host()[:rows, :, :72], want[:rows, :, :72])
