"""Which slots are read back, and what a difference says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.memory.arena.arena import open_arena
from strata.memory.cache.verification import WrongBytes, sample, verify
from strata.memory.driver.driver import Compared
from strata.memory.driver.errors import Fatal
from strata.memory.driver.fault_plan import Fail
from tests.strata.memory.cache.caches import GEOMETRY, PAGE, PIECE, PROFILE, SOURCE, fake, slots

SLOTS = slots("sized")
PAIRS = [(PROFILE[slot], slot) for slot in range(len(SLOTS))]


@given(st.sets(st.integers(0, len(SLOTS) - 1)), st.lists(st.integers(1, SLOTS.nbytes - 1), max_size=6))
def test_the_sample_has_both_ends_and_both_sides_of_every_boundary(chosen: set[int], boundaries: list[int]) -> None:
    pairs = [pair for pair in PAIRS if pair[1] in chosen]
    expected = {min(chosen), max(chosen)} if chosen else set()
    for slot in chosen:
        start, end = int(SLOTS.off[slot]), int(SLOTS.off[slot + 1])
        if any(start < boundary <= end or start <= boundary < end for boundary in boundaries):
            expected.add(slot)
    assert sample(SLOTS, pairs, boundaries) == [pair for pair in pairs if pair[1] in expected]


def test_a_boundary_between_two_slots_takes_both() -> None:
    uniform = slots("uniform")
    pairs = [(slot, slot) for slot in range(40)]
    inside = int(uniform.off[20])
    assert [slot for _, slot in sample(uniform, pairs, [inside])] == [0, 19, 20, 39]
    assert [slot for _, slot in sample(uniform, pairs, [inside + 1])] == [0, 20, 39]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, len(SLOTS) - 1), st.data())
def test_one_flipped_bit_anywhere_is_named(slot: int, data: st.DataObject) -> None:
    driver = fake()
    arena = open_arena(driver, SLOTS.nbytes, PIECE)
    pairs = [pair for pair in PAIRS if abs(pair[1] - slot) < 3]
    for row, there in pairs:
        driver.copy_in(arena.base + int(SLOTS.off[there]), SOURCE.blob(row))
    blob = SOURCE.blob(PROFILE[slot])
    assert verify(arena, SLOTS, SOURCE, pairs, 99) == (len(pairs), 99, sum(SOURCE.blob(row).size for row, _ in pairs))
    offset = data.draw(st.sampled_from([0, blob.size - 1]) | st.integers(0, blob.size - 1))
    wrong = int(blob[offset]) ^ 1 << data.draw(st.integers(0, 7))
    driver.fill(arena.base + int(SLOTS.off[slot]) + offset, wrong, 1)
    with pytest.raises(WrongBytes) as caught:
        verify(arena, SLOTS, SOURCE, pairs, 99)
    found = caught.value
    assert (found.expert, found.slot, found.offset) == (GEOMETRY.expert(PROFILE[slot]), slot, offset)
    assert (found.expected, found.got) == (int(blob[offset]), wrong)
    assert (
        str(found)
        == f"expert {found.expert} in slot {slot}: byte {offset} is {wrong:#04x}, expected {blob[offset]:#04x}"
    )


def test_two_experts_in_each_others_slots_are_found() -> None:
    driver = fake()
    arena = open_arena(driver, SLOTS.nbytes, PIECE)
    layer = [pair for pair in PAIRS if GEOMETRY.expert(pair[0])[0] == 1][:2]
    (first, a), (second, b) = layer
    driver.copy_in(arena.base + int(SLOTS.off[a]), SOURCE.blob(second))
    driver.copy_in(arena.base + int(SLOTS.off[b]), SOURCE.blob(first))
    with pytest.raises(WrongBytes, match=f"in slot {a}: byte 0 "):
        verify(arena, SLOTS, SOURCE, layer, 2)


def test_copies_that_have_not_landed_are_not_taken_for_right() -> None:
    """The comparison waits for no stream: whoever verifies waits first."""
    driver = fake()
    arena = open_arena(driver, SLOTS.nbytes, PIECE)
    stream = driver.stream()
    driver.copy_in(arena.base, SOURCE.blob(PROFILE[0]), stream)
    with pytest.raises(WrongBytes, match="is 0xa5"):
        verify(arena, SLOTS, SOURCE, PAIRS[:1], 1)
    driver.wait_stream(stream)
    assert verify(arena, SLOTS, SOURCE, PAIRS[:1], 1).slots == 1


def test_a_comparison_that_saw_fewer_bytes_than_there_are_is_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = fake()
    arena = open_arena(driver, PAGE * 20, PAGE)
    monkeypatch.setattr(driver, "compare_all", lambda ranges: Compared(sum(host.size for _, host in ranges) - 1))
    with pytest.raises(Fatal, match=r"reading slots back: \d+ bytes were compared, expected \d+"):
        verify(arena, SLOTS, SOURCE, PAIRS[:1], 1)


def test_a_refused_comparison_is_fatal_and_no_slots_are_no_call() -> None:
    driver = fake()
    arena = open_arena(driver, PAGE * 20, PAGE)
    driver.plan.next("compare_all", Fail())
    with pytest.raises(Fatal, match="reading slots back"):
        verify(arena, SLOTS, SOURCE, PAIRS[:1], 1)
    driver.log.clear()
    assert verify(arena, SLOTS, SOURCE, [], 3) == (0, 3, 0)
    assert driver.log == []
