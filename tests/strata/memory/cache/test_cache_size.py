"""Sizes of the cache: the reserve and small cards, and what is given back once a reading contradicts the plan."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.memory.arena.pieces import GiB, MiB
from strata.memory.cache.cache_size import (
    CORRECTIONS,
    LEAST_RESERVE_MIB,
    OPEN_RETRIES,
    RESERVE_MIB,
    SETTLED,
    CacheSize,
    cache_size,
    correction,
    next_opening,
    sized_slots,
)

BLOBS = st.integers(1 * MiB, 3 * MiB)


@settings(deadline=None)
@given(
    free=st.integers(0, 24 * GiB),
    later=st.integers(0, GiB),
    blob=BLOBS,
    rows=st.integers(0, 24_576),
    reserve=st.none() | st.integers(0, 4000),
    prompt_slots=st.integers(0, 400),
)
def test_what_is_left_is_the_reserve(
    free: int, later: int, blob: int, rows: int, reserve: int | None, prompt_slots: int
) -> None:
    """The reserve and everything allocated later fit beside the cache, and one slot more would not."""
    size = cache_size(free, max_blob=blob, rows=rows, later=later, reserve_mib=reserve, prompt_slots=prompt_slots)
    left = free - size.slots * blob - later
    assert 0 <= size.slots <= rows
    if size.slots:
        assert left >= size.reserve_mib * MiB
    if size.slots < rows:
        assert left - blob < size.reserve_mib * MiB
    if reserve is not None:
        assert size.reserve_mib == reserve
        assert not size.adapted


@settings(deadline=None)
@given(
    free=st.integers(0, 3 * GiB),
    later=st.integers(0, GiB),
    blob=BLOBS,
    prompt_slots=st.integers(0, 300),
    prompt_bytes=st.integers(0, 500 * MiB),
)
def test_a_small_card_lowers_the_default_reserve(
    free: int, later: int, blob: int, prompt_slots: int, prompt_bytes: int
) -> None:
    """If a reserve of 300 MiB or more leaves the least cache, the highest such one is kept."""
    size = cache_size(
        free, max_blob=blob, rows=24_576, later=later, prompt_slots=prompt_slots, prompt_bytes=prompt_bytes
    )
    least = prompt_slots + 128 if prompt_slots else 1

    def slots(mib: int) -> int:
        return max(0, (free - later - prompt_bytes - mib * MiB) // blob)

    able = [mib for mib in range(LEAST_RESERVE_MIB, RESERVE_MIB + 1) if slots(mib) >= least]
    assert size.reserve_mib == (max(able) if able else RESERVE_MIB)
    assert size.slots == slots(size.reserve_mib)
    assert size.adapted == (size.reserve_mib < RESERVE_MIB)


@settings(deadline=None)
@given(
    free=st.integers(0, 24 * GiB), blob=BLOBS, reserve=st.integers(0, 4000), unit=st.sampled_from([1, 4096, 2 * MiB])
)
def test_rounding_up_does_not_come_out_of_the_reserve(free: int, blob: int, reserve: int, unit: int) -> None:
    """What the slots map, whole granules, leaves the reserve; one slot more would not."""
    slots = cache_size(free, max_blob=blob, rows=24_576, reserve_mib=reserve, granularity=unit).slots
    left, less = (free - -(-count * blob // unit) * unit for count in (slots, slots + 1))
    assert slots == 0 or left >= reserve * MiB
    assert slots == 24_576 or less < reserve * MiB


def test_full_cards() -> None:
    """Nothing free means no cache, not an error."""
    assert cache_size(0, max_blob=2 * MiB, rows=24_576) == CacheSize(0, 700, False)


@pytest.mark.parametrize("sizes", [{"free": -1}, {"later": -1}, {"max_blob": 0}, {"rows": -1}, {"reserve_mib": -1}])
def test_senseless_sizes(sizes: dict[str, int]) -> None:
    given_sizes = {"free": GiB, "max_blob": MiB, "rows": 10, **sizes}
    with pytest.raises(StrataError, match="expected sizes that are not negative"):
        cache_size(given_sizes.pop("free"), **given_sizes)


@settings(deadline=None)
@given(st.lists(st.integers(1, 5000), max_size=40), st.integers(0, 100_000))
def test_sized_slots(blobs: list[int], budget: int) -> None:
    def used(count: int) -> int:
        return sum(-(-blob // 256) * 256 for blob in blobs[:count])

    assert sized_slots(blobs, budget) == max(n for n in range(len(blobs) + 1) if used(n) <= budget)


def test_openings_that_fail() -> None:
    """3/4 each time, eight times, then no more."""
    nbytes, tried = 8 * GiB, []
    for failures in range(1, 20):
        nbytes = next_opening(nbytes, failures)
        if not nbytes:
            break
        tried.append(nbytes)
    assert len(tried) == OPEN_RETRIES
    assert tried[:2] == [6 * GiB, 4 * GiB + 512 * MiB]


def test_corrections() -> None:
    reserve = 700 * MiB
    assert correction(4 * GiB, reserve, reserve, 0) is None
    assert correction(4 * GiB, reserve - SETTLED, reserve, 0) is None
    assert correction(4 * GiB, reserve - SETTLED - 1, reserve, 0) == 4 * GiB - 2 * SETTLED - 1
    assert correction(4 * GiB, 0, reserve, 0) == 3 * GiB
    assert correction(8 * GiB, 0, reserve, 1) == 7 * GiB
    assert correction(2 * GiB, 0, reserve, 0) == GiB
    assert correction(8 * GiB, 0, reserve, 2) == 6 * GiB
    assert correction(8 * GiB, 0, reserve, CORRECTIONS) is None


@settings(deadline=None)
@given(
    total=st.integers(1 * GiB, 16 * GiB),
    others=st.integers(0, 2 * GiB),
    optimism=st.integers(0, GiB),
    reserve_mib=st.integers(300, 1500),
)
def test_a_too_high_free_figure_ends_with_the_reserve_free(
    total: int, others: int, optimism: int, reserve_mib: int
) -> None:
    """Under WDDM the figure before the cache is written is too high by up to a GiB. Reading again after each opening
    ends, within the corrections, with the reserve free (but for 64 MiB) or with no cache."""
    free, reserve = max(0, total - others), reserve_mib * MiB
    nbytes = max(0, min(total, free + optimism) - reserve)
    made = 0
    while True:
        reading = max(0, free - nbytes)
        kept = correction(nbytes, reading, reserve, made)
        if kept is None:
            break
        assert kept < nbytes
        nbytes, made = kept, made + 1
    assert made <= CORRECTIONS
    assert nbytes == 0 or free - nbytes >= reserve - SETTLED
