"""Where experts' bytes come from: the host's memory, which every miss is computed from and every slot filled from."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from strata.executors.base import StrataError
from strata.memory.cache.geometry import ExpertGeometry


class ExpertSource(Protocol):
    """Every expert's bytes in host memory.

    Attributes
    ----------
    geometry
        The sizes of the experts.
    """

    geometry: ExpertGeometry

    def has(self, row: int) -> bool:
        """Whether the host holds this expert: without that it can neither leave its slot nor be a miss."""
        ...

    def blob(self, row: int) -> np.ndarray:
        """uint8 [geometry.blob(row)]; nobody writes to it. Raises StrataError when the host does not hold it."""
        ...

    def pinned(self, row: int) -> bool:
        """Whether its bytes are page-locked."""
        ...


class HostArena:
    """Experts one after another in one array, in the order of their rows.

    Parameters
    ----------
    geometry
        The sizes of the experts.
    data
        uint8 [at least the sum of all blobs], page-locked or not.
    pinned
        bool [rows], which experts lie in page-locked memory; None for none.
    absent
        Rows that the host does not hold.

    Raises
    ------
    StrataError
        For another dtype or shape.
    """

    def __init__(
        self,
        geometry: ExpertGeometry,
        data: np.ndarray,
        pinned: np.ndarray | None = None,
        absent: frozenset[int] = frozenset(),
    ) -> None:
        need = total_bytes(geometry)
        if data.dtype != np.uint8 or data.ndim != 1 or data.size < need:
            raise StrataError(f"experts: {data.dtype} {data.shape}, expected uint8 of {need} bytes in one dimension")
        if pinned is not None and (pinned.dtype != np.bool_ or pinned.shape != (geometry.rows,)):
            raise StrataError(f"pinned: {pinned.dtype} {pinned.shape}, expected bool ({geometry.rows},)")
        self.geometry = geometry
        self.absent = absent
        self._data = data
        self._pinned = pinned
        self._layers = np.concatenate([[0], np.cumsum(np.array(geometry.blobs, np.int64) * geometry.experts)])

    def has(self, row: int) -> bool:
        """Whether the host holds an expert."""
        return row not in self.absent

    def blob(self, row: int) -> np.ndarray:
        """The bytes of an expert, uint8, read-only. Raises StrataError for a row that does not exist or that the host
        does not hold."""
        layer, expert = self.geometry.expert(row)
        if row in self.absent:
            raise StrataError(f"expert ({layer}, {expert}): the host does not hold it")
        size = self.geometry.blobs[layer]
        start = int(self._layers[layer]) + expert * size
        bytes_ = self._data[start : start + size]
        bytes_.flags.writeable = False
        return bytes_

    def pinned(self, row: int) -> bool:
        """Whether an expert lies in page-locked memory."""
        return self._pinned is not None and bool(self._pinned[row])


def total_bytes(geometry: ExpertGeometry) -> int:
    """Bytes of every expert together."""
    return geometry.experts * sum(geometry.blobs)


def pinned_share(source: ExpertSource) -> float:
    """Page-locked bytes over all bytes."""
    geometry = source.geometry
    locked = sum(geometry.blob(row) for row in range(geometry.rows) if source.pinned(row))
    return locked / total_bytes(geometry)
