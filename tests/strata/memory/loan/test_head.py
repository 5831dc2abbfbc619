"""The head alias: one address, one sum of memory, the reserve free in both phases, and graphs that never lie."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.memory.arena.arena import Arena, open_arena
from strata.memory.driver.driver import Code
from strata.memory.driver.errors import Fatal, Refused
from strata.memory.driver.fault_plan import Corrupt, Fail, FaultPlan, Interrupt
from strata.memory.driver.graphs import BoundGraph, StaleGraph
from strata.memory.loan.head import Head, HeadPhase
from strata.memory.loan.lending import Lending
from strata.memory.loan.workspace_layout import bytes_needed
from tests.strata.memory.cache.caches import assert_nothing_left
from tests.strata.memory.loan.tiny_engine import (
    PIECE,
    PROFILE,
    RESERVE,
    SIZES,
    AliasEngine,
    TinyShape,
    alias_engine,
    content,
    unsound,
)


def assert_decoding(made: AliasEngine) -> None:
    """The head is at its address with its bytes, the graph that was captured first reads them, every slot is back."""
    assert made.alias.phase is HeadPhase.DECODE
    assert made.head.present
    assert np.array_equal(np.asarray(made.window.launch()), content("H"))
    assert unsound(made.cache, made.driver) == []
    assert made.cache.residency.resident() == [(PROFILE[slot], slot) for slot in range(len(made.cache.slots))]
    assert made.alias.window.pieces == []
    assert made.driver.mem_info()[0] == RESERVE


def test_a_hundred_changes_of_phase() -> None:
    """The head's address, the sum of all handles and the free memory are the same in every one of them."""
    made = alias_engine()
    address, held = made.head.address, made.held()
    for index in range(100):
        workspace = made.alias.enter(1024 + 97 * index)
        assert made.alias.phase is HeadPhase.PROMPT
        assert not made.head.present
        assert (made.held(), made.driver.mem_info()[0]) == (held, RESERVE)
        assert unsound(made.cache, made.driver) == []
        made.read(workspace)
        made.alias.leave()
        assert (made.head.address, made.held()) == (address, held)
        assert_decoding(made)
    assert made.driver.misuse == []
    assert made.head.generation == 101


def test_no_memory_is_allocated_for_a_request() -> None:
    made = alias_engine()
    made.driver.log.clear()
    made.read(made.alias.enter(5000))
    made.alias.leave()
    names = {call.name for call in made.driver.log}
    assert not names & {"create", "release", "reserve", "address_free"}
    assert {"map", "unmap", "set_access"} <= names


def test_order_of_an_entry() -> None:
    """The card is idle before the table changes and again before an unmap; the table says so before anything is
    unmapped; nothing is mapped twice."""
    made = alias_engine()
    made.driver.log.clear()
    made.alias.enter(5000)
    log = made.driver.log
    table = next(k for k, call in enumerate(log) if call.name == "copy_in")
    assert {call.name for call in log[:table]} == {"synchronize"}
    unmaps = [k for k, call in enumerate(log) if call.name == "unmap"]
    assert log[table].args[0] == made.cache.residency.address
    assert table < min(unmaps)
    assert max(k for k in range(min(unmaps)) if log[k].name == "synchronize") > table
    assert max(unmaps) < min(k for k, call in enumerate(log) if call.name == "map")


def test_the_workspace_is_the_tail_and_then_the_head() -> None:
    made = alias_engine()
    head = made.head.arena.handles
    tail = made.cache.arena.handles
    workspace = made.alias.enter(6000)
    pieces = [piece.handle for piece in made.alias.window.pieces]
    lent = len(pieces) - len(head)
    assert pieces == [*tail[-lent:], *head]
    assert workspace.address == made.alias.window.address
    assert (
        workspace.nbytes == made.alias.window.mapped_bytes >= bytes_needed(workspace.chunk, workspace.ring, TinyShape())
    )


def test_a_request_takes_no_more_pieces_than_it_needs() -> None:
    """A short prompt leaves more of the cache alone; without the last piece taken it would not fit."""
    few, many = alias_engine(least_fresh=1), alias_engine(least_fresh=1)
    small, large = few.alias.enter(200), many.alias.enter(30_000)
    assert small.nbytes < large.nbytes
    for made, workspace in ((few, small), (many, large)):
        need = bytes_needed(workspace.chunk, workspace.ring, TinyShape())
        assert workspace.nbytes - PIECE < need
        assert len(made.alias.book) == len(made.cache.slots) - made.cache.usable_slots()


