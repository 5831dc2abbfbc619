"""Which slots an expert may enter. Admission never evicts: an expert whose slots are all taken stays a miss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strata.executors.base import StrataError
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.slots import ANY_LAYER, Slots


class Admission:
    """Which slot an expert takes when it is admitted: the next free one, or the next of its layer.

    Parameters
    ----------
    geometry
        The sizes of the experts.
    slots
        The slots.
    per_layer
        Whether, of L layers, layer l owns `slots // L` slots, the last layer the rest.

    Raises
    ------
    StrataError
        For `per_layer` with sized slots: a slot cut for one layer could fall to another one.
    """

    def __init__(self, geometry: ExpertGeometry, slots: Slots, per_layer: bool = False) -> None:
        if per_layer and slots.sized:
            raise StrataError("admission per layer: slots are sized, expected uniform ones")
        self.geometry = geometry
        self.slots = slots
        self.per_layer = per_layer

    def places(self, layer: int) -> np.ndarray:
        """Every slot that experts of a layer may enter, in their order."""
        count = len(self.slots)
        if self.per_layer:
            quota = count // self.geometry.layers
            stop = count if layer == self.geometry.layers - 1 else (layer + 1) * quota
            return np.arange(layer * quota, stop)
        layers = self.slots.layers
        fits = (layers == ANY_LAYER) | (layers == layer)
        return np.flatnonzero(fits & (np.diff(self.slots.off) >= self.geometry.blobs[layer]))

    def assign(self, rows: Sequence[int], free: np.ndarray) -> list[tuple[int, int]]:
        """A slot for each expert that still finds one.

        A layer whose slots are all taken does not stop the others.

        Parameters
        ----------
        rows
            The experts.
        free
            bool [slots], the usable ones.

        Returns
        -------
        list of (int, int)
            (row, slot), in the order of `rows`.
        """
        left = free.copy()
        waiting = {layer: iter(self.places(layer).tolist()) for layer in range(self.geometry.layers)}
        pairs: list[tuple[int, int]] = []
        for row in rows:
            layer, _ = self.geometry.expert(row)
            slot = next((slot for slot in waiting[layer] if left[slot]), None)
            if slot is not None:
                left[slot] = False
                pairs.append((row, slot))
        return pairs
