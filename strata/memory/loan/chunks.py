"""How a prompt is cut into chunks, and which chunk a budget of slots allows. Pure functions over token counts."""

from __future__ import annotations

from collections.abc import Callable

from strata.memory.cache.cache_size import KEEP_SLOTS
from strata.memory.driver.errors import Refused
from strata.memory.loan.workspace_layout import GRID, roundup

#: Chunks that are tried in turn where a loan is measured in slots, largest first.
LISTED = (32768, 16384, 12288, 8192, 6144, 4096, 3072, 2048, 1024, 512, 256)
#: Chunks of a prompt path with buffers of its own, tried in turn when the asked one does not fit.
OWN_STEPS = (6144, 4096, 3072, 2048, 1536, 1024, 512)
#: Chunks up to this size are chosen without being asked for.
AUTO_MOST = 8192
#: From so many tokens on a chunk streams every expert through the staging ring.
STREAM_ALL = 1024
#: Free memory that must remain beside a prompt path with buffers of its own, bytes.
OWN_MARGIN = 512 << 20
#: Chunk where nothing can be lent.
OWN_CHUNK = 1024

#: Slots that a workspace for so many tokens takes, 0 when no number of slots is enough.
SlotsOf = Callable[[int], int]


def request_chunk(chunk: int, tokens: int) -> int:
    """The chunk of one request: no more than the planned one, no more of the grid than its tokens fill.

    Raises Refused for a request without tokens or a chunk that is not on the grid.
    """
    _on_grid(chunk)
    if tokens < 1:
        raise Refused(f"a request of {tokens} tokens: expected at least 1")
    return min(chunk, roundup(tokens, GRID))


def cut(tokens: int, chunk: int, stream_all: int = STREAM_ALL) -> list[int]:
    """Lengths of a request's chunks: as few as possible and all but the last equal, on the grid.

    A remainder below `stream_all` stays a short last chunk, because it does not stream all experts: growing it to the
    size of the others would. 20,036 tokens at 8,192 are 3 x 6,912 (the last 6,212); 16,402 are 2 x 8,192 + 18.
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
    size = roundup(-(-tokens // parts), GRID)
    lengths = [size] * (tokens // size)
    return lengths + ([tokens % size] if tokens % size else [])


def explicit_chunk(asked: int, slots: int, slots_of: SlotsOf) -> int:
    """The asked chunk, halved (down to the grid) until its loan leaves 128 slots; 0 when even the least does not."""
    _on_grid(asked)
    chunk = asked
    while not _leaves(chunk, slots, slots_of, None):
        if chunk == GRID:
            return 0
        chunk = max(GRID, chunk // 2 // GRID * GRID)
    return chunk


def listed_chunk(slots: int, slots_of: SlotsOf, percent: int | None, most: int, context: int) -> int:
    """The first listed chunk whose loan leaves 128 slots and takes at most `percent` of them; 0 when none does.

    Chunks above 8,192 are listed only up to `most`, and none that is above 8,192 exceeds the context.
    """
    for chunk in LISTED:
        if chunk > AUTO_MOST and chunk > min(most, context):
            continue
        if _leaves(chunk, slots, slots_of, percent):
            return chunk
    return 0


def chunk_below(asked: int, slots: int, slots_of: SlotsOf, percent: int | None) -> int | None:
    """The largest chunk that is left when the first `slots` slots remain: the asked one, or the next listed below it.

    So 12,288 becomes 8,192 and not its half. None when not even the least leaves 128 slots.
    """
    for chunk in (asked, *(listed for listed in LISTED if listed < asked)):
        if _leaves(chunk, slots, slots_of, percent):
            return chunk
    return None


def own_chunk(asked: int, free: int, needed: Callable[[int], int]) -> int:
    """The chunk of a prompt path with buffers of its own in `free` bytes: the asked one or the next that fits, or 0.

    needed: bytes of a workspace for so many tokens; 512 MiB must remain free beside them.
    """
    for chunk in (asked, *(step for step in OWN_STEPS if step < asked)):
        if needed(chunk) + OWN_MARGIN <= free:
            return chunk
    return 0


def lend_percent(pinned_share: float) -> int:
    """Largest share of the slots that a prompt may borrow, percent, by the share of experts in page-locked memory."""
    return 90 if pinned_share >= 0.9 else 85


def fixed_ring(pinned_share: float, chunk: int, stream_all: int = STREAM_ALL) -> int:
    """Staging ring where it is not planned with the chunk: only a chunk that streams all experts has a long one."""
    if chunk < stream_all:
        return 8
    return 384 if pinned_share >= 0.9 else 96


def _leaves(chunk: int, slots: int, slots_of: SlotsOf, percent: int | None) -> bool:
    taken = slots_of(chunk)
    if taken < 1 or taken + KEEP_SLOTS > slots:
        return False
    return percent is None or 100 * taken <= percent * slots


def _on_grid(chunk: int) -> None:
    if chunk < GRID or chunk % GRID:
        raise Refused(f"a chunk of {chunk} tokens: expected a multiple of {GRID}")