@pytest.mark.parametrize(("fresh", "lent"), [(1, False), (1023, False), (1024, True)])
def test_the_threshold(fresh: int, lent: bool) -> None:
    """Below 1,024 tokens that are really read the head stays, and its graph may run even while the prompt is read."""
    made = alias_engine()
    workspace = made.alias.enter(fresh)
    assert (made.alias.phase is HeadPhase.PROMPT) == lent
    assert made.alias.note == ("" if lent else f"{fresh} tokens to read, expected at least 1024")
    if not lent:
        assert np.array_equal(np.asarray(made.window.launch()), content("H"))
    made.read(workspace)
    assert unsound(made.cache, made.driver) == []
    made.alias.leave()
    assert_decoding(made)


def test_the_head_makes_the_chunk_larger() -> None:
    made = alias_engine()
    small = made.alias.enter(1000).nbytes
    made.alias.leave()
    plan = made.alias.plan()
    assert plan is not None
    assert plan.lendable == made.alias.lendable() >= small + SIZES["H"] - PIECE


def test_a_graph_is_not_launched_while_the_head_is_lent() -> None:
    made = alias_engine()
    made.alias.enter(5000)
    before = len(made.driver.log)
    with pytest.raises(StaleGraph, match="graph window cannot be launched: H is absent"):
        made.window.launch()
    assert len(made.driver.log) == before
    with pytest.raises(StaleGraph, match="graph early cannot be captured: H is absent"):
        BoundGraph("early", made.driver.capture([(made.head.address, 1)]), [made.head])
    made.alias.leave()
    made.window.launch()


class MovingHead:
    """The way without an alias: memory is freed and allocated again, wherever the driver puts it."""

    name = "H"
    present = True

    def __init__(self, made: AliasEngine) -> None:
        self._driver = made.driver
        self.arena = open_arena(self._driver, SIZES["H"], PIECE)
        self._driver.copy_in(self.arena.base, content("H"))

    @property
    def address(self) -> int:
        return self.arena.base

    def reload(self) -> None:
        self.arena.close()
        self.arena = open_arena(self._driver, SIZES["H"], PIECE)
        self._driver.copy_in(self.arena.base, content("H"))


def test_a_head_that_moved_is_not_launched() -> None:
    """The fault that an alias rules out: the new place holds the right bytes, but the graph reads the old one."""
    made = alias_engine()
    made.driver.card.total += 1 << 20
    moving = MovingHead(made)
    graph = BoundGraph("window", made.driver.capture([(moving.address, SIZES["H"])]), [moving])
    assert np.array_equal(np.asarray(graph.launch()), content("H"))
    moving.reload()
    with pytest.raises(StaleGraph, match=r"H is at 0x[0-9a-f]+, it was captured at 0x"):
        graph.launch()
    assert not made.driver.lost


def test_a_head_at_another_address_is_fatal() -> None:
    made = alias_engine()
    made.alias.enter(5000)
    made.head._address += PIECE  # nothing in this code moves it
    with pytest.raises(Fatal, match="the head is at"):
        made.alias.leave()
    assert made.alias.phase is HeadPhase.FAILED


