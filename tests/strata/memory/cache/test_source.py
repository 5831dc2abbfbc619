"""Experts' bytes on the host, and the pattern that names them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.pattern import pattern, patterned, place
from strata.memory.cache.source import HostArena, pinned_share, total_bytes

GEOMETRY = ExpertGeometry(2, 3, (40, 24))


def test_experts_lie_one_after_another() -> None:
    data = np.arange(total_bytes(GEOMETRY), dtype=np.uint8)
    source = HostArena(GEOMETRY, data)
    assert np.array_equal(np.concatenate([source.blob(row) for row in range(6)]), data)
    assert source.blob(3).size == 24
    with pytest.raises(ValueError, match="read-only"):
        source.blob(0)[0] = 1


def test_an_expert_that_the_host_does_not_hold_is_refused() -> None:
    source = HostArena(GEOMETRY, np.zeros(192, np.uint8), absent=frozenset((4,)))
    assert [source.has(row) for row in range(6)] == [True, True, True, True, False, True]
    with pytest.raises(StrataError, match=r"expert \(1, 1\): the host does not hold it"):
        source.blob(4)


def test_the_pinned_share_is_of_bytes() -> None:
    pinned = np.array([True, False, False, True, True, False])
    source = HostArena(GEOMETRY, np.zeros(192, np.uint8), pinned)
    assert pinned_share(source) == (40 + 24 + 24) / 192
    assert pinned_share(HostArena(GEOMETRY, np.zeros(192, np.uint8))) == 0


@pytest.mark.parametrize(
    ("data", "pinned", "message"),
    [
        (np.zeros(191, np.uint8), None, r"uint8 \(191,\), expected uint8 of 192 bytes"),
        (np.zeros(192, np.int8), None, r"int8 \(192,\), expected uint8"),
        (np.zeros((2, 96), np.uint8), None, r"uint8 \(2, 96\), expected"),
        (np.zeros(192, np.uint8), np.zeros(5, bool), r"bool \(5,\), expected bool \(6,\)"),
    ],
)
def test_what_is_no_host_arena_is_refused(data: np.ndarray, pinned: np.ndarray | None, message: str) -> None:
    with pytest.raises(StrataError, match=message):
        HostArena(GEOMETRY, data, pinned)


@given(st.integers(0, (1 << 31) - 1), st.integers(0, 200))
def test_eight_bytes_say_where_they_came_from(row: int, word: int) -> None:
    there = pattern(row, 8 * word + 8)[-8:]
    assert place(there.tobytes()) == (row, 8 * word)


def test_no_word_occurs_twice_and_a_short_blob_is_the_beginning_of_a_long_one() -> None:
    data = np.concatenate([pattern(row, 4096) for row in range(64)])
    assert np.unique(data.view("<u8")).size == data.size // 8
    assert np.array_equal(pattern(7, 101), pattern(7, 4096)[:101])
    source = patterned(GEOMETRY)
    assert all(np.array_equal(source.blob(row), pattern(row, GEOMETRY.blob(row))) for row in range(6))
