"""The adaptive tier: experts that are used more than a resident one of their layer take its slot.

What it decides depends on the counts and the table alone, never on how long a copy took: swaps land before the next
window, all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from strata.executors.base import StrataError
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.residency import MISS


@dataclass(frozen=True)
class Pace:
    """When and how much is swapped.

    Parameters
    ----------
    decay
        The factor on all counts after a round, above 0 and below 1.
    every
        Windows between rounds, at least 1.
    swaps
        Swaps of a round at most.
    floor
        The count that makes a miss a candidate.
    margin
        How much more a miss must be used than its victim.

    Raises
    ------
    StrataError
        For a decay, windows or swaps out of their range.
    """

    decay: float = 0.7
    every: int = 4
    swaps: int = 96
    floor: float = 2.0
    margin: float = 1.5

    def __post_init__(self) -> None:
        if not 0 < self.decay < 1:
            raise StrataError(f"decay {self.decay}: expected above 0 and below 1")
        if self.every < 1 or self.swaps < 0:
            raise StrataError(f"every {self.every} windows, {self.swaps} swaps: expected at least 1 and 0")


class Swap(NamedTuple):
    """Two experts of one layer that change places.

    Parameters
    ----------
    incoming
        The row of a miss.
    outgoing
        The resident row whose slot it takes.
    """

    incoming: int
    outgoing: int


def decide(usage: np.ndarray, resident: np.ndarray, barred: np.ndarray, experts: int, pace: Pace) -> list[Swap]:
    """The swaps of a round, those that gain most first.

    In each layer the j-th most used miss is paired with the j-th least used resident; equal counts go by row.

    Parameters
    ----------
    usage
        float64 [rows], how often each was used.
    resident
        bool [rows].
    barred
        bool [rows], rows that must stay as they are.
    experts
        Rows of a layer.
    pace
        When and how much is swapped.
    """
    found: list[tuple[float, Swap]] = []
    for start in range(0, usage.size, experts):
        rows = np.arange(start, start + experts)
        allowed = ~barred[rows]
        misses = rows[~resident[rows] & allowed & (usage[rows] >= pace.floor)]
        victims = rows[resident[rows] & allowed]
        misses = misses[np.argsort(-usage[misses], kind="stable")]
        victims = victims[np.argsort(usage[victims], kind="stable")]
        for incoming, outgoing in zip(misses.tolist(), victims.tolist(), strict=False):
            gain = float(usage[incoming] - usage[outgoing])
            if usage[incoming] < usage[outgoing] + pace.margin:
                break
            found.append((gain, Swap(incoming, outgoing)))
    found.sort(key=lambda item: (-item[0], item[1].incoming))
    return [swap for _, swap in found[: pace.swaps]]


class AdaptiveTier:
    """Counts routing hits of a cache's experts and swaps.

    Its attribute `usage`, float64 [rows], has the decayed counts.

    Parameters
    ----------
    cache
        The cache.
    pace
        When and how much is swapped; None for the defaults.
    """

    def __init__(self, cache: ExpertCache, pace: Pace | None = None) -> None:
        self.cache = cache
        self.pace = Pace() if pace is None else pace
        self.usage = np.zeros(cache.geometry.rows)
        self.windows = 0
        self._landing: list[tuple[int, int]] = []
        cache.landings.append(self.apply_pending)

    @property
    def pending(self) -> list[tuple[int, int]]:
        """(row, slot) of swaps whose copies are on their way."""
        return list(self._landing)

    def count(self, rows: Sequence[int]) -> None:
        """Routing hits, a row as often as it was hit."""
        np.add.at(self.usage, np.asarray(rows, np.int64), 1.0)

    def end_window(self) -> list[Swap]:
        """After a window: every `pace.every` of them begins a round, unless swaps are on their way. Raises Fatal."""
        self.windows += 1
        return [] if self.windows % self.pace.every else self.begin()

    def begin(self) -> list[Swap]:
        """Decide a round and begin its swaps: rest, demote, upload, and only then queue the copies. Raises Fatal.

        Nothing while swaps are on their way.
        """
        with self.cache.guard():
            if self._landing:
                return []
            residency, geometry = self.cache.residency, self.cache.geometry
            barred = np.array([self.cache.owned(row) or not self.cache.source.has(row) for row in range(geometry.rows)])
            swaps = decide(self.usage, residency.host != MISS, barred, geometry.experts, self.pace)
            self.usage *= self.pace.decay
            if swaps:
                self.cache.rest()  # a window that is still queued reads the table, and the slots it names there
                pairs = [(swap.incoming, residency.demote(swap.outgoing)) for swap in swaps]
                residency.upload()
                self.cache.write(pairs)
                self._landing = pairs  # only now: what has not been queued must never land
            return swaps

    def apply_pending(self) -> None:
        """Wait for the copies and for windows, promote the rows and upload; nothing without swaps. Raises Fatal."""
        with self.cache.guard():
            if self._landing:
                self.cache.rest()
                landed, self._landing = self._landing, []
                self.cache.promote(landed)

    def hottest_miss(self, layer: int) -> int:
        """The most used miss of a layer that no loan owns and the host holds, MISS when there is none."""
        experts = self.cache.geometry.experts
        rows = [row for row in range(layer * experts, (layer + 1) * experts) if self._candidate(row)]
        return max(rows, key=lambda row: (self.usage[row], -row), default=MISS)

    def _candidate(self, row: int) -> bool:
        cache = self.cache
        return cache.residency.slot(row) == MISS and not cache.owned(row) and cache.source.has(row)
