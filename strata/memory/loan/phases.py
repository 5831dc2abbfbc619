"""The request-scoped prompt loan: what only decoding needs makes room for a prompt, and is back before generation.

COLD       at the start: the lent resources were never loaded, the cache was opened over their memory; nobody else lends
READING    prompt buffers lie in the end of the grown cache, down to slot 0 if need be
RESTORING  buffers given up, cache shrunk to its decode size, resources restored, slots refilled, request state set
DECODING   everything is there; a prompt that takes no loan is read in the tail, behind 128 slots
RELEASING  swaps landed, card idle, resources released (dependents first), cache grown, workspace laid out
FAILED     a restore failed: the engine answers ERR and exits with 1

COLD -> READING -> RESTORING -> DECODING -> (RELEASING -> READING -> RESTORING | READING) -> DECODING ...
A refused release is undone: the prompt is then read without the loan. LEND, RECLAIM and VRAM belong between requests,
behind `ready`: LEND in COLD is refused, because what RECLAIM brings back would lie beyond the decode size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from strata.executors.base import StrataError
from strata.memory.cache.cache_resize import TwoSizes
from strata.memory.cache.cache_size import KEEP_SLOTS
from strata.memory.cache.verification import Verified
from strata.memory.driver.errors import Fatal, Refused
from strata.memory.loan.chunks import cut, request_chunk
from strata.memory.loan.loan_switches import LoanSwitches
from strata.memory.loan.prompt_path import PromptPath, lay_out
from strata.memory.loan.prompt_plan import PromptPlan
from strata.memory.loan.request import FOLLOWS, Phase, Prompt, Read, RequestState, RequestTarget
from strata.memory.loan.resources import ResourceGraph
from strata.memory.loan.tail_loan import TailLoan
from strata.memory.loan.workspace_layout import Workspace

__all__ = ["FOLLOWS", "Phase", "Prompt", "PromptLoan", "Read"]


class PromptLoan:
    """One engine's loans.

    It is not thread safe and has no clock: the main loop calls it between windows.

    Parameters
    ----------
    resources
        H, X, D, V, G and what else only decoding needs.
    sizes
        The cache between its two sizes.
    tail, path
        The loan of slots, and the prompt path whose workspace lies in them.
    target
        Where request state lives; its resource is among `resources`.
    switches
        What the environment asks for.
    most_chunk
        Tokens of any prompt's chunk at most.
    keep
        Slots that a prompt without the loan does not borrow.

    Attributes
    ----------
    start_chunk
        The chunk of the first prompt's plan, None before it.
    note
        Why the last prompt took no loan, empty when it did.
    visited
        Every phase so far.
    verified
        What was compared of the slots that came back last, all of them with `switches.verify_all`.
    """

    def __init__(
        self,
        resources: ResourceGraph,
        sizes: TwoSizes,
        tail: TailLoan,
        path: PromptPath,
        target: RequestTarget,
        switches: LoanSwitches,
        most_chunk: int,
        keep: int = KEEP_SLOTS,
    ) -> None:
        """The resources that are lent are absent (COLD), or everything is present (DECODING, with no loan asked for).

        Raises StrataError for anything between, and for a cold engine of which something is lent already.
        """
        lent = [resource.name for resource in resources.with_dependents(switches.lent)]
        if resources.absent not in ([], lent):
            raise StrataError(f"resources {resources.absent} are absent, expected {lent or 'none'} or none")
        self.resources, self.sizes, self.tail, self.path, self.target = resources, sizes, tail, path, target
        self.switches, self.most_chunk, self.keep = switches, most_chunk, keep
        self.phase = Phase.COLD if resources.absent else Phase.DECODING
        self.visited = [self.phase]
        self.verified = Verified(0, 0, 0)
        # No row and no slot, but while it is out no other loan begins.
        self._cold = tail.cache.loan_book("cold start")
        if self.phase is Phase.COLD:
            other = tail.cache.out()
            if other:
                raise StrataError(f"prompt loan: the loan {other!r} is out, expected none of a cold engine")
            self._cold.first = len(tail.cache.slots)
        self.start_chunk: int | None = None
        self.note = ""
        self._prompt: Prompt | None = None
        self._loan = False
        self._plan: PromptPlan | None = None

    def _to(self, phase: Phase) -> None:
        assert phase in FOLLOWS[self.phase], f"{self.phase} -> {phase}"
        self.phase = phase
        self.visited.append(phase)

    def refusal(self, prompt: Prompt) -> str:
        """Why this prompt takes no loan; empty when it does. The first prompt of a cold engine always does."""
        if self.phase is Phase.COLD:
            return ""
        if not self.switches.elastic:
            return "prompt loans are off"
        if not self.switches.repeat:
            return "only the first prompt takes a loan"
        if prompt.images:
            return "its image rows are read in windows"
        if prompt.fresh < self.switches.repeat_tokens:
            return f"{prompt.fresh} tokens to read, expected at least {self.switches.repeat_tokens}"
        other = self.tail.cache.out(but=self.tail.book)
        return f"the loan {other!r} is out" if other else ""

    def ready(self, state: RequestState | None = None) -> None:
        """Leave COLD without a prompt, for a request with nothing to read or before LEND, RECLAIM and VRAM.

        Parameters
        ----------
        state
            What must be set when generation begins; None for the defaults.

        Raises
        ------
        Refused
            While a prompt is being read.
        Fatal
            When the restore fails.
        """
        self._alive()
        if self.phase is Phase.READING:
            raise Refused("a prompt is being read, expected to come between requests")
        if self.phase is Phase.COLD:
            self._restore(RequestState() if state is None else state)

    def read(
        self, prompt: Prompt, run: Callable[[Workspace, int, int], None], stopped: Callable[[], bool] = lambda: False
    ) -> Read:
        """Read a prompt's fresh tokens and end in DECODING.

        Whatever `run` raises is raised again once everything is restored.

        Parameters
        ----------
        prompt
            The request.
        run
            What reads tokens `start .. start + length - 1` of the fresh ones in a workspace.
        stopped
            Asked before each chunk whether to stop.

        Raises
        ------
        Refused
            With nothing changed.
        Fatal
            When a step failed and it is unknown what holds.
        """
        if prompt.fresh == 0:
            self.ready(prompt.state)
            self._set(prompt.state)
            return Read(0, False, "", False)
        workspace = self.begin(prompt)
        done, cancelled = 0, False
        try:
            for length in cut(prompt.fresh, self._chunk(prompt)):
                if stopped():
                    cancelled = True
                    break
                run(workspace, done, length)
                done += length
        finally:
            plan, loan = str(self._plan), self._loan
            self.end()
        return Read(done, cancelled, plan, loan)

    def begin(self, prompt: Prompt) -> Workspace:
        """Enter READING.

        Parameters
        ----------
        prompt
            The request.

        Raises
        ------
        Refused
            With everything as it was.
        Fatal
            When a step failed and it is unknown what holds.
        """
        self._alive()
        if self.phase not in (Phase.COLD, Phase.DECODING):
            raise Refused(f"phase {self.phase}: expected a prompt between requests")
        if not 0 < prompt.fresh <= prompt.tokens:
            raise Refused(f"a prompt of {prompt.tokens} tokens, {prompt.resume} of them read: expected some to read")
        self._prompt, self.note = prompt, self.refusal(prompt)
        cold = self.phase is Phase.COLD
        workspace = None if self.note or cold else self._release(prompt)
        if workspace is not None:
            return workspace
        with self._ends():
            # In COLD the resources are absent already and the cache has its large size.
            workspace = self._lay_out(prompt, 0 if cold else self.keep)
            if cold and self._plan is not None:
                self.start_chunk = self._plan.chunk
            self._loan = cold
            self._to(Phase.READING)
        return workspace

    def end(self) -> None:
        """Leave READING, after STOP and after an error as well.

        Raises
        ------
        Refused
            Without a prompt that is being read.
        Fatal
            When the restore fails.
        """
        self._alive()
        if self.phase is not Phase.READING or self._prompt is None:
            raise Refused(f"phase {self.phase}: expected a prompt that is being read")
        self._restore(self._prompt.state)
        self._prompt = None

    # Transitions.

    def _release(self, prompt: Prompt) -> Workspace | None:
        """DECODING to READING with a workspace; or None, back in DECODING, with the reason in `note`."""
        self._to(Phase.RELEASING)
        try:
            with self._ends():
                self.sizes.settle()
                self.resources.release(self.switches.lent)
                self.sizes.grow()
                workspace = self._lay_out(prompt, 0)
                self._loan = True
                self._to(Phase.READING)
        except Fatal:
            raise
        except StrataError as error:
            self.note = str(error)
            self._restore(prompt.state)
            return None
        return workspace

    def _restore(self, state: RequestState) -> None:
        """To DECODING: the only way out of READING, and out of a release that was refused."""
        self._to(Phase.RESTORING)
        with self._ends():
            try:
                self.path.leave()
                self.sizes.shrink(self.tail.book)
                self.resources.restore()
                self._refill()
                self._set(state)
            except Fatal:
                raise
            except StrataError as error:
                raise Fatal(f"restore after a prompt: {error}") from error
        self._cold.first = None
        self._loan = False
        self._to(Phase.DECODING)

    def _set(self, state: RequestState) -> None:
        self.target.apply(state)
        got = self.target.state()
        if got != state:
            raise Fatal(f"request state is {got}, expected {state}")

    def _lay_out(self, prompt: Prompt, keep: int) -> Workspace:
        most = self.most_chunk
        if self.switches.retain and self.start_chunk is not None:
            most = min(most, self.start_chunk)
        self._plan, workspace = lay_out(
            self.tail, self.path, prompt.fresh, keep, most, self._refill, self.sizes.decode_slots
        )
        return workspace

    def _refill(self) -> None:
        self.verified = self.tail.refill(self.switches.verify_all)

    def _chunk(self, prompt: Prompt) -> int:
        assert self._plan is not None
        return request_chunk(self._plan.chunk, prompt.fresh)

    def _alive(self) -> None:
        if self.phase is Phase.FAILED:
            raise Fatal("the engine has failed to restore what decoding needs, expected a new process")

    @contextmanager
    def _ends(self) -> Iterator[None]:
        """Around a transition: one that ends fatally, or is broken off by anything but a refusal, ends in FAILED, for
        the cache too: nobody lends or computes with it any more."""
        try:
            yield
        except BaseException as error:
            if self.tail.cache.end_if_fatal(error) is not None:
                self._to(Phase.FAILED)
            raise