@pytest.mark.parametrize("name", ["map", "set_access", "unmap"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("occurrence", [1, 2, 3])
def test_a_refused_entry_is_undone(name: str, after: bool, occurrence: int) -> None:
    """The phase stays DECODE, the prompt is read in the tail, and the next one has the head's memory again."""
    plan = FaultPlan()
    made = alias_engine(plan)
    seen = sum(call.name == name for call in made.driver.log)
    plan.nth(name, seen + occurrence, Fail(Code.OUT_OF_MEMORY, after))
    workspace = made.alias.enter(5000)
    assert made.alias.phase is HeadPhase.DECODE
    assert made.alias.note.startswith("undone: ")
    made.read(workspace)
    made.alias.leave()
    assert_decoding(made)
    made.read(made.alias.enter(5000))
    assert not made.head.present
    made.alias.leave()
    assert_decoding(made)


@pytest.mark.parametrize("name", ["map", "set_access", "unmap", "copy_in", "compare"])
def test_the_way_back_is_tried_twice(name: str) -> None:
    for times, failed in ((1, False), (1 << 20, True)):
        made = alias_engine()
        made.read(made.alias.enter(5000))
        made.driver.plan.next(name, Fail(Code.UNKNOWN), times)
        if failed:
            with pytest.raises(Fatal):
                made.alias.leave()
            assert made.alias.phase is HeadPhase.FAILED
            assert unsound(made.cache, made.driver) == []
            with pytest.raises(Fatal, match="the cache has ended"):
                Lending(made.cache).lend(1)
            for call in (made.alias.leave, lambda made=made: made.alias.enter(5)):
                with pytest.raises(Fatal, match="expected a new process"):
                    call()
        else:
            made.alias.leave()
            assert_decoding(made)


def test_a_wrong_byte_of_the_head_is_loaded_once_more() -> None:
    made = alias_engine()
    made.read(made.alias.enter(5000))
    made.driver.plan.when(lambda call: call.name == "copy_in" and call.args[0] == made.head.address, Corrupt(500, 1))
    made.alias.leave()
    assert_decoding(made)
    made.read(made.alias.enter(5000))
    made.driver.plan.when(
        lambda call: call.name == "copy_in" and call.args[0] == made.head.address, Corrupt(500, 1), times=2
    )
    with pytest.raises(Fatal, match=r"head: byte 500 is .*; the second try failed too"):
        made.alias.leave()


def test_one_owner_of_the_tail() -> None:
    made = alias_engine()
    lending = Lending(made.cache)
    made.alias.enter(5000)
    with pytest.raises(Refused, match="the loan 'head alias' is still out"):
        lending.lend(1)
    made.alias.leave()
    made.cache.take(lending.book, len(made.cache.slots) - 1)
    made.alias.enter(5000)
    assert made.alias.note == "the loan 'LEND' is out"
    made.alias.leave()
    assert made.alias.phase is HeadPhase.DECODE


def test_phases_in_the_wrong_order() -> None:
    made = alias_engine()
    with pytest.raises(Refused, match="a prompt of 0 tokens"):
        made.alias.enter(0)
    made.alias.enter(5000)
    with pytest.raises(Refused, match="phase PROMPT: expected DECODE"):
        made.alias.enter(5000)
    made.alias.leave()
    made.alias.leave()  # nothing is out
    assert_decoding(made)


def test_a_tail_too_small_for_any_prompt() -> None:
    """Six slots are too few for 256 tokens, one whole piece of them with the head is enough."""
    made = alias_engine(keep=28)
    with pytest.raises(Refused, match="91896 bytes can be lent, too few for 256 tokens"):
        made.alias.enter(10)
    assert unsound(made.cache, made.driver) == []
    assert made.alias.enter(5000).nbytes == made.head.arena.reserved + made.cache.arena.sizes[-1]
    made.alias.leave()
    assert_decoding(made)


def test_a_head_must_fit_its_memory() -> None:
    made = alias_engine()
    made.driver.card.total += 1 << 20
    with pytest.raises(StrataError, match="head of 150001 bytes in 0 mapped of 150001"):
        Head(Arena(made.driver, SIZES["H"], PIECE), content("H"))
    with pytest.raises(StrataError, match="head of 150001 bytes"):
        Head(open_arena(made.driver, SIZES["H"] + 1, PIECE), content("H"))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9000), st.booleans()), max_size=10))
def test_any_trace_of_prompts(trace: list[tuple[int, bool]]) -> None:
    made = alias_engine()
    held = made.held()
    for fresh, writes in trace:
        workspace = made.alias.enter(fresh)
        assert unsound(made.cache, made.driver) == []
        if writes:
            made.read(workspace)
        made.alias.leave()
        assert made.held() == held
        assert_decoding(made)


