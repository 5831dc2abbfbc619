"""A cache made smaller and larger again by whole pieces: for good, until more memory is free, or for one prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from strata.executors.base import StrataError
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.loan_book import LoanBook
from strata.memory.cache.residency import MISS
from strata.memory.cache.verification import verifies_all
from strata.memory.driver.driver import DriverError
from strata.memory.driver.errors import Refused, fatal_if_refused


class Resized(NamedTuple):
    """A cache after it was shrunk or grown.

    Parameters
    ----------
    slots
        Slots that are wholly mapped now.
    mapped
        Bytes.
    experts
        Rows that left, or came back.
    """

    slots: int
    mapped: int
    experts: int


def no_replacement(layer: int) -> int:
    """No expert takes the place of one that is resident elsewhere."""
    return MISS


class Resizing:
    """Shrinks and grows one cache between requests, while nothing of it is lent.

    The evicted rows are remembered and come back to their slots; meanwhile they may be made resident elsewhere.

    Parameters
    ----------
    cache
        The cache.
    replacement
        The miss of a layer that takes a returning slot whose expert has become resident elsewhere, or `MISS`
        (`AdaptiveTier.hottest_miss`).
    verify_all
        Whether every slot that comes back is compared, not a sample; None for what `verification.verifies_all` says.
    """

    def __init__(
        self,
        cache: ExpertCache,
        replacement: Callable[[int], int] = no_replacement,
        verify_all: bool | None = None,
    ) -> None:
        self.cache = cache
        self.verify_all = verifies_all() if verify_all is None else verify_all
        self.book = cache.loan_book("resize", exclusive=False)
        self._replacement = replacement

    def shrink(self, keep: int) -> Resized:
        """Give back pieces of the cache.

        Parameters
        ----------
        keep
            The pieces that the first `keep` bytes do not touch go.

        Raises
        ------
        Refused
            With nothing changed, or, when an unmap was refused, with the pieces above it given and every row whose slot
            stayed mapped back in it.
        Fatal
            When a step failed and it is unknown what holds.
        """
        cache, arena = self.cache, self.cache.arena
        with cache.guard():
            self._ready("shrink")
            boundary = next((start for start in arena.starts[: arena.pieces] if start >= keep), arena.mapped_bytes)
            first = cache.slots.within(boundary)
            if first == 0:
                raise Refused(f"shrink: {keep} bytes hold no slot, expected at least {cache.slots.size(0)}")
            missing = [row for row, _ in cache.residency.resident(first) if not cache.source.has(row)]
            if missing:
                raise Refused(f"shrink: host memory does not hold expert {cache.geometry.expert(missing[0])}")
            experts = cache.take(self.book, first)
            try:
                arena.shrink(boundary)
            except DriverError as error:
                self._fill()
                raise Refused(f"shrink: {error}; {cache.usable_slots()} slots stay") from error
            return Resized(cache.usable_slots(), arena.mapped_bytes, experts)

    def grow(self, want: int) -> Resized:
        """Map further pieces up to `want` bytes and fill the slots that were evicted; stops where the card refuses.

        Raises Refused when it is not possible now, Fatal when a copy fails.
        """
        with self.cache.guard():
            self._ready("grow")
            self.cache.arena.retry_unreleased()
            self.cache.arena.grow(want)
            return Resized(self.cache.usable_slots(), self.cache.arena.mapped_bytes, self._fill())

    def _ready(self, what: str) -> None:
        if not self.cache.arena.segmented():
            raise Refused(f"{what}: the cache is not made of pieces")
        self.cache.land()
        other = self.cache.out(but=self.book)
        if other:
            raise Refused(f"{what}: the loan {other!r} is still out")

    def _fill(self) -> int:
        cache = self.cache
        back = [(row, slot) for row, slot in self.book if slot < cache.usable_slots()]
        first = dict(reversed(back))  # of several slots of a row, the hottest
        home = [(row, slot) for row, slot in back if cache.residency.slot(row) == MISS and first[row] == slot]
        cache.install(home, home if self.verify_all else cache.sample(home), self.book)
        elsewhere = [pair for pair in back if pair not in home]
        self.book.drop(slot for _, slot in elsewhere)
        replaced = 0
        for row, slot in elsewhere:
            incoming = self._replacement(cache.geometry.expert(row)[0])
            if incoming != MISS:
                cache.install([(incoming, slot)], [(incoming, slot)])
                replaced += 1
        return len(home) + replaced


class TwoSizes:
    """The cache between its two sizes: the one for decoding, and the one that also covers what decoding alone needs.

    Its attribute `decode_slots` counts the slots that lie wholly in `decode_bytes`.

    Parameters
    ----------
    cache
        The cache.
    decode_bytes
        Bytes that are mapped while decoding, a boundary of pieces.
    reserve
        Bytes that stay free when the cache grows.

    Raises
    ------
    StrataError
        When `decode_bytes` is no boundary of the arena's pieces or leaves no slot.
    """

    def __init__(self, cache: ExpertCache, decode_bytes: int, reserve: int = 0) -> None:
        boundaries = [*cache.arena.starts[1:], cache.arena.reserved]
        if decode_bytes not in boundaries:
            raise StrataError(
                f"decode size of {decode_bytes} bytes: expected a boundary of pieces, e.g. {boundaries[-1]}"
            )
        self.cache, self.decode_bytes, self.reserve = cache, decode_bytes, reserve
        self.decode_slots = cache.slots.within(decode_bytes)
        if self.decode_slots < 1:
            raise StrataError(f"decode size of {decode_bytes} bytes: it holds no slot")

    def settle(self) -> None:
        """Let swaps land and the card come to rest. Raises Fatal."""
        self.cache.land()
        with fatal_if_refused("synchronize before a release"):
            self.cache.driver.synchronize()

    def grow(self) -> int:
        """Map further pieces into what is free beyond the reserve; stops where the card refuses. Returns mapped bytes.

        Raises DriverError when free memory cannot be read, Fatal when the context is lost.
        """
        arena = self.cache.arena
        arena.retry_unreleased()
        free, _ = self.cache.driver.mem_info()
        return arena.grow(arena.mapped_bytes + max(0, free - self.reserve)).mapped

    def shrink(self, book: LoanBook) -> None:
        """Shrink the cache to the decode size: no row of what goes is resident.

        Parameters
        ----------
        book
            The book of the prompt loan, which forgets what goes.

        Raises
        ------
        DriverError
            When an unmap is refused.
        Fatal
            As the arena.
        """
        cache = self.cache
        if cache.arena.mapped_bytes <= self.decode_bytes:
            return
        with cache.guard():
            if cache.residency.resident(self.decode_slots):
                cache.take(book, self.decode_slots)
            cache.arena.shrink(self.decode_bytes)
            book.forget(self.decode_slots)
