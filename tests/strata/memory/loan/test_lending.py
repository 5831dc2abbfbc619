"""LEND and RECLAIM against the driver: the order of calls, what each fault leads to, and what verification sees."""

from __future__ import annotations

import numpy as np
import pytest

from strata.memory.arena.pieces import MiB
from strata.memory.cache.adaptive import AdaptiveTier, Pace
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.residency import MISS
from strata.memory.cache.verification import WrongBytes
from strata.memory.driver.driver import STICKY, Code
from strata.memory.driver.errors import Fatal, Refused
from strata.memory.driver.fake import FakeDriver
from strata.memory.driver.fault_plan import Call, Corrupt, Elsewhere, Fail, Meanwhile
from strata.memory.loan.lending import Lending
from tests.strata.memory.cache.caches import (
    GEOMETRY,
    SOURCE,
    assert_nothing_left,
    assert_sound,
    fake,
    names,
    small_cache,
    watch,
)


def lending(kind: str = "sized", verify_all: bool = False) -> tuple[Lending, FakeDriver]:
    cache, driver = small_cache(kind)
    return Lending(cache, verify_all=verify_all, clock=lambda: 0.0), driver


def is_slot(cache: ExpertCache, call: Call) -> bool:
    """Whether a call copies into a slot, rather than into the table."""
    return call.name == "copy_in" and call.args[0] != cache.residency.address


