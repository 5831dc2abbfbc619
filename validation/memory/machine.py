"""Random traces: LEND, RECLAIM, swaps, admission, prompt loans, STOP, resizing and a borrower, against the model.

Each step is done to an engine on a fake card and to `model.Model`; then both must have answered the same, every row
must be where the model has it, and the invariants I1 to I7 must hold, byte for byte. Needs hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from strata.executors.base import StrataError
from strata.memory.errors import Fatal, Refused
from strata.memory.fake import FakeCard
from strata.memory.lending import SPARE_BYTES
from strata.memory.loan import TailLoan
from strata.memory.pieces import MIB
from validation.memory.model import REFUSED, Model
from validation.memory.world import BLOBS, BYTES, EXPERTS, GRANULARITY, KINDS, LAYERS, PIECE, SLOTS, World

ROWS = LAYERS * EXPERTS
#: What the card has beyond the cache and RECLAIM's margin: a borrower that keeps more than this is in the way.
ROOM = 3 * GRANULARITY
MIBS = st.sampled_from((1, 1, 1, 2, 0, 4))
#: Of all machines of this process: steps, and by request how often it was carried out and how often refused.
steps = 0
tally: dict[str, list[int]] = {}


class Traces(RuleBasedStateMachine):
    """One engine from its opening to its closing."""

    @initialize(kind=st.sampled_from(KINDS), verify_all=st.booleans(), unfilled=st.integers(0, 4))
    def open(self, kind: str, verify_all: bool, unfilled: int) -> None:
        """unfilled: rows that the profile lacks, so that some slots are empty."""
        reserved = -(-BYTES // GRANULARITY) * GRANULARITY
        self.card = FakeCard(reserved + GRANULARITY + SPARE_BYTES + ROOM)
        self.world = world = World(kind, self.card, verify_all)
        if unfilled:
            world.profile = world.profile[: len(world.slots) - unfilled]
        world.open()
        self.tail = TailLoan(world.cache)
        arena = world.cache.arena
        self.model = Model(
            off=[int(x) for x in world.slots.off],
            layers=[int(x) for x in world.slots.layers],
            sizes=list(arena.sizes),
            blobs=BLOBS,
            experts=EXPERTS,
            total=self.card.total,
            fixed=GRANULARITY,
            swaps=world.tier.pace.swaps,
            where=world.residents(),
            pieces=len(arena.sizes),
        )
        self.stream = world.driver.stream()
        self.base = arena.base

    @rule(mib=MIBS)
    def lend(self, mib: int) -> None:
        lent = self._same("LEND", lambda: tuple(self.world.lending.lend(mib)), self.model.lend(mib))
        assert lent == REFUSED or lent[0] * MIB <= self.card.total

    @rule()
    def reclaim(self) -> None:
        self._same("RECLAIM", lambda: tuple(self.world.lending.reclaim()), self.model.reclaim())

    @rule(share=st.integers(1, 4))
    def borrower_comes(self, share: int) -> None:
        """Another process takes some of what is free beyond the margin."""
        take = max(0, self.model.free - SPARE_BYTES) * share // 4
        if take and self.card.take("borrower", take):
            self.model.borrowed += take

    @rule()
    def borrower_leaves(self) -> None:
        self.card.leave("borrower")
        self.model.borrowed = 0

    @rule(rows=st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=12))
    def use_and_swap(self, rows: list[int]) -> None:
        """Routing hits these experts, and a round of the adaptive tier begins; its copies are still on their way."""
        for row in rows:
            for _ in range(2):
                self.model.usage[row] = self.model.usage.get(row, 0.0) + 1.0
        self.world.tier.count([row for row in rows for _ in range(2)])
        _count("swap", bool(self.world.tier.begin()))
        self.model.begin_swaps()

    @rule()
    def window(self) -> None:
        """Decoding: what every row names is read, by a kernel that may still run when the next command comes."""
        world = self.world
        world.cache.begin_window()
        self.model.land()
        reads = [
            (self.base + int(world.slots.off[slot]), world.geometry.blob(row)) for row, slot in self.model.where.items()
        ]
        world.driver.kernel(reads, [], self.stream)

    @rule(row=st.integers(0, ROWS - 1))
    def admit(self, row: int) -> None:
        got, wanted = self.world.cache.admit(row), self.model.admit(row)
        _count("admit", got >= 0)
        assert got == wanted, f"row {row} was admitted to slot {got}, expected {wanted}"

    @rule(nbytes=st.integers(0, BYTES), keep=st.integers(0, SLOTS), stop=st.booleans())
    def prompt(self, nbytes: int, keep: int, stop: bool) -> None:
        """A prompt borrows slots and writes all over them; stopped, it gives them back at once."""
        region = self._same("prompt", lambda: self.tail.lend(nbytes, keep).first, self.model.lend_prompt(nbytes, keep))
        if region == REFUSED:
            return
        self._scribble()
        if stop:
            self.refill()

    @precondition(lambda self: self.model.prompt is not None)
    @rule()
    def read_on(self) -> None:
        """The prompt's next chunk."""
        self._scribble()

    @rule()
    def refill(self) -> None:
        self.world.driver.wait_stream(self.stream)
        self.tail.refill(self.world.verify_all)
        self.model.refill_prompt()

    @rule(keep=st.integers(0, BYTES))
    def shrink(self, keep: int) -> None:
        self._same("shrink", lambda: self.world.resizing.shrink(keep).experts, self.model.shrink(keep))

    @rule(want=st.integers(0, BYTES + PIECE))
    def grow(self, want: int) -> None:
        self._same("grow", lambda: self.world.resizing.grow(want).experts, self.model.grow(want))

    @invariant()
    def all_is_well(self) -> None:
        """After each step: the same rows in the same slots, the same memory mapped, I1 to I7, no leak, no paging."""
        global steps
        if not hasattr(self, "world"):
            return
        steps += 1
        self.world.driver.log.clear()
        assert self.world.residents() == self.model.where
        assert self.world.cache.arena.mapped_bytes == self.model.mapped
        assert self.world.driver.mem_info()[0] == self.model.free
        problems = self.world.problems()
        assert not problems, problems[0]

    def teardown(self) -> None:
        if hasattr(self, "world") and self.world.cache.fatal is None:
            left = self.world.close()
            assert not left, left[0]

    def _scribble(self) -> None:
        first = self.model.off[self.model.prompt_first]
        self.world.driver.fill(self.base + first, 0x5A, self.model.mapped - first)

    def _same(self, name: str, act: Callable[[], Any], wanted: Any) -> Any:
        """Both answered the same; refusals are refusals of either."""
        try:
            got = act()
        except Fatal:
            raise
        except (Refused, StrataError):
            got = REFUSED
        assert got == wanted, f"{name} answered {got}, expected {wanted}"
        _count(name, got != REFUSED)
        return got


def _count(name: str, carried_out: bool) -> None:
    tally.setdefault(name, [0, 0])[0 if carried_out else 1] += 1


def run(examples: int, length: int, seed: int | None = None, shorten: bool = True) -> int:
    """Examine `examples` traces of up to `length` steps; returns the steps made. Raises what a trace raises.

    shorten: look for the shortest trace that goes wrong, which takes a while.
    """
    global steps
    before = steps
    made = settings(
        max_examples=examples,
        stateful_step_count=length,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink) if shorten else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    machine = type("SeededTraces", (Traces,), {})
    if seed is not None:
        machine = seeded(seed)(machine)
    run_state_machine_as_test(machine, settings=made)  # type: ignore[no-untyped-call]
    return steps - before
