"""Which expert's bytes lie in a slot that should hold another's: asked once, when a comparison has failed."""

from __future__ import annotations

import numpy as np

from strata.memory.cache.source import ExpertSource

#: Bytes around the first wrong one that are compared before whole experts are.
GLANCE = 16


def mistaken_for(source: ExpertSource, row: int, held: np.ndarray, offset: int) -> tuple[int, int] | None:
    """(layer, expert) whose bytes these are, None when they are nobody's.

    held: uint8, what the slot of expert `row` holds; offset: of its first wrong byte. An expert of another size counts
    when it agrees as far as both go. Of several equal experts the first one is named.
    """
    near = slice(offset, offset + GLANCE)
    for other in range(source.geometry.rows):
        if other == row or not source.has(other) or source.geometry.blob(other) <= offset:
            continue
        blob = source.blob(other)
        both = min(blob.size, held.size)
        # Cut to what both have, so that a glance at the end is no shorter on one side.
        if np.array_equal(blob[near][: both - offset], held[near][: both - offset]) and np.array_equal(
            blob[:both], held[:both]
        ):
            return source.geometry.expert(other)
    return None
