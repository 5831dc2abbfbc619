"""The loan of the tail to the prompt path: whose rows leave, when they come back, and what is never touched."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.memory.cache.adaptive import AdaptiveTier, Pace
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.pattern import patterned
from strata.memory.cache.residency import MISS
from strata.memory.driver.errors import Fatal, Refused
from strata.memory.driver.fake import FakeDriver
from strata.memory.driver.fake_queues import Work
from strata.memory.driver.fault_plan import Corrupt
from strata.memory.loan.lending import Lending
from strata.memory.loan.prompt_path import PromptPath
from strata.memory.loan.tail_loan import TailLoan
from strata.memory.loan.workspace_layout import bytes_needed
from tests.strata.memory.cache.caches import GEOMETRY, small_cache
from tests.strata.memory.loan.tiny_engine import TinyShape, unsound


def loan(kind: str = "sized") -> tuple[TailLoan, ExpertCache, FakeDriver]:
    cache, driver = small_cache(kind)
    return TailLoan(cache), cache, driver


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_region(kind: str, data: st.DataObject) -> None:
    """The smallest that holds the bytes, ends where the mapped part ends, and begins with a slot; or a refusal."""
    tail, cache, _ = loan(kind)
    off, end = cache.slots.off, cache.arena.mapped_bytes
    keep = data.draw(st.integers(0, len(cache.slots)))
    nbytes = data.draw(st.integers(-1, end + 10) | st.sampled_from([int(end - o) + d for o in off for d in (0, 1)]))
    fitting = [slot for slot in range(keep, len(cache.slots) + 1) if end - off[slot] >= nbytes]
    assert tail.lendable(keep) == end - off[keep]
    if nbytes < 1 or not fitting:
        with pytest.raises(Refused, match=f"prompt loan of {nbytes} bytes"):
            tail.region(nbytes, keep)
        return
    region = tail.region(nbytes, keep)
    assert region.first == max(fitting)
    assert region.address == cache.base + off[region.first]
    assert region.nbytes == end - off[region.first] >= nbytes


def test_lend_and_refill(kind: str) -> None:
    """The answer before is the answer after: every row names the slot it named, with its bytes."""
    tail, cache, driver = loan(kind)
    before = cache.residency.host.copy()
    region = tail.lend(900_000, 5)
    assert tail.out
    assert all(slot < region.first for _, slot in cache.residency.resident())
    assert unsound(cache, driver) == []
    driver.fill(region.address, 0x5A, region.nbytes)
    assert unsound(cache, driver) == []
    driver.log.clear()
    verified = tail.refill()
    names = [call.name for call in driver.log]
    assert names.count("wait_stream") == 1
    assert names.index("compare_all") < max(k for k, name in enumerate(names) if name == "copy_in")
    assert 0 < verified.slots <= verified.of
    assert np.array_equal(cache.residency.host, before)
    assert unsound(cache, driver) == []
    assert (tail.out, tail.refill().of) == (False, 0)


def test_every_slot_is_compared_when_asked() -> None:
    tail, cache, driver = loan()
    tail.lend(900_000, 5)
    slot = list(tail.book)[3][1]
    driver.plan.when(
        lambda call: call.name == "copy_in" and call.args[0] == cache.base + int(cache.slots.off[slot]), Corrupt(17, 2)
    )
    with pytest.raises(Fatal, match=f"in slot {slot}: byte 17 is"):
        tail.refill(verify_all=True)


def test_the_table_says_so_before_the_memory_is_used() -> None:
    tail, cache, driver = loan()
    driver.log.clear()
    tail.lend(500_000, 5)
    assert [call.name for call in driver.log] == ["synchronize", "copy_in"]
    assert driver.log[1].args[0] == cache.residency.address


def wrong_reads(cache: ExpertCache, driver: FakeDriver) -> list[int]:
    """Queue a window that reads what every row names, and return where it will put the rows that it read wrongly."""
    found: list[int] = []
    cache.begin_window()
    rows = cache.residency.resident()
    places = [(cache.base + int(cache.slots.off[slot]), cache.geometry.blob(row)) for row, slot in rows]

    def run() -> None:
        for (row, _), place in zip(rows, places, strict=True):
            if not np.array_equal(driver.peek(*place), cache.source.blob(row)):
                found.append(row)

    driver._queues.enqueue(driver.stream(), Work(tuple(places), run))
    return found


def test_a_window_reads_its_experts_although_a_prompt_with_the_same_layout_follows(kind: str) -> None:
    """The second time as well: the addresses were those of experts in between."""
    tail, cache, driver = loan(kind)
    path = PromptPath(driver, TinyShape(), 1024)
    need = bytes_needed(256, 8, TinyShape())
    for _ in range(3):
        wrong = wrong_reads(cache, driver)
        region = tail.lend(need, 5)
        for block in path.relayout(region.address, region.nbytes, 256, 8).blocks:
            driver.fill(block.address, 0x5A, block.nbytes)
        path.leave()
        tail.refill()
        driver.synchronize()
        assert wrong == []
    assert driver.misuse == []


@pytest.mark.parametrize("act", ["lend", "refill", "lend another region"])
def test_nothing_is_queued_below_a_region_that_changes_hands(act: str) -> None:
    """Before a prompt writes, and before experts come back: also when the prompt path does not wait itself."""
    tail, cache, driver = loan()
    region = tail.region(900_000, 5)
    if act != "lend":
        tail.lend(900_000, 5)
    stream = driver.stream()
    driver.kernel([], [(region.address, 64)], stream) if act != "lend" else driver.kernel(
        [(region.address, 64)], [], stream
    )
    tail.refill() if act == "refill" else tail.lend(900_000 if act == "lend" else 200_000, 5)
    assert not driver._queues.touches(region.address, region.nbytes)
    assert unsound(cache, driver) == []
    tail.refill()
    assert unsound(cache, driver) == []


def test_swaps_on_their_way_land_before_their_slots_are_lent() -> None:
    """Else a copy would still be written into a slot of the workspace, and its row be promoted there."""
    tail, cache, driver = loan()
    tier = AdaptiveTier(cache, Pace(every=1))
    resident = {row for row, _ in cache.residency.resident()}
    tier.count([row for row in range(GEOMETRY.rows) if row not in resident for _ in range(9)])
    tier.begin()
    slots = {slot for _, slot in tier.pending}
    region = tail.lend(1_500_000, 5)
    assert slots & set(range(region.first, len(cache.slots)))
    assert tier.pending == []
    driver.fill(region.address, 0x5A, region.nbytes)
    assert unsound(cache, driver) == []
    cache.begin_window()
    assert unsound(cache, driver) == []
    tail.refill()
    assert unsound(cache, driver) == []


def test_another_region_hands_the_first_one_back() -> None:
    tail, cache, driver = loan()
    large = tail.lend(900_000, 5)
    small = tail.lend(200_000, 5)
    assert small.first > large.first
    assert all(slot >= small.first for _, slot in tail.book)
    assert cache.residency.row(large.first) != MISS
    assert unsound(cache, driver) == []


def test_a_loan_that_is_out_marks_its_whole_range_again() -> None:
    """Somebody else has returned a row meanwhile: `it is lent already` would leave it resident below the prompt."""
    tail, cache, driver = loan()
    region = tail.lend(500_000, 5)
    row, slot = list(tail.book)[2]
    tail.book.remove([row])
    cache.install([(row, slot)])
    assert tail.lend(500_000, 5) == region
    assert tail.book.owns(row)
    driver.fill(region.address, 0x5A, region.nbytes)
    assert unsound(cache, driver) == []


def test_what_the_host_does_not_hold_is_not_lent() -> None:
    cache, driver = small_cache("sized", source=patterned(GEOMETRY))
    tail = TailLoan(cache)
    row = cache.residency.resident()[-1][0]
    cache.source.absent = frozenset((row,))  # type: ignore[attr-defined]
    with pytest.raises(Refused, match="host memory does not hold 1 experts, the first is"):
        tail.lend(500_000, 5)
    assert not tail.out
    assert len(tail.book) == 0
    assert cache.residency.resident()[-1][0] == row
    assert not driver.lost


def test_one_participant_s_refill_is_not_the_other_s() -> None:
    """Two loans over one cache: what one gives back is its own, the other's rows stay misses."""
    cache, driver = small_cache()
    one, other = TailLoan(cache, "one"), TailLoan(cache, "other")
    high = one.lend(200_000, 5)
    other.lend(900_000, 5)
    kept = list(one.book)
    other.refill()
    assert list(one.book) == kept
    assert all(cache.residency.slot(row) == MISS for row, _ in kept)
    driver.fill(high.address, 0x5A, high.nbytes)
    assert unsound(cache, driver) == []
    one.refill()
    assert unsound(cache, driver) == []


