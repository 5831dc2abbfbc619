"""How a range is cut, and what a loan takes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.memory.arena.pieces import MiB, cut, round_up, segment_bytes, tail
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.slots import uniform_slots


@given(st.integers(1, 10_000), st.integers(1, 40), st.integers(1, 16))
def test_pieces_cover_the_range_with_less_than_a_page_to_spare(total: int, pages: int, granularity: int) -> None:
    sizes = cut(total, pages * granularity, granularity)
    assert 0 <= sum(sizes) - total < granularity
    assert all(size == pages * granularity for size in sizes[:-1])
    assert all(size % granularity == 0 and 0 < size <= pages * granularity for size in sizes)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(-2, 60))
def test_a_tail_is_the_fewest_last_pieces(sizes: list[int], nbytes: int) -> None:
    enough = [first for first in range(1, len(sizes)) if sum(sizes[first:]) >= nbytes]
    got = tail(sizes, nbytes)
    if not enough:
        assert got is None
    else:
        assert got == (max(enough), sum(sizes[: max(enough)]), sum(sizes[max(enough) :]))


def test_a_short_last_piece_is_padded_to_the_granularity() -> None:
    """A last piece of 5 MiB on a card whose granularity is 2 MiB has 6."""
    assert cut(133 * MiB, 64 * MiB, 2 * MiB) == [64 * MiB, 64 * MiB, 6 * MiB]


def test_the_rounding_of_a_loan_that_was_measured() -> None:
    """A cache of 8.09 GiB in pieces of 64 MiB on a card of granularity 2 MiB, 1,400 MiB asked: 1,442 MiB and 746 slots.

    22 whole pieces and a last one of 34 MiB: so the cache has more than 8,288 MiB and at most 8,290. Slots were of
    several sizes; equal ones of the mean size that this leaves give the same number.
    """
    slots = uniform_slots(ExpertGeometry.uniform(48, 512, 2_024_960), 4292)
    assert 8.09 <= slots.nbytes / (1 << 30) < 8.10
    sizes = cut(slots.nbytes, 64 * MiB, 2 * MiB)
    assert sizes[-1] == 34 * MiB
    lent = tail(sizes, 1400 * MiB)
    assert lent is not None
    assert lent.nbytes == (22 * 64 + 34) * MiB == 1442 * MiB
    first = slots.within(lent.boundary)
    assert len(slots) - first == 746
    assert slots.off[first] < lent.boundary < slots.off[first + 1]  # a slot that straddles the boundary is lent too


def test_segments_have_at_least_64_mib() -> None:
    assert segment_bytes(64, 2 * MiB) == 64 * MiB
    assert segment_bytes(65, 2 * MiB) == 66 * MiB
    for mib in (63, 0, -1):
        with pytest.raises(StrataError, match=f"segment of {mib} MiB: expected at least 64"):
            segment_bytes(mib, 2 * MiB)


@pytest.mark.parametrize(
    ("total", "piece", "granularity", "message"),
    [
        (100, 6, 4, "piece of 6 bytes: expected a positive multiple of the granularity 4"),
        (100, 0, 4, "piece of 0 bytes"),
        (0, 8, 4, "range of 0 bytes: expected at least 1"),
    ],
)
def test_what_cannot_be_cut_is_refused(total: int, piece: int, granularity: int, message: str) -> None:
    with pytest.raises(StrataError, match=message):
        cut(total, piece, granularity)


@given(st.integers(0, 1 << 50), st.integers(1, 1 << 30))
def test_rounding_up(value: int, unit: int) -> None:
    up = round_up(value, unit)
    assert up % unit == 0
    assert value <= up < value + unit
