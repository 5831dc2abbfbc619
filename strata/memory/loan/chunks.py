"""How a prompt is cut into chunks, and which chunk buffers of its own allow. Pure functions over token counts."""

from __future__ import annotations

from collections.abc import Callable

from strata.memory.arena.pieces import round_up
from strata.memory.driver.errors import Refused
from strata.memory.loan.workspace_layout import GRID

#: Chunks of a prompt path with buffers of its own, tried in turn when the asked one does not fit.
OWN_STEPS = (6144, 4096, 3072, 2048, 1536, 1024, 512)
#: From so many tokens on a chunk streams every expert through the staging ring.
STREAM_ALL = 1024
#: Free memory that must remain beside a prompt path with buffers of its own, bytes.
OWN_MARGIN = 512 << 20
#: Chunk where nothing can be lent.
OWN_CHUNK = 1024


def request_chunk(chunk: int, tokens: int) -> int:
    """The chunk of one request: no more than the planned one, no more of the grid than its tokens fill.

    Parameters
    ----------
    chunk
        The planned one, a multiple of the grid.
    tokens
        Tokens of the request.

    Raises
    ------
    Refused
        For a request without tokens or a chunk that is not on the grid.
    """
    _on_grid(chunk)
    if tokens < 1:
        raise Refused(f"a request of {tokens} tokens: expected at least 1")
    return min(chunk, round_up(tokens, GRID))


def cut(tokens: int, chunk: int, stream_all: int = STREAM_ALL) -> list[int]:
    """Lengths of a request's chunks: as few as possible and all but the last equal, on the grid.

    A short remainder stays a short last chunk, because it does not stream all experts: growing it to the size of the
    others would. 20,036 tokens at 8,192 are 3 x 6,912 (the last 6,212); 16,402 are 2 x 8,192 + 18.

    Parameters
    ----------
    tokens
        Tokens of the request.
    chunk
        The largest chunk, a multiple of the grid.
    stream_all
        Tokens from which on a chunk streams all experts.

    Raises
    ------
    Refused
        For negative tokens or a chunk that is not on the grid.
    """
    _on_grid(chunk)
    if tokens < 0:
        raise Refused(f"a request of {tokens} tokens: expected at least 0")
    full, rest = divmod(tokens, chunk)
    if full and 0 < rest < stream_all:
        return [chunk] * full + [rest]
    parts = full + (rest > 0)
    if not parts:
        return []
    # A multiple of the grid, so at most `chunk`: the least one whose `parts` chunks hold all tokens.
    size = round_up(-(-tokens // parts), GRID)
    lengths = [size] * (tokens // size)
    return lengths + ([tokens % size] if tokens % size else [])


def own_chunk(asked: int, free: int, needed: Callable[[int], int]) -> int:
    """The chunk of a prompt path with buffers of its own: the one that was asked for or the next that fits, or 0.

    512 MiB must remain free beside its buffers.

    Parameters
    ----------
    asked
        The chunk that was asked for, tokens.
    free
        Bytes that are free.
    needed
        Bytes of a workspace for so many tokens.
    """
    for chunk in (asked, *(step for step in OWN_STEPS if step < asked)):
        if needed(chunk) + OWN_MARGIN <= free:
            return chunk
    return 0


def lend_percent(pinned_share: float) -> int:
    """Largest share of the slots that a prompt may borrow, percent, by the share of experts in page-locked memory."""
    return 90 if pinned_share >= 0.9 else 85


def _on_grid(chunk: int) -> None:
    if chunk < GRID or chunk % GRID:
        raise Refused(f"a chunk of {chunk} tokens: expected a multiple of {GRID}")
