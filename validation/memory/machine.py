"""Random traces: LEND, RECLAIM, swaps, admission, prompts, STOP, resizing and a borrower, against the model.

Each step is done to an engine on a fake card and to `model.Model`; then both must have answered the same, every row
must be where the model has it, and the invariants I1 to I7 must hold, byte for byte. Needs hypothesis.

An engine reads its prompts in the tail of the cache, with the loan of `PromptLoan`, or with the head's alias. Caches
and pieces have many sizes, so that loans begin at many slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
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

from strata.memory.arena.pieces import MiB
from strata.memory.driver.errors import Refused
from strata.memory.driver.fake import FakeCard
from strata.memory.loan.lending import SPARE_BYTES
from strata.memory.loan.tail_loan import TailLoan
from strata.memory.loan.workspace_layout import Workspace
from validation.memory.model import REFUSED, Model
from validation.memory.prompt_world import AliasWorld, PromptWorld
from validation.memory.reading import ALIAS, LOAN, PLAIN, READERS, resource_bytes
from validation.memory.world import BLOBS, EXPERTS, GRANULARITY, KINDS, LAYERS, PIECE, SLOTS, World

ROWS = LAYERS * EXPERTS
#: What the card has beyond the cache and RECLAIM's margin: a borrower that keeps more than this is in the way.
ROOM = 3 * GRANULARITY
MIBS = st.sampled_from((1, 2, 1, 2, 1, 2, 0, 64))
#: Slots of a cache, and granules of a piece.
CACHES = st.sampled_from((38, 29, 33, 24, 41, 36, SLOTS))
PIECES = st.sampled_from((1, 2, 3, 5, 8))
#: Of all machines of this process: steps; by request how often it was carried out and how often refused (a LEND while
#: one is out and a RECLAIM of nothing count as neither: they have names of their own); where loans began.
steps = 0
tally: dict[str, list[int]] = {}
boundaries: Counter[tuple[str, int, int, int]] = Counter()
#: The least that must have been carried out for each 1,000 steps, so that a proof of nothing is none. Seeds differ:
#: this is about a third of what 10,000 steps do.
FLOORS = {
    "LEND": 25,
    "LEND while one is out": 10,
    "LEND of what others need": 12,
    "RECLAIM": 20,
    "prompt": 5,
    "loan": 4,
    "alias": 4,
    "read in the tail": 4,
    "STOP": 5,
    "swap": 8,
    "admit": 2,
    "shrink": 5,
    "grow": 5,
}
#: And in how many different places loans began: (kind of slots, slots, bytes of a piece, first slot).
LEAST_BOUNDARIES = 20


class Traces(RuleBasedStateMachine):
    """One engine from its opening to its closing."""

    @initialize(
        kind=st.sampled_from(KINDS),
        verify_all=st.booleans(),
        unfilled=st.integers(0, 8),
        reader=st.sampled_from(list(READERS)),
        slots=CACHES,
        granules=PIECES,
    )
    def open(
        self,
        kind: str,
        verify_all: bool,
        unfilled: int,
        reader: str = PLAIN,
        slots: int = SLOTS,
        granules: int = PIECE // GRANULARITY,
    ) -> None:
        """unfilled: rows that the profile lacks, so that some slots are empty; reader: how prompts are read."""
        reserved = -(-slots * max(BLOBS) // GRANULARITY) * GRANULARITY
        fixed = GRANULARITY + resource_bytes(reader)
        self.card = FakeCard(reserved + fixed + SPARE_BYTES + ROOM)
        self.reader = READERS[reader]
        self.world: World = self.reader.world(kind, self.card, verify_all, slots, granules * GRANULARITY)
        world = self.world
        if unfilled:
            world.profile = world.profile[: len(world.slots) - unfilled]
        self.reader.prepare(world)
        world.open()
        self.tail = world.tail if isinstance(world, PromptWorld | AliasWorld) else TailLoan(world.cache)
        arena = world.cache.arena
        self.model = Model(
            off=[int(x) for x in world.slots.off],
            layers=[int(x) for x in world.slots.layers],
            sizes=list(arena.sizes),
            blobs=BLOBS,
            experts=EXPERTS,
            total=self.card.total,
            fixed=fixed,
            swaps=world.tier.pace.swaps,
            where=world.residents(),
            pieces=arena.pieces,
        )
        self.most = arena.mapped_bytes  # while decoding
        self.stream = world.driver.stream()
        self.base = arena.base

    @rule(mib=MIBS, home=st.integers(0, 3))
    def lend_some(self, mib: int, home: int) -> None:
        """home: three times of four everything else has come back before it."""
        if home:
            self.come_home()
        self.lend(mib)

    @rule()
    def come_home(self) -> None:
        """The prompt ends, and a cache that was made smaller is as large as before."""
        if self.model.reading:
            self.end(False)
        if self.model.prompt is not None:
            self.refill()
        if self.model.evicted:
            self.grow(self.most)

    @rule(mib=st.sampled_from((1, 2)), least=st.integers(0, SLOTS), rows=st.lists(st.integers(0, ROWS - 1), max_size=9))
    def lend_what_others_need(self, mib: int, least: int, rows: list[int]) -> None:
        """A prompt needs `least` slots, and the host does not hold some experts: LEND asks both before it takes a row,
        and where it is refused nothing has changed."""
        self.come_home()
        self.lend(mib, least, rows)

    def lend(self, mib: int, least: int = 0, absent: Iterable[int] = ()) -> None:
        """Once, with what lacks only meanwhile."""
        out = self.model.lent is not None
        name = "LEND while one is out" if out else "LEND"
        wanted = self.model.lend(mib, least, frozenset(absent))
        with self.world.lacking(least, absent):
            lent = self._same(name, lambda: tuple(self.world.lending.lend(mib)), wanted)
        if (least or absent) and lent == REFUSED:
            _count("LEND of what others need", True)
        assert lent == REFUSED or lent[0] * MiB <= self.card.total
        loan = self.world.lending.loan
        if not out and loan is not None:
            boundaries[self.world.kind, len(self.world.slots), self.world.piece, loan.first] += 1

    @precondition(lambda self: self.model.lent is not None)
    @rule(home=st.integers(0, 3))
    def reclaim_it(self, home: int) -> None:
        """home: three times of four the borrower has left and everything else has come back before it."""
        if home:
            self.borrower_leaves()
            self.come_home()
        self.reclaim()

    @rule(mib=st.sampled_from((1, 2)), lends=st.booleans())
    def there_and_back(self, mib: int, lends: bool) -> None:
        """A whole loan, with a window that may still run when it begins; lends: and another one behind it."""
        self.come_home()
        self.window()
        if self.model.lent is None:
            self.lend(mib)
        self.borrower_leaves()
        self.reclaim()
        if lends:
            self.lend(mib)

    @precondition(lambda self: self.model.lent is None)
    @rule(answered=st.integers(0, 2))
    def reclaim_nothing(self, answered: int) -> None:
        if not answered:
            self.reclaim()

    def reclaim(self) -> None:
        name = "RECLAIM" if self.model.lent is not None else "RECLAIM of nothing"
        self._same(name, lambda: tuple(self.world.lending.reclaim()), self.model.reclaim())

    @rule(share=st.integers(1, 4))
    def borrower_comes(self, share: int) -> None:
        """Another process takes some of what is free beyond the margin, and beyond what a prompt must get back."""
        take = max(0, self.model.free - SPARE_BYTES - self.reader.owed(self)) * share // 4
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

    @rule(pick=st.integers(0, ROWS - 1), any_row=st.integers(0, 3))
    def admit_one(self, pick: int, any_row: int) -> None:
        """Three times of four a miss: what is resident is never admitted."""
        misses = [row for row in range(ROWS) if row not in self.model.where]
        self.admit(misses[pick % len(misses)] if any_row and misses else pick)

    def admit(self, row: int) -> None:
        got, wanted = self.world.cache.admit(row), self.model.admit(row)
        _count("admit", got >= 0)
        assert got == wanted, f"row {row} was admitted to slot {got}, expected {wanted}"

    @precondition(lambda self: not self.model.reading)
    @rule(share=st.integers(0, 100), keep=st.integers(0, 12), stop=st.booleans())
    def borrow(self, share: int, keep: int, stop: bool) -> None:
        """A prompt of any size, without phases. share: of the cache's bytes, percent."""
        self.prompt(share * self.model.off[-1] // 100, keep, stop)

    def prompt(self, nbytes: int, keep: int, stop: bool) -> None:
        """A prompt borrows slots and writes all over them; stopped, it gives them back at once."""
        region = self._same("prompt", lambda: self.tail.lend(nbytes, keep).first, self.model.lend_prompt(nbytes, keep))
        if region == REFUSED:
            return
        self.read_on()
        if stop:
            self.refill()

    @precondition(lambda self: self.model.prompt is not None and not self.model.reading)
    @rule()
    def read_on(self) -> None:
        """The prompt's next chunk, by a kernel that may still run when the next command comes."""
        first = self.model.off[self.model.prompt_first]
        if self.model.mapped > first:
            self.world.driver.kernel([], [(self.base + first, self.model.mapped - first)], self.stream)

    @precondition(lambda self: not self.model.reading)
    @rule()
    def refill(self) -> None:
        self.tail.refill(self.world.verify_all)
        self.model.refill_prompt()

    @precondition(lambda self: self.reader.phases and not self.model.reading and self.model.prompt is None)
    @rule(fresh=st.sampled_from((200, 1000, 1024, 2000, 9000)))
    def begin(self, fresh: int) -> None:
        """A prompt that is read in phases begins: with the loan or the alias, or in the tail."""
        way, wanted, act = self.reader.begin(self, fresh)
        self.model.reading = "" if self._same(way, act, wanted) == REFUSED else way
        assert self.reader.reads(self.world) == (self.model.reading in (LOAN, ALIAS))

    @precondition(lambda self: bool(self.model.reading))
    @rule(part=st.integers(0, 3))
    def chunk(self, part: int) -> None:
        """Some of the workspace is written by a kernel that may still run when the next command comes."""
        workspace: Workspace = self.reader.workspace(self.world)
        blocks = [(block.address, block.nbytes) for block in workspace.blocks if block.nbytes]
        self.world.driver.kernel([], blocks[part::4] or blocks, self.stream)

    @precondition(lambda self: bool(self.model.reading))
    @rule(stop=st.booleans())
    def end(self, stop: bool) -> None:
        """The prompt has been read, or STOP comes in the middle of a chunk: that kernel has not even begun."""
        if stop:
            self.chunk(0)
            _count("STOP", True)
        self.reader.end(self)

    @precondition(lambda self: self.reader.phases and not self.model.reading and self.model.prompt is None)
    @rule(fresh=st.sampled_from((1024, 9000)), chunks=st.integers(0, 3))
    def stopped(self, fresh: int, chunks: int) -> None:
        """A prompt from its beginning to a STOP after some of its chunks."""
        self.begin(fresh)
        if self.model.reading:
            for part in range(chunks):
                self.chunk(part)
            self.end(True)

    @precondition(lambda self: not self.model.reading and not self.model.evicted)
    @rule(share=st.integers(0, 100))
    def shrink_to(self, share: int) -> None:
        """share: of what is mapped while decoding, percent."""
        self.shrink(share * self.most // 100)

    @precondition(lambda self: bool(self.model.evicted) and not self.model.reading)
    @rule(share=st.integers(0, 100))
    def shrink_further(self, share: int) -> None:
        self.shrink(share * self.model.mapped // 100)

    def shrink(self, keep: int) -> None:
        self._same("shrink", lambda: self.world.resizing.shrink(keep).experts, self.model.shrink(keep))

    @precondition(lambda self: not self.model.reading)
    @rule(share=st.integers(0, 100))
    def grow_to(self, share: int) -> None:
        """share: of what is mapped while decoding, percent; no more than that, which is what a loan's cache has."""
        self.grow(share * self.most // 100)

    @precondition(lambda self: bool(self.model.evicted) and not self.model.reading)
    @rule()
    def grow_back(self) -> None:
        self.grow(self.most)

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
        if isinstance(self.world, AliasWorld):
            self.world.held = sum(self.world.driver.live_handles().values())  # LEND changes it; `free` was compared
        problems = self.world.problems()
        assert not problems, problems[0]

    def teardown(self) -> None:
        if hasattr(self, "world") and self.world.cache.fatal is None:
            left = self.world.close()
            assert not left, left[0]

    def _same(self, name: str, act: Callable[[], Any], wanted: Any) -> Any:
        """Both answered the same; what is refused is Refused, any other error is one."""
        try:
            got = act()
        except Refused:
            got = REFUSED
        assert got == wanted, f"{name} answered {got}, expected {wanted}"
        _count(name, got != REFUSED)
        return got


def _count(name: str, carried_out: bool) -> None:
    tally.setdefault(name, [0, 0])[0 if carried_out else 1] += 1


def shortfalls() -> list[str]:
    """What all machines of this process did too rarely for the traces to show anything about it."""
    found = [
        f"{name}: {done} carried out in {steps} steps, expected at least {floor * steps // 1000}"
        for name, floor in FLOORS.items()
        if (done := tally.get(name, [0, 0])[0]) < floor * steps // 1000
    ]
    if len(boundaries) < LEAST_BOUNDARIES:
        found.append(f"LEND began in {len(boundaries)} places, expected at least {LEAST_BOUNDARIES}")
    return found


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
    run: Any = run_state_machine_as_test  # typed in some releases of hypothesis and not in others
    run(machine, settings=made)
    return steps - before
