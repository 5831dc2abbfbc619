"""A small engine on a fake card: an expert cache, what lends its memory, and what is asked of it at the end.

The sizes are chosen so that slots straddle pieces, the last piece is short, blobs are of three sizes and no multiple of
anything, and LEND 1 takes several pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy

from strata.memory.arena.pieces import MiB
from strata.memory.cache.adaptive import AdaptiveTier, Pace
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.cache_resize import Resizing
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.invariants import violations
from strata.memory.cache.opening import open_cache, open_largest_cache
from strata.memory.cache.pattern import patterned
from strata.memory.cache.residency import MISS
from strata.memory.cache.slots import Slots, sized_slots, uniform_slots
from strata.memory.driver.driver import DriverError
from strata.memory.driver.errors import Fatal
from strata.memory.driver.fake import FakeCard, FakeDriver
from strata.memory.loan.lending import SPARE_BYTES, Lending

GRANULARITY = 64 << 10
PIECE = 8 * GRANULARITY
LAYERS, EXPERTS = 3, 16
BLOBS = (70_001, 91_000, 83_408)
#: Slots of a uniform cache; a sized one has those that fit into as many bytes.
SLOTS = 20
BYTES = SLOTS * max(BLOBS)
#: Bytes of a card with room for the cache, one loan's worth and what RECLAIM wants free besides.
CARD = SPARE_BYTES + 64 * MiB
KINDS = ("uniform", "sized")


class World:
    """One process on a card. kind: of its slots; slots: how many of the largest fit; piece: bytes that memory moves in.
    `open` takes the memory; everything else is there after it."""

    def __init__(
        self,
        kind: str = "uniform",
        card: FakeCard | None = None,
        verify_all: bool = True,
        slots: int = SLOTS,
        piece: int = PIECE,
    ) -> None:
        self.kind, self.piece = kind, piece
        self.card = FakeCard(CARD) if card is None else card
        self.driver = FakeDriver(self.card, GRANULARITY)
        self.geometry = ExpertGeometry(LAYERS, EXPERTS, BLOBS)
        self.source = copy(SOURCE)  # its bytes are shared, what the host lacks is this world's
        self.least = 0
        self.profile = [(7 * row) % self.geometry.rows for row in range(self.geometry.rows)]
        uniform = kind == "uniform"
        self.slots: Slots = (
            uniform_slots(self.geometry, slots)
            if uniform
            else sized_slots(self.geometry, self.profile, slots * max(BLOBS))
        )
        self.verify_all = verify_all
        self._cache: ExpertCache | None = None

    @property
    def cache(self) -> ExpertCache:
        assert self._cache is not None, "open comes first"
        return self._cache

    def open(self) -> None:
        """Open and fill the cache. Raises what `open_cache` raises."""
        self._cache = self._opened()
        self.lending = Lending(self.cache, self._chunk, verify_all=self.verify_all, clock=lambda: 0.0)
        self.tier = AdaptiveTier(self.cache, Pace(every=1, swaps=4))
        self.resizing = Resizing(self.cache, self.tier.hottest_miss)
        self.home = self.residents()

    def _chunk(self, first: int) -> int | None:
        """What LEND asks of the prompt path: with fewer than `least` slots there is no chunk."""
        return 0 if first >= self.least else None

    @contextmanager
    def lacking(self, least: int = 0, absent: Iterable[int] = ()) -> Iterator[None]:
        """Inside, the prompt path needs `least` slots, and the host's memory does not hold the rows of `absent`."""
        self.least, self.source.absent = least, frozenset(absent)
        try:
            yield
        finally:
            self.least, self.source.absent = 0, frozenset()

    def _opened(self) -> ExpertCache:
        return open_cache(self.driver, self.source, self.slots, self.profile, self.piece)

    def residents(self) -> dict[int, int]:
        """Slot by row, of the rows that name one."""
        return dict(self.cache.residency.resident(0))

    def known_handles(self) -> set[int]:
        """Every handle that somebody in this process answers for."""
        if self._cache is None:
            return set()
        return self._cache.arena.held | self._cache.residency.held

    def problems(self) -> list[str]:
        """What is wrong right now: invariants, broken rules of the driver, handles that nobody answers for, paging."""
        found = [f"rule of the driver broken: {line}" for line in self.driver.misuse]
        if self._cache is not None:
            found += violations(self.cache, read=self.driver.peek)
            lost = set(self.driver.live_handles()) - self.known_handles()
            found += [f"handle {handle} is nobody's" for handle in sorted(lost)]
        elif not self.driver.lost:
            found += [f"handle {handle} is left of an open that failed" for handle in self.driver.live_handles()]
            found += [f"range {va:#x} is left of an open that failed" for va in self.driver.reservations]
        if self.card.ever_paged:
            found.append(f"{self.card.ever_paged} bytes were paged")
        return found

    def at_home(self) -> list[str]:
        """What is wrong although nothing is lent."""
        return []

    def close(self) -> list[str]:
        """End in order; what is left on the card, or could not be given back."""
        self.cache.close()
        found = [f"handle {handle} is left after closing" for handle in self.driver.live_handles()]
        found += [f"range {va:#x} is left after closing" for va in self.driver.reservations]
        return found + [f"rule of the driver broken: {line}" for line in self.driver.misuse]

    def ended(self) -> list[str]:
        """After a fatal end nothing goes on."""
        found: list[str] = []
        if self._cache is not None:
            with expect_fatal(found, "LEND"):
                self.lending.lend(1)
            with expect_fatal(found, "RECLAIM"):
                self.lending.reclaim()
            with expect_fatal(found, "a window"):
                self.cache.begin_window()
        return found

    def killed(self) -> list[str]:
        """After the process nothing of it is left on the card, and the next one opens there.

        On a card that is as new, the next process is one like any first one, so it is opened once for all worlds alike.
        """
        self.driver.kill()
        if self.card.used:
            return [f"{self.card.used} bytes are left on the card after the process has ended"]
        if self.card.as_new and not (self.card.wddm or self.card.optimism):
            return _first_process(type(self), self.kind, self.card.total)
        return _process(type(self), self.kind, self.card)


