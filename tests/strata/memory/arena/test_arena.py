"""The arena against a model, and what each failing call leaves behind."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.memory.arena.arena import Arena, open_arena
from strata.memory.arena.pieces import MiB
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.slots import uniform_slots
from strata.memory.driver.driver import Code, DriverError
from strata.memory.driver.errors import Fatal
from strata.memory.driver.fake import FakeCard, FakeDriver
from strata.memory.driver.fault_plan import Fail, Interrupt, Meanwhile
from strata.memory.driver.views import StaleView
from tests.strata.memory.cache.caches import PAGE, assert_nothing_left, fake, names

#: Codes of calls that fail without losing the context.
CODES = (Code.INVALID_VALUE, Code.OUT_OF_MEMORY, Code.NOT_PERMITTED, Code.UNKNOWN)


def written(arena: Arena) -> None:
    """Every mapped piece holds its own number."""
    for k in range(arena.pieces):
        arena.driver.fill(arena.base + arena.starts[k], k + 1, arena.sizes[k])


def holds(arena: Arena, pieces: int) -> bool:
    """Whether the first pieces still hold theirs."""
    out = [arena.driver.copy_out(arena.base + arena.starts[k], arena.sizes[k]) for k in range(pieces)]
    return all(set(array.tolist()) == {k + 1} for k, array in enumerate(out))


def test_96_slots_of_1_mib_in_pieces_of_8_mib() -> None:
    """Shrink to 30 MiB: 32 slots stay and 64 MiB come back; grow to 70 MiB: 64 slots; then to everything: 96."""
    driver = FakeDriver(FakeCard(1 << 30))
    slots = uniform_slots(ExpertGeometry.uniform(1, 96, MiB), 96)
    arena = open_arena(driver, slots.nbytes, 8 * MiB)
    before = driver.mem_info()[0]
    arena.driver.fill(arena.base, 7, 30 * MiB)
    base = arena.base
    assert arena.shrink(30 * MiB) == (64 * MiB, 64 * MiB)
    assert (slots.within(arena.mapped_bytes), arena.mapped_bytes) == (32, 32 * MiB)
    assert driver.mem_info()[0] - before == 64 * MiB
    assert arena.grow(70 * MiB) == (64 * MiB, None)
    assert slots.within(arena.mapped_bytes) == 64
    assert arena.grow(1 << 40) == (96 * MiB, None)
    assert slots.within(arena.mapped_bytes) == 96
    assert arena.base == base
    assert set(driver.copy_out(base, 30 * MiB).tolist()) == {7}
    arena.close()
    assert_nothing_left(driver)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12 * PAGE),
    st.integers(1, 4),
    st.lists(st.tuples(st.booleans(), st.integers(-PAGE, 14 * PAGE)), max_size=12),
)
def test_the_arena_against_a_model(total: int, pages: int, steps: list[tuple[bool, int]]) -> None:
    """The model is the number of mapped pieces: shrink rounds up to whole pieces, grow rounds down."""
    driver = fake()
    arena = open_arena(driver, total, pages * PAGE)
    sizes, base = arena.sizes, arena.base
    mapped = len(sizes)
    for grows, nbytes in steps:
        if grows:
            want = sum(sizes) if nbytes >= total else nbytes
            fitting = [n for n in range(len(sizes) + 1) if sum(sizes[:n]) <= want]
            mapped = max(mapped, *fitting) if fitting else mapped
            assert arena.grow(nbytes) == (sum(sizes[:mapped]), None)
        else:
            kept = min((n for n in range(len(sizes) + 1) if sum(sizes[:n]) >= nbytes), default=len(sizes))
            given_back = sum(sizes[kept:mapped])
            assert arena.shrink(nbytes) == (given_back, given_back)
            mapped = min(mapped, kept)
        assert (arena.pieces, arena.base, arena.mapped_bytes) == (mapped, base, sum(sizes[:mapped]))
        assert driver.mapped == {base + sum(sizes[:k]): sizes[k] for k in range(mapped)}
        assert sum(driver.live_handles().values()) == sum(sizes[:mapped])
    assert driver.misuse == []
    arena.close()
    assert_nothing_left(driver)
    assert driver.misuse == []


def test_shrink_waits_once_and_then_gives_from_the_last_piece_down() -> None:
    driver = fake()
    arena = open_arena(driver, 5 * PAGE, PAGE)
    driver.log.clear()
    arena.shrink(2 * PAGE)
    assert [call.name for call in driver.log] == ["synchronize", *("unmap", "release") * 3]
    assert [call.args[0] - arena.base for call in driver.log if call.name == "unmap"] == [4 * PAGE, 3 * PAGE, 2 * PAGE]
    driver.log.clear()
    assert arena.shrink(2 * PAGE) == (0, 0)
    assert driver.log == []  # nothing to give: nothing to wait for


def test_grow_stops_at_the_first_refusal_and_keeps_what_it_mapped() -> None:
    driver = fake(total=8 * PAGE)
    arena = open_arena(driver, 6 * PAGE, PAGE)
    written(arena)
    arena.shrink(PAGE)
    driver.card.take("borrower", 5 * PAGE)
    grown = arena.grow(6 * PAGE)
    assert grown.mapped == 3 * PAGE
    assert grown.refusal is not None
    assert grown.refusal.code == Code.OUT_OF_MEMORY
    assert holds(arena, 1)
    driver.card.leave("borrower")
    assert arena.grow(6 * PAGE) == (6 * PAGE, None)


def test_a_view_ends_with_its_mapping() -> None:
    driver = fake()
    arena = open_arena(driver, 4 * PAGE, PAGE)
    low, high = arena.view(0, 2 * PAGE), arena.view(2 * PAGE - 8, PAGE)
    arena.shrink(2 * PAGE)
    assert low.address == arena.base
    for _ in range(2):
        with pytest.raises(StaleView):
            high.array()
        arena.grow(4 * PAGE)  # other memory at the same address is other memory
    with pytest.raises(StrataError, match=f"offset {4 * PAGE}, expected 0 to {4 * PAGE - 1}"):
        arena.view(4 * PAGE, 1)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_a_refused_unmap_leaves_the_piece_mapped(code: Code, after: bool) -> None:
    driver = fake()
    arena = open_arena(driver, 5 * PAGE, PAGE)
    written(arena)
    driver.plan.nth("unmap", 2, Fail(code, after))
    with pytest.raises(DriverError, match=f"unmap: {code.name}"):
        arena.shrink(PAGE)
    assert arena.pieces == 4  # the first unmap went, the second is the one that failed
    assert len(driver.mapped) == len(driver.live_handles()) == 4
    assert holds(arena, 4)  # the same memory, with access
    arena.shrink(PAGE)
    arena.close()
    assert_nothing_left(driver)


def test_a_piece_that_cannot_be_settled_is_fatal() -> None:
    driver = fake()
    arena = open_arena(driver, 3 * PAGE, PAGE)
    driver.plan.next("unmap", Fail(after=True))
    driver.plan.next("map", Fail())
    with pytest.raises(Fatal, match="whether it is mapped is unknown"):
        arena.shrink(PAGE)
    arena.close()
    assert_nothing_left(driver)


@pytest.mark.parametrize("after", [False, True])
def test_a_failed_release_makes_a_zombie(after: bool) -> None:
    """The unmap succeeded, so the piece is gone, and the addresses can be mapped again at once."""
    driver = fake()
    arena = open_arena(driver, 4 * PAGE, PAGE)
    driver.plan.next("release", Fail(after=after))
    assert arena.shrink(PAGE) == (3 * PAGE, 2 * PAGE)
    assert arena.pieces == 1
    assert [size for _, size in arena.unreleased_handles] == [PAGE]
    assert driver.card.used == (1 if after else 2) * PAGE
    assert arena.grow(4 * PAGE) == (4 * PAGE, None)
    # A release that had its effect freed the number too: it is a new piece's now, and an unreleased handle of nobody's.
    assert arena.retry_unreleased() == (0 if after else PAGE)
    assert arena.unreleased_handles == []
    assert set(driver.live_handles()) == set(arena.handles)
    arena.close()


def test_a_release_that_had_its_effect_is_known_by_the_answer() -> None:
    driver = fake()
    arena = open_arena(driver, 4 * PAGE, PAGE)
    driver.plan.next("release", Fail(after=True))
    arena.shrink(PAGE)
    assert arena.retry_unreleased() == PAGE
    assert arena.unreleased_handles == []
    assert driver.misuse == []


def test_the_number_of_a_zombie_may_be_another_arenas_by_now() -> None:
    """A release that reported a failure freed the number; whoever was given it keeps its memory."""
    driver = fake()
    one = open_arena(driver, 4 * PAGE, PAGE)
    driver.plan.next("release", Fail(after=True), times=3)
    one.shrink(PAGE)
    unreleased = {handle for handle, _ in one.unreleased_handles}
    other = open_arena(driver, 2 * PAGE, PAGE)
    assert set(other.handles) < unreleased
    assert {handle for handle, _ in one.unreleased_handles} == unreleased - set(other.handles)
    assert one.retry_unreleased() == PAGE
    assert set(driver.live_handles()) == {*one.handles, *other.handles}
    other.shrink(PAGE)
    other.grow(2 * PAGE)
    one.close()
    other.close()
    assert driver.misuse == []
    assert (driver.live_handles(), driver.reservations) == ({}, {})


@pytest.mark.parametrize("after", [False, True])
def test_closing_goes_on_where_it_was_interrupted(after: bool) -> None:
    for number in range(1, 10):
        driver = fake()
        arena = open_arena(driver, 4 * PAGE, PAGE)
        driver.plan.next("release", Fail())
        arena.shrink(3 * PAGE)
        driver.plan.at(len(driver.log) + number, Interrupt(KeyboardInterrupt(), after))
        with pytest.raises(KeyboardInterrupt):
            arena.close()
        arena.close()
        assert (driver.live_handles(), driver.mapped, driver.reservations) == ({}, {}, {}), number


@pytest.mark.parametrize("after", [False, True])
def test_an_opening_that_is_interrupted_leaves_nothing(after: bool) -> None:
    for number in range(3, 12):
        driver = fake()
        driver.plan.at(number, Interrupt(MemoryError(), after))
        with pytest.raises(MemoryError):
            open_arena(driver, 3 * PAGE, PAGE)
        assert (driver.live_handles(), driver.mapped, driver.reservations) == ({}, {}, {}), number
        assert driver.misuse == []
    assert_nothing_left(driver)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("call", ["create", "map", "set_access"])
def test_a_refused_piece_is_rolled_back(call: str, code: Code, after: bool) -> None:
    driver = fake()
    arena = open_arena(driver, 5 * PAGE, PAGE)
    arena.shrink(PAGE)
    driver.plan.nth(call, 5 + 2, Fail(code, after))
    grown = arena.grow(5 * PAGE)
    assert grown.mapped == 2 * PAGE
    assert grown.refusal is not None
    assert (grown.refusal.call, grown.refusal.code) == (call, code)
    assert len(driver.mapped) == len(driver.live_handles()) == 2
    assert arena.grow(5 * PAGE) == (5 * PAGE, None)
    arena.close()
    assert_nothing_left(driver)


def test_a_rollback_whose_unmap_fails_is_fatal() -> None:
    driver = fake()
    arena = open_arena(driver, 3 * PAGE, PAGE)
    arena.shrink(PAGE)
    driver.plan.next("set_access", Fail())
    driver.plan.next("unmap", Fail())
    with pytest.raises(Fatal, match="after a refused set_access; whether it is mapped is unknown"):
        arena.grow(3 * PAGE)
    arena.close()
    assert_nothing_left(driver)


def test_a_map_that_failed_and_cannot_be_undone_is_fatal() -> None:
    """Only INVALID_VALUE says that nothing is mapped there; any other answer leaves it unknown."""
    driver = fake()
    arena = open_arena(driver, 3 * PAGE, PAGE)
    arena.shrink(PAGE)
    driver.plan.next("map", Fail(after=True))
    driver.plan.next("unmap", Fail())
    with pytest.raises(Fatal, match=r"unmap: UNKNOWN.*, after a refused map; whether it is mapped is unknown"):
        arena.grow(3 * PAGE)
    assert set(driver.live_handles()) == arena.held
    arena.close()
    assert_nothing_left(driver)


def test_a_failed_synchronize_is_fatal_and_nothing_is_unmapped() -> None:
    driver = fake()
    arena = open_arena(driver, 3 * PAGE, PAGE)
    driver.plan.next("synchronize", Fail())
    with pytest.raises(Fatal, match="synchronize before the unmap of pieces"):
        arena.shrink(PAGE)
    assert len(driver.mapped) == 3


@pytest.mark.parametrize("call", ["create", "map", "set_access", "unmap", "release"])
def test_a_lost_context_is_fatal_and_nothing_is_called_after_it(call: str) -> None:
    driver = fake()
    arena = open_arena(driver, 3 * PAGE, PAGE)
    arena.shrink(2 * PAGE)
    driver.plan.next(call, Fail(Code.ILLEGAL_ADDRESS))
    change = arena.shrink if call in ("unmap", "release") else arena.grow
    with pytest.raises(Fatal, match="the context is lost") as caught:
        change(PAGE if change == arena.shrink else 3 * PAGE)
    assert caught.value.lost
    assert driver.log[-1].name == call


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", ["create", "map", "set_access"])
@pytest.mark.parametrize("occurrence", [1, 3])
def test_an_opening_that_fails_leaves_nothing(call: str, occurrence: int, after: bool) -> None:
    driver = fake()
    driver.plan.nth(call, occurrence, Fail(Code.OUT_OF_MEMORY, after))
    with pytest.raises(DriverError, match=f"{call}: OUT_OF_MEMORY"):
        open_arena(driver, 4 * PAGE, PAGE)
    assert_nothing_left(driver)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", ["synchronize", "unmap", "release", "address_free"])
def test_closing_tries_a_failed_call_once_more(call: str, after: bool) -> None:
    driver = fake()
    arena = open_arena(driver, 3 * PAGE, PAGE)
    driver.plan.next(call, Fail(after=after))
    arena.close()
    assert_nothing_left(driver)
    count = len(driver.log)
    arena.close()
    assert len(driver.log) == count


def test_closing_says_what_it_could_not_give_back() -> None:
    driver = fake()
    arena = open_arena(driver, 3 * PAGE, PAGE)
    driver.plan.next("release", Fail(), times=2)
    with pytest.raises(StrataError, match="arena: closed, but release: UNKNOWN"):
        arena.close()
    assert len(driver.live_handles()) == 1


def test_lifted_pieces_keep_their_memory_and_go_elsewhere() -> None:
    driver = fake()
    arena = open_arena(driver, 4 * PAGE, PAGE)
    written(arena)
    held = driver.card.used
    lifted = arena.lift(2 * PAGE)
    assert (arena.pieces, len(lifted), driver.card.used) == (2, 2, held)
    elsewhere = driver.reserve(2 * PAGE)
    driver.map(elsewhere, PAGE, lifted[1])
    driver.set_access(elsewhere, PAGE)
    assert set(driver.copy_out(elsewhere, PAGE).tolist()) == {4}
    driver.unmap(elsewhere, PAGE)
    driver.plan.when(lambda call: call.name == "map" and call.args[0] == arena.base + 3 * PAGE, Fail())
    with pytest.raises(DriverError):
        arena.put_back(lifted)
    assert (arena.pieces, driver.card.used) == (2, held)
    arena.put_back(lifted)
    assert holds(arena, 4)


def test_a_lift_that_is_refused_puts_everything_back() -> None:
    driver = fake()
    arena = open_arena(driver, 4 * PAGE, PAGE)
    written(arena)
    driver.plan.nth("unmap", 3, Fail())
    with pytest.raises(DriverError, match="unmap"):
        arena.lift(0)
    assert holds(arena, 4)


def test_an_arena_in_one_piece_refuses_to_change() -> None:
    driver = fake()
    arena = open_arena(driver, 3 * PAGE, PAGE, elastic=False)
    assert not arena.segmented()
    for change in (arena.shrink, arena.grow, arena.lift):
        with pytest.raises(StrataError, match="it is not made of pieces"):
            change(PAGE)
    arena.close()
    with pytest.raises(StrataError, match="it is closed"):
        arena.shrink(0)
    with pytest.raises(StrataError, match="no virtual memory calls"):
        open_arena(FakeDriver(FakeCard(1 << 20), PAGE, vmm=False), PAGE, PAGE)


def test_memory_that_goes_between_two_calls_stops_a_growth_there() -> None:
    driver = fake(total=6 * PAGE)
    arena = open_arena(driver, 5 * PAGE, PAGE)
    arena.shrink(PAGE)
    driver.plan.nth("create", 5 + 3, Meanwhile(lambda: driver.card.take("other", 2 * PAGE) and None))
    assert arena.grow(5 * PAGE).mapped == 4 * PAGE
    assert Counter(names(driver.log))["synchronize"] == 1


def test_pieces_are_unmapped_only_when_nothing_queued_can_still_read_them() -> None:
    """The arena asks for itself, whoever calls it: a cache rests before, and others may not."""
    driver = fake()
    arena = open_arena(driver, 8 * PAGE, 2 * PAGE)
    written(arena)
    driver.log.clear()
    arena.shrink(4 * PAGE)
    called = [call.name for call in driver.log]
    assert called.count("unmap") == 2
    assert "synchronize" in called[: called.index("unmap")]
    arena.close()
    assert_nothing_left(driver)