@pytest.mark.parametrize("verify_all", [False, True])
@pytest.mark.parametrize("fresh", [1000, 5000])
def test_what_comes_back_is_compared(verify_all: bool, fresh: int) -> None:
    """A wrong byte in any slot is fatal when all are compared; else in those of the sample, as is said. Both plans."""
    counted = alias_engine(verify_all=verify_all)
    counted.alias.enter(fresh)
    pairs = list(counted.alias.book if fresh == 5000 else counted.alias.tail.book)
    sample = counted.cache.sample(pairs)
    counted.alias.leave()
    compared = pairs if verify_all else sample
    assert len(pairs) > len(sample)
    assert counted.alias.verified[:2] == (len(compared), len(pairs))
    for pair in pairs:
        made = alias_engine(verify_all=verify_all)
        made.read(made.alias.enter(fresh))
        address = made.cache.base + int(made.cache.slots.off[pair[1]])
        made.driver.plan.when(
            lambda call, address=address: call.name == "copy_in" and call.args[0] == address,  # type: ignore[misc]
            Corrupt(1000, 0xFF),
        )
        if pair in compared:
            with pytest.raises(Fatal, match=f"in slot {pair[1]}: byte 1000"):
                made.alias.leave()
            assert made.alias.phase is HeadPhase.FAILED
        else:
            made.alias.leave()
            assert made.alias.verified.slots < made.alias.verified.of


@pytest.mark.parametrize("fresh", [0, 1000, 5000])
def test_closed_in_any_phase(fresh: int) -> None:
    """Also in the middle of a prompt nothing is left on the card."""
    made = alias_engine()
    if fresh:
        made.read(made.alias.enter(fresh))
    for part in (made.alias, made.head.arena, made.cache, made.alias):
        part.close()
    assert_nothing_left(made.driver)
    assert made.driver.misuse == []
    for call in (made.alias.leave, lambda: made.alias.enter(5)):
        with pytest.raises(StrataError, match="phase CLOSED: expected DECODE"):
            call()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_whatever_breaks_off_a_change_of_phase_is_the_end(error: type[BaseException]) -> None:
    """Before and after each driver call: FAILED, remembered by the cache; and closing gives everything back."""
    counted = alias_engine()
    before = len(counted.driver.log)
    counted.alias.enter(5000)
    counted.alias.leave()
    for call, after in product(counted.driver.log[before:], (False, True)):
        made = alias_engine()
        made.driver.plan.at(call.number, Interrupt(error("in the middle"), after))
        with pytest.raises(error):
            _there_and_back(made)
        assert made.alias.phase is HeadPhase.FAILED, call
        for request in (made.alias.leave, made.cache.begin_window, Lending(made.cache).reclaim):
            with pytest.raises(Fatal):
                request()
        for part in (made.alias, made.head.arena, made.cache):
            part.close()
        assert_nothing_left(made.driver)


def _there_and_back(made: AliasEngine) -> None:
    made.alias.enter(5000)
    made.alias.leave()


def test_every_call_of_a_change_of_phase_may_fail() -> None:
    """Each driver call of enter and leave, before and after its effect: decoding goes on, or it ended as Fatal; the law
    holds and no memory is lost either way."""
    counted = alias_engine()
    before = len(counted.driver.log)
    counted.alias.enter(5000)
    counted.alias.leave()
    calls = counted.driver.log[before:]
    outcomes = {"lent": 0, "undone": 0, "fatal": 0}
    for call in calls:
        for after in (False, True):
            plan = FaultPlan()
            made = alias_engine(plan)
            held = made.held()
            plan.at(call.number, Fail(Code.UNKNOWN, after))
            try:
                made.alias.enter(5000)
                note = made.alias.note
                made.alias.leave()
            except Fatal:
                outcomes["fatal"] += 1
                assert made.alias.phase is HeadPhase.FAILED
                assert unsound(made.cache, made.driver) == []
                assert made.held() == held
                continue
            outcomes["undone" if note else "lent"] += 1
            assert_decoding(made)
            made.read(made.alias.enter(5000))
            assert made.alias.phase is HeadPhase.PROMPT
            made.alias.leave()
            assert_decoding(made)
    print(len(calls), outcomes)
    assert sum(outcomes.values()) == 2 * len(calls)
    assert min(outcomes.values()) > 0


@pytest.mark.parametrize("fresh", [10, 5000])
def test_a_path_that_owns_its_buffers_is_refused_with_nothing_changed(fresh: int) -> None:
    made = alias_engine()
    made.alias.path.borrows = False
    with pytest.raises(Refused, match="owns its buffers"):
        made.alias.enter(fresh)
    assert not made.alias.tail.out
    assert_decoding(made)