def test_below_a_loan_to_another_process() -> None:
    """While memory is lent away the prompt's region ends where that begins, and RECLAIM brings both back."""
    tail, cache, driver = loan()
    lending = Lending(cache)
    lending.lend(1)
    boundary = cache.arena.mapped_bytes
    region = tail.lend(400_000, 5)
    assert region.address + region.nbytes == cache.base + boundary
    assert region.first + len(tail.book) + len(lending.book) == len(cache.slots)
    driver.fill(region.address, 0x5A, region.nbytes)
    tail.refill()
    assert unsound(cache, driver) == []
    lending.reclaim()
    assert len(cache.residency.resident()) == len(cache.slots)
    assert unsound(cache, driver) == []


def test_slots_that_go_are_forgotten() -> None:
    tail, cache, _ = loan()
    region = tail.lend(900_000, 5)
    gone = tail.book.forget(region.first + 4)
    assert gone == len(cache.slots) - region.first - 4
    assert {slot for _, slot in tail.book} == set(range(region.first, region.first + 4))


class TestPromptPath:
    def test_a_layout_writes_nothing(self) -> None:
        """Between prompts the addresses of a workspace are those of live experts."""
        _, cache, driver = loan()
        path = PromptPath(driver, TinyShape(), 1024)
        for chunk in (256, 1024, 512):
            workspace = path.relayout(cache.base, cache.arena.mapped_bytes, chunk, 8)
            assert workspace.blocks[0].address == cache.base
        assert unsound(cache, driver) == []

    def test_every_layout_waits_for_the_card(self) -> None:
        """The same one too: another loan and windows may lie between."""
        _, cache, driver = loan()
        path = PromptPath(driver, TinyShape(), 1024)
        driver.log.clear()
        for _ in range(3):
            path.relayout(cache.base, cache.arena.mapped_bytes, 256, 8)
        assert [call.name for call in driver.log] == ["synchronize"] * 3
        path.leave()
        assert path.workspace is None

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"chunk": 0}, "workspace of 0 tokens: expected 1 to 1024"),
            ({"chunk": 1025}, "workspace of 1025 tokens: expected 1 to 1024"),
            ({"address": 0}, "workspace at address 0"),
            ({"nbytes": 1000}, "the region has 1000 bytes, expected at least"),
        ],
    )
    def test_a_refused_layout_changes_nothing(self, change: dict[str, int], message: str) -> None:
        """No call is made, no memory is taken, and the layout before it stays."""
        _, cache, driver = loan()
        path = PromptPath(driver, TinyShape(), 1024)
        sizes = {"address": cache.base, "nbytes": cache.arena.mapped_bytes, "chunk": 256, "ring": 8}
        first = path.relayout(**sizes)
        calls = len(driver.log)
        with pytest.raises(Refused, match=message):
            path.relayout(**{**sizes, **change})
        assert path.workspace is first
        assert len(driver.log) == calls

    def test_a_path_with_buffers_of_its_own_is_not_laid_out(self) -> None:
        _, cache, driver = loan()
        path = PromptPath(driver, TinyShape(), 1024, borrows=False)
        with pytest.raises(Refused, match="owns its buffers"):
            path.relayout(cache.base, cache.arena.mapped_bytes, 256, 8)