class LargestWorld(World):
    """A world whose cache is as large as can be opened: tried again with fewer bytes when the card refuses."""

    def _opened(self) -> ExpertCache:
        most = max(self.geometry.blobs)

        def slots_of(nbytes: int) -> Slots | None:
            if nbytes < most:
                return None
            if self.kind == "uniform":
                return uniform_slots(self.geometry, nbytes // most)
            return sized_slots(self.geometry, self.profile, nbytes)

        # Twice refused, there is still more than LEND 1 takes.
        return open_largest_cache(self.driver, self.source, slots_of, BYTES * 8 // 5, 0, self.profile, self.piece)


def _process(world: type[World], kind: str, card: FakeCard) -> list[str]:
    """What is wrong with a process on a card, from its opening to its closing."""
    process = world(kind, card)
    process.open()
    return process.problems() + process.at_home() + process.close()


#: On what new cards a process went well: the kind of world and of its slots, bytes of the card.
_WENT_WELL: set[tuple[type[World], str, int]] = set()


def _first_process(world: type[World], kind: str, total: int) -> list[str]:
    """`_process` on a new card of `total` bytes, not asked again once it went well."""
    key = (world, kind, total)
    found = [] if key in _WENT_WELL else _process(world, kind, FakeCard(total))
    if not found:
        _WENT_WELL.add(key)
    return found


@contextmanager
def expect_fatal(found: list[str], what: str) -> Iterator[None]:
    """Inside, Fatal is raised; anything else is a problem."""
    try:
        yield
    except Fatal:
        return
    except DriverError as error:
        found.append(f"{what} after a fatal end: {error}, expected Fatal")
        return
    found.append(f"{what} was carried out after a fatal end")


def missing(world: World, home: dict[int, int]) -> list[str]:
    """Rows that are not in the slot they had."""
    now = world.residents()
    return [
        f"row {row} is in slot {now.get(row, MISS)}, it was in {home.get(row, MISS)}"
        for row in sorted(set(now) | set(home))
        if now.get(row) != home.get(row)
    ]


SOURCE = patterned(ExpertGeometry(LAYERS, EXPERTS, BLOBS))
