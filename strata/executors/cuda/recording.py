"""Launches of a card that were recorded as one graph: a replay costs the host one call, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.executors.base import Argument, Buffer
from strata.executors.cuda.card import Card


@dataclass(frozen=True)
class Call:
    """A launch that was recorded.

    Parameters
    ----------
    function
        The loaded kernel.
    grid
        Blocks along x, y and z.
    block
        Threads of a block.
    values
        What the kernel takes, as scalars.
    shared_bytes
        Dynamic shared memory of a block, in bytes.
    kept
        The buffers whose addresses are among the values, which must live as long as the recording.
    """

    function: Any
    grid: tuple[int, int, int]
    block: int
    values: tuple[np.generic, ...]
    shared_bytes: int
    kept: tuple[Argument | Buffer, ...]


class Recording:
    """Launches on one card, as a graph; see `base.Replay`.

    Parameters
    ----------
    card
        The card.
    calls
        The launches, in order. Each begins when the one before it has ended.
    waits
        Whether a replay waits for its end.

    Raises
    ------
    LaunchError
        When the card refuses the graph.
    """

    def __init__(self, card: Card, calls: Sequence[Call], waits: Callable[[], bool]) -> None:
        self.launches = len(calls)
        self._card, self._calls, self._waits = card, calls, waits
        with card.using(f"recording {self.launches} launches"):
            # The null stream cannot be captured.
            stream = card.cupy.cuda.Stream(non_blocking=True)
            with stream:
                stream.begin_capture()
                for call in calls:
                    call.function(call.grid, (call.block, 1, 1), call.values, shared_mem=call.shared_bytes)
                self._graph = stream.end_capture()

    def replay(self) -> None:
        """Run them in their order; inside `CudaExecutor.queue` they only join the queue."""
        with self._card.using(f"replaying {self.launches} launches"):
            self._graph.launch(self._card.cupy.cuda.Stream.null)
            if self._waits():
                self._card.runtime.deviceSynchronize()