def test_lend_demotes_and_uploads_then_waits_then_unmaps_from_the_last_piece_down(kind: str) -> None:
    one, driver = lending(kind)
    lies = watch(driver, one.cache)
    driver.log.clear()
    one.lend(1)
    assert names(driver.log)[:3] == ["synchronize", "copy_in", "synchronize"]
    assert driver.log[1].args[:2] == (one.cache.residency.address, 4 * GEOMETRY.rows)
    rest = [call.name for call in driver.log[3:]]
    assert rest == ["unmap", "release"] * (len(rest) // 2)
    unmapped = [call.args[0] for call in driver.log if call.name == "unmap"]
    assert unmapped == sorted(unmapped, reverse=True)
    assert lies == []


@pytest.mark.parametrize("verify_all", [False, True])
def test_reclaim_maps_fills_waits_verifies_then_promotes_and_uploads(kind: str, verify_all: bool) -> None:
    one, driver = lending(kind, verify_all)
    lies = watch(driver, one.cache)
    one.lend(2)
    lent = list(one.book)
    driver.log.clear()
    one.reclaim()
    order = names([call for call in driver.log if call.name not in ("create", "map", "set_access")])
    assert order == ["mem_info", "synchronize", "copy_in", "wait_stream", "compare_all", "copy_in"]
    copies = [call for call in driver.log if call.name == "copy_in"]
    assert [is_slot(one.cache, call) for call in copies] == [True] * len(lent) + [False]
    first_copy = driver.log.index(copies[0])
    assert {call.name for call in driver.log[1 : first_copy - 1]} == {"create", "map", "set_access"}
    compare = next(call for call in driver.log if call.name == "compare_all")
    assert one.verified.of == len(lent)
    assert one.verified[::2] == compare.args
    if verify_all:
        assert one.verified == (len(lent), len(lent), sum(SOURCE.blob(row).size for row, _ in lent))
    else:
        assert 2 < one.verified.slots < len(lent)
    assert lies == []


def test_the_sample_has_the_slots_at_every_boundary_of_the_loan_and_not_of_what_stayed() -> None:
    one, driver = lending()
    one.lend(2)
    lent = list(one.book)
    boundaries = one.cache.boundaries(one.loan.tail.first if one.loan else 0)
    slots = one.cache.slots
    expected = {lent[0][1], lent[-1][1]} | {slots.at(b) for b in boundaries} | {slots.at(b - 1) for b in boundaries}
    compared: list[int] = []
    read = driver.compare_all

    def spy(ranges):  # type: ignore[no-untyped-def]
        compared.extend(slots.at(va - one.cache.base) or 0 for va, _ in ranges)
        return read(ranges)

    driver.compare_all = spy  # type: ignore[method-assign]
    one.reclaim()
    assert set(compared) == {slot for slot in expected if slot is not None and slot >= lent[0][1]}
    assert len(boundaries) == 9


def test_every_expert_reads_the_same_before_during_and_after(kind: str) -> None:
    one, _ = lending(kind)

    def answers() -> list[bytes]:
        return [one.cache.read(*GEOMETRY.expert(row)).tobytes() for row in range(GEOMETRY.rows)]

    before, table = answers(), one.cache.residency.host.copy()
    one.lend(2)
    assert answers() == before
    one.reclaim()
    assert answers() == before
    assert np.array_equal(one.cache.residency.host, table)


def test_a_slot_that_straddles_the_boundary_of_the_loan_is_lent_and_right_afterwards() -> None:
    one, driver = lending(verify_all=True)
    one.lend(1)
    assert one.loan is not None
    slots, boundary = one.cache.slots, one.loan.tail.boundary
    assert slots.off[one.loan.first] < boundary < slots.off[one.loan.first + 1]
    row = next(row for row, slot in one.book if slot == one.loan.first)
    assert one.cache.residency.slot(row) == MISS
    one.reclaim()
    assert one.cache.residency.slot(row) == slots.at(boundary)
    assert_sound(one.cache, driver)


@pytest.mark.parametrize("verify_all", [False, True])
def test_a_refill_that_drops_the_offset_inside_a_slot_is_found(verify_all: bool) -> None:
    """Control: the second piece of a straddling slot is filled from the expert's beginning again."""
    one, driver = lending(verify_all=verify_all)
    one.lend(1)
    assert one.loan is not None
    slot, cut = one.loan.first, one.loan.tail.boundary - int(one.cache.slots.off[one.loan.first])
    row = next(row for row, there in one.book if there == slot)
    copy = driver.copy_in

    def wrong(va: int, host: np.ndarray, stream: int | None = None) -> None:
        if va == one.cache.base + int(one.cache.slots.off[slot]):
            host = np.concatenate([host[:cut], host[: host.size - cut]])
        copy(va, host, stream)

    driver.copy_in = wrong  # type: ignore[method-assign]
    with pytest.raises(WrongBytes) as caught:
        one.reclaim()
    assert (caught.value.expert, caught.value.slot, caught.value.offset) == (GEOMETRY.expert(row), slot, cut)
    assert one.cache.residency.slot(row) == MISS
    assert_sound(one.cache, driver)


def test_two_experts_filled_into_each_others_slots_are_found_by_verifying_all() -> None:
    one, driver = lending("uniform", verify_all=True)
    one.lend(1)
    (_, a), (_, b) = list(one.book)[4:6]
    base, off, copy = one.cache.base, one.cache.slots.off, driver.copy_in
    swapped = {base + int(off[a]): base + int(off[b]), base + int(off[b]): base + int(off[a])}
    driver.copy_in = lambda va, host, stream=None: copy(swapped.get(va, va), host, stream)  # type: ignore[method-assign]
    with pytest.raises(WrongBytes, match=f"in slot {a}: byte 0 "):
        one.reclaim()
    assert_sound(one.cache, driver)


@pytest.mark.parametrize("which", [0, 7, -1])
@pytest.mark.parametrize("offset", [0, 33_333, -1])
def test_one_flipped_byte_is_named_by_verifying_all(which: int, offset: int) -> None:
    one, driver = lending(verify_all=True)
    one.lend(1)
    row, slot = list(one.book)[which]
    blob = SOURCE.blob(row)
    offset %= blob.size
    there = one.cache.base + int(one.cache.slots.off[slot])
    driver.plan.when(lambda call: call.name == "copy_in" and call.args[0] == there, Corrupt(offset, 0x80))
    with pytest.raises(WrongBytes) as caught:
        one.reclaim()
    found = caught.value
    assert (found.expert, found.slot, found.offset) == (GEOMETRY.expert(row), slot, offset)
    assert (found.expected, found.got) == (int(blob[offset]), int(blob[offset]) ^ 0x80)
    assert all(one.cache.residency.slot(row) == MISS for row, _ in one.book)
    assert_sound(one.cache, driver)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("occurrence", [1, 2, 5])
def test_a_refused_unmap_undoes_the_loan(occurrence: int, after: bool) -> None:
    one, driver = lending()
    table = one.cache.residency.host.copy()
    driver.plan.nth("unmap", occurrence, Fail(Code.UNKNOWN, after))
    with pytest.raises(Refused, match=r"LEND: unmap: UNKNOWN \(999\); undone"):
        one.lend(1)
    assert one.loan is None
    assert one.cache.fatal is None
    assert np.array_equal(one.cache.residency.host, table)
    assert_sound(one.cache, driver)
    one.lend(1)
    one.reclaim()
    assert_sound(one.cache, driver)
    one.cache.close()
    assert_nothing_left(driver)


def test_an_undo_verifies_every_slot_whatever_the_sample() -> None:
    one, driver = lending()
    driver.plan.nth("unmap", 3, Fail())
    driver.log.clear()
    with pytest.raises(Refused):
        one.lend(1)
    compared = [call.args[0] for call in driver.log if call.name == "compare_all"]
    copied = sum(is_slot(one.cache, call) for call in driver.log)
    assert compared == [copied]


def test_an_undo_that_fails_is_fatal() -> None:
    one, driver = lending()
    driver.plan.nth("unmap", 3, Fail())
    driver.plan.next("create", Fail(Code.OUT_OF_MEMORY))
    with pytest.raises(Fatal, match=r"LEND: unmap.*undoing it failed too: create: OUT_OF_MEMORY"):
        one.lend(1)
    assert all(one.cache.residency.slot(row) == MISS for row, _ in one.book)
    assert_sound(one.cache, driver)


@pytest.mark.parametrize("call", ["copy_in", "synchronize"])
def test_lend_is_fatal_when_the_table_or_the_card_is_unknown(call: str) -> None:
    one, driver = lending()
    driver.plan.next(call, Fail())
    with pytest.raises(Fatal):
        one.lend(1)
    assert "unmap" not in [call.name for call in driver.log]
    assert one.cache.fatal is not None
    assert_sound(one.cache, driver)


@pytest.mark.parametrize("after", [False, True])
def test_lent_says_what_was_really_given_back(after: bool) -> None:
    """A handle whose release failed keeps its memory: a borrower that trusted the figure would begin too early."""
    one, driver = lending("uniform")
    free = driver.mem_info()[0]
    driver.plan.next("release", Fail(after=after), times=4)
    lent = one.lend(2)
    assert len(one.cache.arena.unreleased_handles) == 4
    given = (
        one.cache.arena.reserved
        - one.cache.arena.mapped_bytes
        - sum(size for _, size in one.cache.arena.unreleased_handles)
    )
    assert lent.mib == given // MiB
    if not after:
        assert lent.mib == (driver.mem_info()[0] - free) // MiB
    one.reclaim()
    assert one.cache.arena.unreleased_handles == []
    assert_sound(one.cache, driver)
    one.cache.close()
    assert_nothing_left(driver)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", ["create", "map", "set_access"])
@pytest.mark.parametrize("occurrence", [1, 3])
def test_reclaim_can_be_tried_again_when_a_piece_is_refused(call: str, occurrence: int, after: bool) -> None:
    one, driver = lending()
    one.lend(1)
    loan = one.loan
    before = sum(one_call.name == call for one_call in driver.log)
    driver.plan.nth(call, before + occurrence, Fail(Code.OUT_OF_MEMORY, after))
    with pytest.raises(Refused, match=f"RECLAIM: {call}: OUT_OF_MEMORY.*the loan stays out, try again"):
        one.reclaim()
    assert one.loan == loan
    assert all(one.cache.residency.slot(row) == MISS for row, _ in one.book)
    assert_sound(one.cache, driver)
    mapped = one.cache.arena.pieces
    driver.log.clear()
    one.reclaim()
    # Whatever was refused, a piece is mapped once.
    assert sum(one_call.name == "map" for one_call in driver.log) == one.cache.arena.pieces - mapped
    assert_sound(one.cache, driver)


def test_the_memory_that_is_needed_is_what_is_still_unmapped() -> None:
    """After a reclaim that stopped half-way and could not give its pieces again, less is asked to be free."""
    one, driver = lending()
    one.lend(1)
    driver.plan.nth("create", sum(call.name == "create" for call in driver.log) + 4, Fail(Code.OUT_OF_MEMORY))
    driver.plan.next("unmap", Fail())
    with pytest.raises(Refused):
        one.reclaim()
    need = one.cache.arena.reserved - one.cache.arena.mapped_bytes
    assert need < MiB
    driver.card.take("borrower", driver.card.reported_free - need - 128 * MiB)
    one.reclaim()
    assert_sound(one.cache, driver)


def test_a_rollback_whose_unmap_fails_is_fatal() -> None:
    one, driver = lending()
    one.lend(1)
    driver.plan.next("set_access", Fail())
    driver.plan.next("unmap", Fail())
    with pytest.raises(Fatal, match="whether it is mapped is unknown"):
        one.reclaim()
    assert_sound(one.cache, driver)


@pytest.mark.parametrize("call", ["copy_in", "wait_stream", "compare_all"])
def test_reclaim_is_fatal_when_bytes_are_unknown(call: str) -> None:
    one, driver = lending()
    one.lend(1)
    driver.plan.next(call, Fail())
    with pytest.raises(Fatal):
        one.reclaim()
    assert all(one.cache.residency.slot(row) == MISS for row, _ in one.book)
    assert_sound(one.cache, driver)


def test_a_borrower_that_takes_the_memory_between_the_look_and_the_map_is_seen() -> None:
    one, driver = lending()
    one.lend(1)

    def rush() -> None:
        driver.card.take("borrower", driver.card.reported_free)

    driver.plan.next("create", Meanwhile(rush))
    with pytest.raises(Refused, match="RECLAIM: create: OUT_OF_MEMORY"):
        one.reclaim()
    assert_sound(one.cache, driver)
    driver.card.leave("borrower")
    one.reclaim()
    assert_sound(one.cache, driver)


def test_memory_is_reserved_once_so_another_address_at_opening_is_no_matter() -> None:

    driver = fake()
    driver.plan.next("reserve", Elsewhere())
    cache, _ = small_cache(driver=driver)
    one = Lending(cache)
    base = cache.base
    for _ in range(3):
        one.lend(1)
        one.reclaim()
    assert cache.arena.base == base
    assert sum(call.name == "reserve" for call in driver.log) == 2  # the slots and the table
    assert_sound(cache, driver)


def test_a_swap_on_its_way_lands_before_its_slot_is_lent() -> None:
    one, driver = lending("uniform")
    cache = one.cache
    tier = AdaptiveTier(cache, Pace(every=1))
    incoming = next(row for row in range(GEOMETRY.rows) if cache.residency.slot(row) == MISS)
    victim = next(row for row, _ in reversed(cache.residency.resident()) if row // 30 == incoming // 30)
    tier.count([row for row, _ in cache.residency.resident() if row != victim for _ in range(9)])
    tier.count([incoming] * 5)
    assert tier.end_window() == [(incoming, victim)]
    one.lend(1)
    assert not tier.pending
    assert one.book.owns(incoming)  # its slot was in the tail
    assert not driver.lost  # an unmap below a copy on its way would lose the context
    one.reclaim()
    assert cache.residency.slot(incoming) != MISS
    assert_sound(cache, driver)


def test_a_lent_row_is_never_made_resident_elsewhere() -> None:
    one, driver = lending("uniform")
    tier = AdaptiveTier(one.cache, Pace(every=1))
    one.lend(2)
    lent = [row for row, _ in one.book]
    tier.count([row for row in lent for _ in range(50)])
    for _ in range(3):
        tier.end_window()
        one.cache.begin_window()
    assert all(one.cache.residency.slot(row) == MISS and one.cache.admit(row) == MISS for row in lent)
    one.reclaim()
    assert [one.cache.residency.slot(row) for row in lent] == sorted(one.cache.residency.slot(row) for row in lent)
    assert_sound(one.cache, driver)


@pytest.mark.parametrize("code", sorted(STICKY))
def test_a_lost_context_is_never_a_refusal(code: Code) -> None:
    """Whatever RECLAIM asks first is answered with it, and so is everything else; trying again later is no use."""
    one, driver = lending()
    one.lend(1)
    driver.plan.when(lambda call: True, Fail(code), times=1 << 30)
    with pytest.raises(Fatal) as caught:
        one.reclaim()
    assert caught.value.lost
    assert one.cache.fatal is caught.value


@pytest.mark.parametrize("call", ["create", "map", "set_access"])
@pytest.mark.parametrize("piece", [1, 2, 3])
def test_a_refused_reclaim_keeps_nothing_so_that_the_answer_of_lend_stays_true(call: str, piece: int) -> None:
    """LEND repeats its answer; as many MiB must then be free, also after a RECLAIM that was refused half-way."""
    one, driver = lending()
    before = driver.card.reported_free
    lent = one.lend(1)
    free = driver.card.reported_free
    assert free - before >= lent.mib * MiB
    driver.plan.nth(call, driver.plan._seen[call] + piece, Fail(Code.OUT_OF_MEMORY))
    with pytest.raises(Refused, match="OUT_OF_MEMORY"):
        one.reclaim()
    assert one.lend(1) == lent
    assert driver.card.reported_free == free
    assert driver.misuse == []
    assert one.reclaim().experts == lent.experts
    assert_sound(one.cache, driver)


def test_pieces_that_a_refused_reclaim_cannot_give_again_are_no_part_of_an_answer() -> None:
    one, driver = lending()
    lent = one.lend(1)
    free = driver.card.reported_free
    driver.plan.nth("create", driver.plan._seen["create"] + 3, Fail(Code.OUT_OF_MEMORY))
    driver.plan.next("unmap", Fail(), times=2)
    for command in (one.reclaim, lambda: one.lend(1)):
        with pytest.raises(Refused, match="the loan stays out, with pieces of it mapped"):
            command()
        assert_sound(one.cache, driver)
    assert driver.card.reported_free < free
    driver.plan.next("release", Fail(), times=2)
    kept = one.lend(1)
    assert kept._replace(mib=lent.mib) == lent
    assert kept.mib * MiB <= one.cache.arena.reserved - one.cache.arena.mapped_bytes - sum(
        size for _, size in one.cache.arena.unreleased_handles
    )
    assert one.reclaim() == (kept.mib, lent.experts, 0)
    assert_sound(one.cache, driver)
    one.cache.close()
    assert_nothing_left(driver)
