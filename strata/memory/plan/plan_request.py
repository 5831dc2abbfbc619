"""What the memory of an engine is planned for: a card, and what is to run on it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from strata.executors.base import StrataError
from strata.memory.arena.pieces import MiB, segment_bytes
from strata.memory.plan.shapes import ModelShape

#: Granularity of physical memory on the cards that were seen, bytes.
GRANULARITY = 2 * MiB
#: The largest context, cells: a bound on the lists that a plan prints.
MOST_CONTEXT = 1 << 24


@dataclass(frozen=True)
class Card:
    """The memory of a card.

    Parameters
    ----------
    total
        Bytes of the card.
    free
        Bytes that are free before the engine loads anything.
    assumed
        Whether nobody said what is free.
    """

    total: int
    free: int
    assumed: bool = False


@dataclass(frozen=True)
class PlanRequest:
    """What to plan for.

    Parameters
    ----------
    shape
        The model.
    context
        Cells of the KV cache.
    kv
        A mode of the KV pool.
    dense
        Bytes of dense weights, None for the estimate.
    reserve_mib
        MiB that stay free; None for the default, which alone a small card lowers.
    pinned
        The share of the experts in page-locked memory, 0 to 1.
    segment_mib
        MiB of the pieces that memory is lent in.
    mtp
        Whether there is a draft layer.
    stream_kv
        Whether K and V stay in host memory, and the workspace holds one layer's while a chunk is read.
    lent
        Resources that the loan takes, with whatever depends on them.

    Raises
    ------
    StrataError
        For a context, a share or a segment out of its range.
    """

    shape: ModelShape = field(default_factory=ModelShape)
    context: int = 32_768
    kv: str = "q4_0"
    dense: int | None = None
    reserve_mib: int | None = None
    pinned: float = 1.0
    segment_mib: int = 64
    mtp: bool = True
    stream_kv: bool = False
    lent: tuple[str, ...] = ("V", "X", "D", "H")

    def __post_init__(self) -> None:
        if not 1 <= self.context <= MOST_CONTEXT:
            raise StrataError(f"context of {self.context} cells: expected 1 to {MOST_CONTEXT}")
        if not 0 <= self.pinned <= 1:
            raise StrataError(f"pinned share {self.pinned}: expected 0 to 1")
        segment_bytes(self.segment_mib, GRANULARITY)

    @property
    def workspace(self) -> ModelShape:
        """The shape that the workspace is counted with."""
        return replace(self.shape, kv_stage=self.shape.layer_kv_bytes(self.kv, self.context) if self.stream_kv else 0)
