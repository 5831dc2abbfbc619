"""Chunks: how requests are cut, and which chunk buffers of its own allow."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.memory.driver.errors import Refused
from strata.memory.loan.chunks import (
    OWN_MARGIN,
    OWN_STEPS,
    cut,
    lend_percent,
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
    for use in (lambda: request_chunk(chunk, 1), lambda: cut(1, chunk)):
        with pytest.raises(Refused, match=f"a chunk of {chunk} tokens: expected a multiple of 256"):
            use()
    for tokens in (0, -1):
        with pytest.raises(Refused, match="tokens: expected at least"):
            request_chunk(256, tokens)
    with pytest.raises(Refused, match="tokens: expected at least 0"):
        cut(-1, 256)


@settings(deadline=None)
@given(st.integers(1, 32_768), st.integers(0, 8 << 30))
def test_own_buffers_step_down(asked: int, free: int) -> None:
    def needed(chunk: int) -> int:
        return chunk * 500_000

    tried = [asked, *(step for step in OWN_STEPS if step < asked)]
    fitting = [chunk for chunk in tried if needed(chunk) + OWN_MARGIN <= free]
    assert own_chunk(asked, free, needed) == (fitting[0] if fitting else 0)


def test_share_of_page_locked_experts_sets_percent() -> None:
    assert [lend_percent(share) for share in (0.0, 0.89, 0.9, 1.0)] == [85, 85, 90, 90]
