"""Chunks: how requests are cut, how an explicit chunk comes down, which listed chunk a budget of slots allows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.memory.cache.cache_size import KEEP_SLOTS
from strata.memory.driver.errors import Refused
from strata.memory.loan.chunks import (
    LISTED,
    OWN_MARGIN,
    OWN_STEPS,
    chunk_below,
    cut,
    explicit_chunk,
    fixed_ring,
    lend_percent,
    listed_chunk,
    own_chunk,
    request_chunk,
)
from strata.memory.loan.workspace_layout import GRID

GRIDS = st.integers(1, 128).map(lambda n: GRID * n)


@pytest.mark.parametrize(
    ("tokens", "chunk", "lengths"),
    [
        (20_036, 8_192, [6_912, 6_912, 6_212]),  # published
        (16_402, 8_192, [8_192, 8_192, 18]),  # published
        (16_384, 8_192, [8_192, 8_192]),
        (100, 8_192, [100]),
        (0, 256, []),
        (8_192 + 1_023, 8_192, [8_192, 1_023]),
        (8_192 + 1_024, 8_192, [4_608, 4_608]),
    ],
)
def test_worked_cuts(tokens: int, chunk: int, lengths: list[int]) -> None:
    assert cut(tokens, chunk) == lengths


@settings(deadline=None)
@given(st.integers(0, 200_000), GRIDS, st.integers(0, 4096))
def test_every_cut(tokens: int, chunk: int, stream_all: int) -> None:
    """All tokens, in the fewest chunks that hold them, equal and on the grid but for the last, none above the plan."""
    lengths = cut(tokens, chunk, stream_all)
    assert sum(lengths) == tokens
    assert len(lengths) <= -(-tokens // chunk)
    assert all(0 < length <= chunk for length in lengths)
    assert len(set(lengths[:-1])) <= 1
    assert all(length % GRID == 0 for length in lengths[:-1])
    if len(lengths) > 1 and 0 < tokens % chunk < stream_all:
        assert lengths == [chunk] * (tokens // chunk) + [tokens % chunk]
    elif lengths:
        # No smaller chunk of the grid holds the tokens in so few pieces.
        assert lengths[0] - GRID < -(-tokens // -(-tokens // chunk))


@settings(deadline=None)
@given(GRIDS, st.integers(1, 100_000))
def test_the_chunk_of_a_request(chunk: int, tokens: int) -> None:
    got = request_chunk(chunk, tokens)
    assert got == min(chunk, min(c for c in range(GRID, 100_000 + GRID, GRID) if c >= tokens))


@pytest.mark.parametrize("chunk", [0, -256, 100, 257])
def test_chunks_are_on_the_grid(chunk: int) -> None:
    for use in (lambda: request_chunk(chunk, 1), lambda: cut(1, chunk), lambda: explicit_chunk(chunk, 1, lambda _: 1)):
        with pytest.raises(Refused, match=f"a chunk of {chunk} tokens: expected a multiple of 256"):
            use()
    for tokens in (0, -1):
        with pytest.raises(Refused, match="tokens: expected at least"):
            request_chunk(256, tokens)
    with pytest.raises(Refused, match="tokens: expected at least 0"):
        cut(-1, 256)


@settings(deadline=None)
@given(GRIDS, st.integers(0, 2000), st.integers(1, 40))
def test_an_explicit_chunk_is_halved_until_it_leaves_128_slots(asked: int, slots: int, per_slot: int) -> None:
    """Against trying every halving in turn; no percentage holds here."""

    def slots_of(chunk: int) -> int:
        return -(-chunk // (per_slot * 32))

    tried = [asked]
    while tried[-1] > GRID:
        tried.append(max(GRID, tried[-1] // 2 // GRID * GRID))
    fitting = [chunk for chunk in tried if slots_of(chunk) + KEEP_SLOTS <= slots]
    assert explicit_chunk(asked, slots, slots_of) == (fitting[0] if fitting else 0)


def test_halving_stays_on_the_grid() -> None:
    steps: list[int] = []
    assert explicit_chunk(6_912, 200, lambda chunk: steps.append(chunk) or 1_000) == 0  # type: ignore[func-returns-value]
    assert steps == [6_912, 3_328, 1_536, 768, 256]


@settings(deadline=None)
@given(
    st.integers(0, 4000), st.integers(1, 100), st.sampled_from((85, 90)), st.integers(0, 40_000), st.integers(0, 40_000)
)
def test_a_listed_chunk(slots: int, per_slot: int, percent: int, most: int, context: int) -> None:
    def slots_of(chunk: int) -> int:
        return -(-chunk // per_slot)

    allowed = [
        chunk
        for chunk in LISTED
        if slots_of(chunk) + 128 <= slots
        and 100 * slots_of(chunk) <= percent * slots
        and (chunk <= 8192 or (chunk <= most and chunk <= context))
    ]
    assert listed_chunk(slots, slots_of, percent, most, context) == max(allowed, default=0)


def test_a_chunk_that_takes_no_number_of_slots_is_not_chosen() -> None:
    assert listed_chunk(1000, lambda _: 0, None, 0, 0) == 0


def test_after_a_smaller_tail_the_next_listed_chunk_is_taken() -> None:
    """12,288 -> 8,192 and not half of it (published)."""

    def slots_of(chunk: int) -> int:
        return chunk // 16

    assert listed_chunk(1000, slots_of, None, 16_384, 32_768) == 12_288
    assert listed_chunk(800, slots_of, None, 16_384, 32_768) == 8_192
    assert chunk_below(12_288, 1000, slots_of, None) == 12_288
    assert chunk_below(12_288, 800, slots_of, None) == 8_192
    assert chunk_below(6_912, 600, slots_of, None) == 6_912


@settings(deadline=None)
@given(GRIDS, st.integers(0, 2000), st.integers(1, 100), st.sampled_from((None, 85, 90)))
def test_a_chunk_below(asked: int, slots: int, per_slot: int, percent: int | None) -> None:
    def slots_of(chunk: int) -> int:
        return -(-chunk // per_slot)

    fitting = [
        chunk
        for chunk in (asked, *LISTED)
        if chunk <= asked
        and slots_of(chunk) + 128 <= slots
        and (percent is None or 100 * slots_of(chunk) <= percent * slots)
    ]
    assert chunk_below(asked, slots, slots_of, percent) == max(fitting, default=None)


@settings(deadline=None)
@given(st.integers(1, 32_768), st.integers(0, 8 << 30))
def test_own_buffers_step_down(asked: int, free: int) -> None:
    def needed(chunk: int) -> int:
        return chunk * 500_000

    tried = [asked, *(step for step in OWN_STEPS if step < asked)]
    fitting = [chunk for chunk in tried if needed(chunk) + OWN_MARGIN <= free]
    assert own_chunk(asked, free, needed) == (fitting[0] if fitting else 0)


def test_share_of_page_locked_experts_sets_percent_and_ring() -> None:
    assert [lend_percent(share) for share in (0.0, 0.89, 0.9, 1.0)] == [85, 85, 90, 90]
    assert [fixed_ring(share, 2048) for share in (0.0, 0.9)] == [96, 384]
    assert [fixed_ring(1.0, chunk) for chunk in (256, 1023, 1024)] == [8, 8, 384]
