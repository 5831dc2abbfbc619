"""Places for experts in a range of device memory, and which of them a part of that range holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strata.executors.base import StrataError
from strata.memory.cache.geometry import ExpertGeometry

#: Bytes that a sized slot's address is a multiple of.
SLOT_ALIGN = 256
#: Layer of a slot that takes experts of every layer.
ANY_LAYER = -1


class Slots:
    """Where slots lie in an arena: slot k is bytes off[k] to off[k + 1].

    They do not change while the arena is open.

    Parameters
    ----------
    off
        int64 [n + 1], ascending from 0; a read-only copy is kept.
    layers
        int32 [n], the one layer whose experts slot k takes, or `ANY_LAYER`; a read-only copy is kept.

    Raises
    ------
    StrataError
        For offsets that do not ascend from 0, or are not one more than the layers.
    """

    def __init__(self, off: np.ndarray, layers: np.ndarray) -> None:
        if off.ndim != 1 or off.size != layers.size + 1 or off[0] != 0 or bool(np.any(np.diff(off) < 1)):
            raise StrataError(f"slots: {off.size} offsets for {layers.size} slots, expected one more, ascending from 0")
        self.off = off.astype(np.int64)
        self.layers = layers.astype(np.int32)
        self._sizes, self._layers = np.diff(self.off).tolist(), self.layers.tolist()
        self.off.flags.writeable = self.layers.flags.writeable = False

    def __len__(self) -> int:
        return int(self.layers.size)

    @property
    def nbytes(self) -> int:
        """Bytes of all slots."""
        return int(self.off[-1])

    @property
    def sized(self) -> bool:
        """Whether each slot belongs to one layer."""
        return bool(np.any(self.layers != ANY_LAYER))

    def size(self, slot: int) -> int:
        """Bytes of a slot."""
        return int(self._sizes[slot])

    def takes(self, slot: int, layer: int, nbytes: int) -> bool:
        """Whether an expert may lie in a slot.

        Parameters
        ----------
        slot
            The slot.
        layer
            The expert's layer.
        nbytes
            The expert's bytes.
        """
        return self._layers[slot] in (ANY_LAYER, layer) and nbytes <= self.size(slot)

    def within(self, nbytes: int) -> int:
        """How many slots lie wholly inside the first `nbytes` bytes."""
        return max(0, int(np.searchsorted(self.off, nbytes, side="right")) - 1)

    def at(self, offset: int) -> int | None:
        """The slot that holds a byte, None behind the last one."""
        return int(np.searchsorted(self.off, offset, side="right")) - 1 if 0 <= offset < self.nbytes else None


def uniform_slots(geometry: ExpertGeometry, count: int) -> Slots:
    """Slots that each take any expert: off[k] = k * max_blob.

    Parameters
    ----------
    geometry
        The sizes of the experts.
    count
        How many slots.

    Raises
    ------
    StrataError
        For less than one slot.
    """
    if count < 1:
        raise StrataError(f"{count} slots: expected at least 1")
    off = np.arange(count + 1, dtype=np.int64) * geometry.max_blob
    return Slots(off, np.full(count, ANY_LAYER, np.int32))


def sized_slots(geometry: ExpertGeometry, profile: Sequence[int], cap: int) -> Slots:
    """Slots cut to the experts of a profile, in its order, while they fit.

    Each takes experts of its own layer only, and begins at a multiple of `SLOT_ALIGN`.

    Parameters
    ----------
    geometry
        The sizes of the experts.
    profile
        Rows, hottest first.
    cap
        Bytes of all slots at most.

    Raises
    ------
    StrataError
        When not one fits, and for a row that does not exist.
    """
    layers: list[int] = []
    off = [0]
    for row in profile:
        layer, _ = geometry.expert(row)
        end = off[-1] + -(-geometry.blobs[layer] // SLOT_ALIGN) * SLOT_ALIGN
        if end > cap:
            break
        layers.append(layer)
        off.append(end)
    if not layers:
        raise StrataError(f"sized slots: no expert of a profile of {len(profile)} fits into {cap} bytes")
    return Slots(np.array(off, np.int64), np.array(layers, np.int32))
