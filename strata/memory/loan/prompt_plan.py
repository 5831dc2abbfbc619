"""The prompt plan: how many tokens a chunk has and how many experts the staging ring, from the bytes that can be lent.

Written `chunk/ring`. The chunk is the largest of the 256-token grid whose workspace fits with a ring of at least the
least length; then the ring is as long as what is left allows.
"""

from __future__ import annotations

from dataclasses import dataclass

from strata.executors.base import StrataError
from strata.memory.loan.workspace_layout import GRID, LEAST_RING, MOST_RING, PromptShape, bytes_needed

#: The largest chunk, tokens.
MOST_CHUNK = 32_768


@dataclass(frozen=True)
class PromptPlan:
    """How a prompt is read in some bytes.

    `fixed`, `tokens` and `staging` add up to `nbytes`.

    Parameters
    ----------
    chunk
        Tokens of a chunk.
    ring
        Staged experts.
    lendable
        Bytes that there were.
    nbytes
        Bytes of the whole workspace, with padding and slack, at most `lendable`.
    fixed
        Bytes that neither chunk nor ring changes, the slack among them.
    tokens
        Bytes that the chunk takes.
    staging
        Bytes that the ring takes.
    """

    chunk: int
    ring: int
    lendable: int
    nbytes: int
    fixed: int
    tokens: int
    staging: int

    def __str__(self) -> str:
        return f"{self.chunk}/{self.ring}"


def prompt_plan(
    lendable: int,
    shape: PromptShape,
    *,
    most_chunk: int = MOST_CHUNK,
    least_ring: int = LEAST_RING,
    most_ring: int = MOST_RING,
) -> PromptPlan | None:
    """The plan in some bytes.

    Parameters
    ----------
    lendable
        How many bytes.
    shape
        What the workspace consists of.
    most_chunk
        Tokens of a chunk at most: of a larger context or a chunk kept from the start there is no use.
    least_ring, most_ring
        Staged experts, both ends included.

    Returns
    -------
    PromptPlan or None
        None when not even 256 tokens fit.

    Raises
    ------
    StrataError
        For limits that leave nothing to choose from.
    """
    if most_chunk < GRID or not 0 <= least_ring <= most_ring:
        raise StrataError(
            f"prompt plan of at most {most_chunk} tokens and {least_ring} to {most_ring} staged experts: "
            f"expected at least {GRID} tokens and a range"
        )
    # bytes_needed grows with the chunk, so the largest that fits is found by halving an interval of grid steps.
    fits, beyond = 0, most_chunk // GRID + 1
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        if bytes_needed(middle * GRID, least_ring, shape) <= lendable:
            fits = middle
        else:
            beyond = middle
    if not fits:
        return None
    chunk = fits * GRID
    left = lendable - bytes_needed(chunk, 0, shape)
    ring = min(most_ring, max(least_ring, left // shape.max_blob))
    # An empty ring has its padding too, so the quotient is exact but for the rounding of the block to 256 bytes.
    while ring > least_ring and bytes_needed(chunk, ring, shape) > lendable:
        ring -= 1
    return _terms(chunk, ring, lendable, shape)


def _terms(chunk: int, ring: int, lendable: int, shape: PromptShape) -> PromptPlan:
    nbytes = bytes_needed(chunk, ring, shape)
    without_ring = bytes_needed(chunk, 0, shape)
    fixed = bytes_needed(0, 0, shape)
    return PromptPlan(chunk, ring, lendable, nbytes, fixed, without_ring - fixed, nbytes - without_ring)
