"""A rounding that goes the wrong way fails its control."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from strata.memory.arena import pieces
from strata.memory.arena.pieces import MiB
from strata.memory.loan import chunks, tail, workspace_layout
from validation.controls import memory
from validation.core.control import answers, failed


def test_all_arithmetic_agrees() -> None:
    found = answers(memory.arithmetic())
    assert not failed(found)
    assert len(found) == len({one.name for one in found})


@pytest.mark.parametrize(
    ("where", "name", "broken", "said"),
    [
        (pieces, "segment_bytes", lambda mib, granularity: mib * MiB, "bytes of a segment"),
        (pieces, "round_up", lambda n, unit: n // unit * unit, "pieces rounded up"),
        (pieces, "round_up", lambda n, unit: n - n % unit + unit, "pieces rounded up"),
        (workspace_layout, "round_up", lambda n, unit: n // unit * unit, "blocks rounded up"),
        (pieces, "tail", lambda sizes, nbytes: (len(sizes), sum(sizes), 0), "last pieces"),
        (tail, "mapped", lambda off, slots, quantum: off[slots] // quantum * quantum, "pieces that stay"),
        (chunks, "request_chunk", lambda chunk, tokens: min(chunk, tokens // 256 * 256), "chunks of a request"),
    ],
)
def test_a_wrong_rounding_is_told(
    where: ModuleType, name: str, broken: Callable[..., object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, broken)
    assert f"memory/{said}" in {one.name for one in failed(answers(memory.arithmetic()))}


def test_a_control_that_asks_nothing_is_wrong() -> None:
    assert memory._first_difference(lambda: ()) != memory.AGREES
