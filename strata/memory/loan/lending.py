"""LEND and RECLAIM: the coldest experts' memory goes to another process and comes back, between requests only.

LEND: land swaps; repeat the answer when a loan is out; size, chunk, and every row's bytes in host memory, each with its
refusal; demote; upload; synchronize; unmap and release from the last piece down. A refused unmap is undone: what went
is mapped again, filled, verified in full and promoted.

RECLAIM: land swaps; nothing out; the memory must be free with 128 MiB to spare, because under WDDM an allocation beyond
the card does not fail, it pages; map at the same addresses what is not mapped yet; rest; fill every row from the host;
wait; verify; promote; upload. When the card refuses a piece, those that were mapped go again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from strata.memory.arena.pieces import MiB, Tail, tail
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.verification import Verified, verifies_all
from strata.memory.driver.driver import DriverError
from strata.memory.driver.errors import Fatal, Refused, end_if_lost
from strata.memory.loan.rejections import EngineSetup, lend_rejections

#: What must be free besides the memory that is taken back.
SPARE_BYTES = 128 * MiB


class Lent(NamedTuple):
    """What LEND answers.

    Parameters
    ----------
    mib
        MiB that were really released.
    experts
        Experts that became misses.
    chunk
        The largest prompt chunk meanwhile, tokens; 0 when the prompt path owns its memory.
    """

    mib: int
    experts: int
    chunk: int


class Reclaimed(NamedTuple):
    """What RECLAIM answers.

    Parameters
    ----------
    mib
        MiB that came back.
    experts
        Rows that were filled again.
    ms
        Milliseconds that it took.
    """

    mib: int
    experts: int
    ms: int


@dataclass(frozen=True)
class Loan:
    """A loan that is out.

    Parameters
    ----------
    first
        Its first slot.
    tail
        Its pieces.
    mapped
        Bytes that were mapped before it.
    answer
        What LEND answered.
    released
        Bytes that were released.
    """

    first: int
    tail: Tail
    mapped: int  # bytes that were mapped before it
    answer: Lent
    released: int = 0


#: Given the first slot that would be lent: the largest prompt chunk that the slots below can lend (0 when the prompt
#: path owns its memory), None when none fits.
ChunkBelow = Callable[[int], int | None]


def owns_its_memory(first: int) -> int:
    """The chunk of a prompt path that borrows nothing."""
    return 0


class Lending:
    """The one loan of a cache to other processes.

    It is not thread safe: the main loop calls it between requests. Its attribute `verified` says what the last RECLAIM
    compared.

    Parameters
    ----------
    cache
        The cache.
    chunk
        The largest prompt chunk beside a loan, see `ChunkBelow`.
    setup
        What the engine was started with; None for nothing that rejects a loan.
    verify_all
        Whether every byte of every slot is compared before its row is promoted, not only slots at the ends and at the
        boundaries of pieces; None for what `verification.verifies_all` says.
    clock
        Seconds.
    """

    def __init__(
        self,
        cache: ExpertCache,
        chunk: ChunkBelow = owns_its_memory,
        setup: EngineSetup | None = None,
        verify_all: bool | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.cache = cache
        self.book = cache.loan_book("LEND")
        self.setup = EngineSetup() if setup is None else setup
        self.verify_all = verifies_all() if verify_all is None else verify_all
        self.loan: Loan | None = None
        self.verified = Verified(0, 0, 0)
        self._chunk, self._clock = chunk, clock

    def obstacle(self) -> str:
        """Why this engine cannot lend, empty when it can."""
        rejections = lend_rejections(self.setup)
        if rejections:
            return rejections[0].sentence
        return "" if self.cache.arena.segmented() else "the cache is not made of pieces"

    def lend(self, mib: int, said: str = "") -> Lent:
        """Give away at least so many MiB of the tail, in whole pieces.

        While a loan is out, its answer comes again, whatever is asked for.

        Parameters
        ----------
        mib
            How many MiB.
        said
            What was asked for as a refusal shows it, when that is not `mib` MiB.

        Raises
        ------
        Refused
            With nothing changed, or undone; or, while a loan is out, when pieces that a refused RECLAIM has mapped
            cannot be given again.
        Fatal
            When a step failed and it is unknown what holds.
        """
        with self.cache.guard():
            self._capable()
            if self.loan is not None:
                self._stays_out(self.loan, "LEND")
                return self.loan.answer
            loan = self._plan(mib, said or f"{mib} MiB")
            experts = self.cache.take(self.book, loan.first)
            try:
                given = self.cache.arena.shrink(loan.tail.boundary)
            except DriverError as error:
                self._undo(loan, error)
                raise Refused(f"LEND: {error}; undone") from error
            answer = Lent(given.released // MiB, experts, loan.answer.chunk)
            self.loan = Loan(loan.first, loan.tail, loan.mapped, answer, given.released)
            return answer

    def reclaim(self) -> Reclaimed:
        """Take the loan back.

        Raises
        ------
        Refused
            When that cannot be done now: the loan stays out, to be tried again later.
        Fatal
            When what the slots hold is unknown or wrong.
        """
        with self.cache.guard():
            began = self._clock()
            self._capable()
            if self.loan is None:
                return Reclaimed(0, 0, 0)
            other = self.cache.out(but=self.book)
            if other:
                raise Refused(f"RECLAIM: the loan {other!r} is still out")
            loan, arena = self.loan, self.cache.arena
            arena.retry_unreleased()
            self._await_memory(loan.mapped - arena.mapped_bytes)
            refusal = arena.grow(loan.mapped).refusal
            if refusal is not None:
                self._stays_out(loan, f"RECLAIM: {refusal}")
                raise Refused(f"RECLAIM: {refusal}; the loan stays out, try again") from refusal
            pairs = list(self.book)
            check = pairs if self.verify_all else self.cache.sample(pairs, loan.tail.first)
            self.verified = self.cache.give_back(self.book, check)
            self.loan = None
            return Reclaimed(loan.answer.mib, len(pairs), round(1000 * (self._clock() - began)))

    def _capable(self) -> None:
        obstacle = self.obstacle()
        if obstacle:
            raise Refused(f"cannot lend: {obstacle}")
        self.cache.land()

    def _plan(self, mib: int, said: str) -> Loan:
        cache = self.cache
        other = cache.out(but=self.book)
        if other:
            raise Refused(f"LEND: the loan {other!r} is still out")
        if mib < 1:
            raise Refused(f"LEND: {said}, expected a whole number of MiB above 0")
        mapped = cache.arena.mapped_bytes
        last = tail(cache.arena.sizes[: cache.arena.pieces], mib * MiB)
        first = 0 if last is None else cache.slots.within(last.boundary)
        if last is None or first == 0:
            most, whole = self._most() // MiB, mapped // MiB
            raise Refused(f"LEND: {said}, expected at most {most}, so that a slot stays of the cache's {whole} MiB")
        chunk = self._chunk(first)
        if chunk is None:
            raise Refused(f"LEND: the {first} slots that would stay cannot lend the smallest prompt chunk")
        missing = [row for row, _ in cache.residency.resident(first) if not cache.source.has(row)]
        if missing:
            expert = cache.geometry.expert(missing[0])
            raise Refused(f"LEND: host memory does not hold {len(missing)} of the experts, the first is {expert}")
        return Loan(first, last, mapped, Lent(0, 0, chunk))

    def _most(self) -> int:
        """Bytes of the largest loan: all pieces but those that the first slot needs."""
        arena = self.cache.arena
        starts = arena.starts[1 : arena.pieces]
        boundary = next((start for start in starts if self.cache.slots.within(start)), arena.mapped_bytes)
        return arena.mapped_bytes - boundary

    def _stays_out(self, loan: Loan, what: str) -> None:
        """What a refused RECLAIM has mapped already goes again, so that LEND's answer stays true.

        Nothing has been written there. Raises Refused when an unmap is refused: it is tried again at the next command.
        """
        if self.cache.arena.mapped_bytes == loan.tail.boundary:
            return
        try:
            given = self.cache.arena.shrink(loan.tail.boundary)
        except DriverError as error:
            raise Refused(f"{what}; {error}; the loan stays out, with pieces of it mapped; try again") from error
        released = loan.released - (given.unmapped - given.released)
        answer = loan.answer._replace(mib=min(loan.answer.mib, released // MiB))
        self.loan = replace(loan, answer=answer, released=released)

    def _undo(self, loan: Loan, error: DriverError) -> None:
        refusal = self.cache.arena.grow(loan.mapped).refusal
        if refusal is not None:
            raise Fatal(f"LEND: {error}; undoing it failed too: {refusal}") from refusal
        self.cache.give_back(self.book)

    def _await_memory(self, need: int) -> None:
        try:
            free, _ = self.cache.driver.mem_info()
        except DriverError as error:
            end_if_lost(error, "RECLAIM")
            raise Refused(f"RECLAIM: {error}; the loan stays out, try again") from error
        if need and free < need + SPARE_BYTES:
            raise Refused(
                f"RECLAIM: {free // MiB} MiB are free, expected {-(-need // MiB)} + {SPARE_BYTES // MiB}: "
                "the borrower is still there; the loan stays out"
            )
