"""The head alias: while a prompt is read, the output head's memory holds prompt buffers, and comes back at its address.

The head's addresses are reserved once. The same physical pieces move between them and a workspace window
W = [pieces of the cache's tail | pieces of the head], so nothing is allocated for a request: no other process can take
the memory in between, the sum of all handles never changes, and what is free while decoding is the reserve, in both
phases. Graphs that hold the head's address stay right; a checksum of every byte says so before they may run.

DECODE  the head is mapped at its address with its bytes; the tail belongs to the cache
PROMPT  W holds the pieces; the head is absent, the tail's rows are misses
FAILED  decoding is impossible: the process ends
CLOSED  W has been given back, and what was lent

A refused entry is undone: the phase stays DECODE and the prompt is read with the small plan. A refused way back is
tried once more and is fatal then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from strata.executors.base import StrataError
from strata.memory.arena.window import Piece, Window
from strata.memory.cache.cache_size import KEEP_SLOTS
from strata.memory.cache.verification import Verified, verifies_all
from strata.memory.driver.errors import Fatal, Refused, fatal_if_refused
from strata.memory.loan.chunks import request_chunk
from strata.memory.loan.output_head import Head
from strata.memory.loan.prompt_path import PromptPath, lay_out
from strata.memory.loan.prompt_plan import MOST_CHUNK, PromptPlan, prompt_plan
from strata.memory.loan.tail_loan import TailLoan
from strata.memory.loan.workspace_layout import Workspace, bytes_needed

__all__ = ["Head", "HeadAlias", "HeadPhase"]

#: Fresh tokens from which on the head is lent: the break-even lies between 513 and 2,048 (published medians).
LEAST_FRESH = 1024


class HeadPhase(StrEnum):
    """Where a head alias stands; the module says what each phase means."""

    DECODE = "DECODE"
    PROMPT = "PROMPT"
    FAILED = "FAILED"
    CLOSED = "CLOSED"


class HeadAlias:
    """One engine's head alias over one cache.

    It is not thread safe and called between windows.

    Parameters
    ----------
    head
        The output head.
    tail
        The in-place loan of the small plan.
    path
        The prompt path.
    least_fresh
        Fresh tokens below which the head stays.
    keep
        Slots that no prompt borrows.
    most_chunk
        Tokens of any chunk at most.
    verify_all
        Whether every slot that comes back is compared, not a sample; None for what `verification.verifies_all` says.

    Attributes
    ----------
    note
        Why the last prompt was read with the small plan, empty when it was not.
    verified
        What was compared of the slots that came back last.
    """

    def __init__(
        self,
        head: Head,
        tail: TailLoan,
        path: PromptPath,
        *,
        least_fresh: int = LEAST_FRESH,
        keep: int = KEEP_SLOTS,
        most_chunk: int = MOST_CHUNK,
        verify_all: bool | None = None,
    ) -> None:
        """Reserves W. Raises DriverError, or StrataError for a cache that is not made of pieces."""
        cache = tail.cache
        if not cache.arena.segmented() or not head.arena.segmented():
            raise StrataError("head alias: expected a cache and a head made of pieces")
        self.head, self.tail, self.path, self.cache = head, tail, path, cache
        self.least_fresh, self.keep, self.most_chunk = least_fresh, keep, most_chunk
        self.verify_all = verifies_all() if verify_all is None else verify_all
        self.verified = Verified(0, 0, 0)
        self.book = cache.loan_book("head alias")
        self.window = Window(cache.driver, cache.arena.reserved + head.arena.reserved)
        self.phase = HeadPhase.DECODE
        self.note = ""
        self._lifted_tail: list[Piece] = []
        self._lifted_head: list[Piece] = []

    @property
    def held(self) -> set[int]:
        """The handles that are neither the cache's nor the head's at the moment, because they have been lifted."""
        return {piece.handle for piece in (*self._lifted_tail, *self._lifted_head)}

    def lendable(self) -> int:
        """Bytes of W with every whole piece behind the slots that are kept, and the head's pieces."""
        return sum(self._tail_sizes(self.keep)) + self.head.arena.mapped_bytes

    def refusal(self, fresh: int) -> str:
        """Why a prompt with so many fresh tokens leaves the head where it is; empty when it does not."""
        if fresh < self.least_fresh:
            return f"{fresh} tokens to read, expected at least {self.least_fresh}"
        other = self.cache.out(but=self.book)
        return f"the loan {other!r} is out" if other else ""

    def plan(self) -> PromptPlan | None:
        """The plan with the head's memory; None when 256 tokens do not fit."""
        most = min(self.most_chunk, self.path.most_chunk)
        return prompt_plan(self.lendable(), self.path.shape, most_chunk=most)

    def enter(self, fresh: int) -> Workspace:
        """Lay out a workspace for a prompt: in W and PROMPT, or in the tail and DECODE, with `note`.

        Parameters
        ----------
        fresh
            Tokens to read, at least 1.

        Raises
        ------
        Refused
            With nothing changed, when not even the small plan fits.
        Fatal
            When a step failed and it is unknown what holds.
        """
        self._expect(HeadPhase.DECODE)
        if fresh < 1:
            raise Refused(f"a prompt of {fresh} tokens to read, expected at least 1")
        self.note = self.refusal(fresh)
        if not self.note:
            plan = self.plan()
            if plan is None:
                self.note = f"{self.lendable()} bytes can be lent, too few for 256 tokens"
            else:
                workspace = self._enter(plan, fresh)
                if workspace is not None:
                    return workspace
        with self._ends():
            return self._small(fresh)

    def leave(self) -> None:
        """Back to decoding, whether W was used or the tail. Raises Fatal: nothing can be decoded then."""
        if self.phase in (HeadPhase.FAILED, HeadPhase.CLOSED):
            self._expect(HeadPhase.DECODE)
        with self._ends():
            self.path.leave()
            if self.phase is HeadPhase.DECODE:
                self._refill()
            else:
                self._to_decode("leave")

    def close(self) -> None:
        """Give W's addresses back, and in the middle of a prompt the memory that lies there; the rest is the head's and
        the cache's, which their owners close afterwards.

        Raises StrataError when something could not be given back, Fatal when the context is lost. Nothing is called
        after a lost context, nor a second time.
        """
        if self.phase is HeadPhase.CLOSED or (self.cache.fatal is not None and self.cache.fatal.lost):
            return
        self.phase = HeadPhase.CLOSED
        held = self.cache.arena.held | self.head.arena.held  # of a way back that stopped in the middle
        lifted = [piece for piece in (*self._lifted_tail, *self._lifted_head) if piece.handle not in held]
        self._lifted_tail, self._lifted_head = [], []
        self.window.close(lifted)

    # Ways.

    def _small(self, fresh: int) -> Workspace:
        return lay_out(self.tail, self.path, fresh, self.keep, self.most_chunk, self._refill)[1]

    def _refill(self) -> None:
        self.verified = self.tail.refill(self.verify_all)

    def _enter(self, plan: PromptPlan, fresh: int) -> Workspace | None:
        """PROMPT with a workspace, or None with everything as it was and a note."""
        arena, driver = self.cache.arena, self.cache.driver
        chunk = request_chunk(plan.chunk, fresh)
        need = bytes_needed(chunk, plan.ring, self.path.shape)
        boundary = self._boundary(need)
        first = self.cache.slots.within(boundary)
        missing = [row for row, _ in self.cache.residency.resident(first) if not self.cache.source.has(row)]
        if missing:
            self.note = f"host memory does not hold expert {self.cache.geometry.expert(missing[0])}"
            return None
        with self._ends():
            self.cache.land()
            with fatal_if_refused("synchronize before the head's memory moves"):
                driver.synchronize()
            self.cache.take(self.book, first)
            sizes = [size for start, size in zip(arena.starts, arena.sizes, strict=True) if start >= boundary]
            try:
                lifted = arena.lift(boundary)
                self._lifted_tail = [Piece(handle, size) for handle, size in zip(lifted, sizes, strict=False)]
                self._lifted_head = self.head.lift()
                self.window.fill([*self._lifted_tail, *self._lifted_head])
                workspace = self.path.relayout(self.window.address, self.window.mapped_bytes, chunk, plan.ring)
            except Fatal:
                raise
            except StrataError as error:
                self.note = f"undone: {error}"
                self._to_decode("undoing an entry")
                return None
            self.phase = HeadPhase.PROMPT
        return workspace

    def _to_decode(self, what: str) -> None:
        """Everything back where it was, from wherever a transition stopped; each step may be repeated."""
        try:
            self._back()
        except Fatal:
            raise
        except StrataError:
            try:
                self._back()
            except Fatal:
                raise
            except StrataError as error:
                raise Fatal(f"{what}: {error}; the second try failed too") from error
        self.phase = HeadPhase.DECODE

    def _back(self) -> None:
        self.window.clear()
        if self._lifted_head:
            self.head.arena.put_back([piece.handle for piece in self._lifted_head])
            self._lifted_head = []
        if not self.head.present:
            self.head.load()
        if self._lifted_tail:
            self.cache.arena.put_back([piece.handle for piece in self._lifted_tail])
            self._lifted_tail = []
        pairs = list(self.book)
        self.verified = self.cache.give_back(self.book, pairs if self.verify_all else self.cache.sample(pairs))

    def _tail_sizes(self, keep: int) -> list[int]:
        """Whole pieces behind the first `keep` slots, as they are mapped now."""
        arena, slots = self.cache.arena, self.cache.slots
        if keep > len(slots):
            return []
        return [arena.sizes[k] for k in range(arena.pieces) if arena.starts[k] >= slots.off[keep]]

    def _boundary(self, need: int) -> int:
        """Where the fewest last pieces begin that make W hold `need` bytes with the head; the mapped end for none."""
        arena = self.cache.arena
        boundary, held = arena.mapped_bytes, self.head.arena.mapped_bytes
        for size in reversed(self._tail_sizes(self.keep)):
            if held >= need:
                break
            held += size
            boundary -= size
        return boundary

    def _expect(self, phase: HeadPhase) -> None:
        if self.phase is HeadPhase.FAILED:
            raise Fatal("the head could not be brought back, expected a new process")
        if self.phase is not phase:
            raise Refused(f"phase {self.phase}: expected {phase}")

    @contextmanager
    def _ends(self) -> Iterator[None]:
        """Around a transition: one that ends fatally, or is broken off by anything but a refusal, is remembered in the
        phase, and by the cache, which then refuses too."""
        try:
            yield
        except BaseException as error:
            if self.cache.end_if_fatal(error) is not None:
                self.phase = HeadPhase.FAILED
            raise
