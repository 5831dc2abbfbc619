"""The adaptive tier: its decision against brute force, and the order in which a swap becomes true."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.memory.cache.adaptive import AdaptiveTier, Pace, decide
from strata.memory.cache.pattern import patterned
from strata.memory.cache.residency import MISS
from strata.memory.driver.driver import Code
from strata.memory.driver.errors import Fatal
from strata.memory.driver.fake_queues import Work
from strata.memory.driver.fault_plan import Corrupt, Fail
from strata.memory.driver.views import StaleView
from strata.memory.loan.lending import Lending
from tests.strata.memory.cache.caches import GEOMETRY, SOURCE, assert_sound, names, small_cache, watch

LAYERS, EXPERTS = 3, 5
ROWS = LAYERS * EXPERTS
BITS = st.lists(st.booleans(), min_size=ROWS, max_size=ROWS)
PACES = st.builds(Pace, swaps=st.integers(0, 5), floor=st.sampled_from([0.0, 2.0]), margin=st.sampled_from([0.0, 1.5]))


@given(st.lists(st.integers(0, 12), min_size=ROWS, max_size=ROWS), BITS, BITS, PACES)
def test_a_round_against_brute_force(counts: list[int], resident: list[bool], barred: list[bool], pace: Pace) -> None:
    usage = np.array(counts) / 2
    chosen: list[tuple[float, int, int]] = []
    for layer in range(LAYERS):
        rows = [row for row in range(layer * EXPERTS, (layer + 1) * EXPERTS) if not barred[row]]
        misses = sorted((row for row in rows if not resident[row]), key=lambda row: (-usage[row], row))
        victims = sorted((row for row in rows if resident[row]), key=lambda row: (usage[row], row))
        for incoming, outgoing in zip(misses, victims, strict=False):
            if usage[incoming] < pace.floor or usage[incoming] < usage[outgoing] + pace.margin:
                break
            chosen.append((-(usage[incoming] - usage[outgoing]), incoming, outgoing))
    expected = [(incoming, outgoing) for _, incoming, outgoing in sorted(chosen)][: pace.swaps]
    assert decide(usage, np.array(resident), np.array(barred), EXPERTS, pace) == expected


def test_equal_counts_go_by_row_in_large_layers_too() -> None:
    """A sort that is not stable keeps the order of short arrays by chance."""
    usage = np.array([row * 7 % 3 for row in range(512)], float)
    resident = np.arange(512) % 2 == 0
    swaps = decide(usage, resident, np.zeros(512, bool), 512, Pace(swaps=512, floor=0.5, margin=0.5))
    misses = sorted((row for row in range(1, 512, 2) if usage[row] >= 0.5), key=lambda row: (-usage[row], row))
    victims = sorted(range(0, 512, 2), key=lambda row: (usage[row], row))
    partner = dict(zip(misses, victims, strict=False))
    assert len(swaps) > 80
    assert all(partner[swap.incoming] == swap.outgoing for swap in swaps)


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.5, 1.5, float("nan")])
def test_a_decay_outside_0_to_1_is_refused(decay: float) -> None:
    with pytest.raises(StrataError, match="expected above 0 and below 1"):
        Pace(decay=decay)


def test_no_windows_between_rounds_and_negative_swaps_are_refused() -> None:
    for wrong in ({"every": 0}, {"swaps": -1}):
        with pytest.raises(StrataError, match="expected at least 1 and 0"):
            Pace(**wrong)


def hot(tier: AdaptiveTier) -> tuple[int, int]:
    """Make one miss hot and everything resident but one row of its layer warm; the two rows."""
    residency = tier.cache.residency
    incoming = next(row for row in range(GEOMETRY.rows) if residency.slot(row) == MISS)
    layer = GEOMETRY.expert(incoming)[0]
    cold = next(row for row, _ in residency.resident() if GEOMETRY.expert(row)[0] == layer)
    tier.count([row for row, _ in residency.resident() if row != cold for _ in range(9)])
    tier.count([incoming] * 5)
    return incoming, cold


def test_a_swap_demotes_uploads_copies_and_lands_before_the_next_window(kind: str) -> None:
    cache, driver = small_cache(kind)
    tier = AdaptiveTier(cache)
    lies = watch(driver, cache)
    incoming, outgoing = hot(tier)
    slot = cache.residency.slot(outgoing)
    view = cache.view(*GEOMETRY.expert(outgoing))
    driver.log.clear()
    for _ in range(3):
        cache.begin_window()
        assert tier.end_window() == []
    assert driver.log == []
    cache.begin_window()
    assert tier.end_window() == [(incoming, outgoing)]
    # The card is at rest before the demotion, and that is on the device before the slot is written.
    assert driver.log.pop(0).name == "synchronize"
    assert [call.args[0] for call in driver.log] == [cache.residency.address, cache.base + int(cache.slots.off[slot])]
    assert not cache.residency.stale
    assert cache.residency.slot(incoming) == cache.residency.slot(outgoing) == MISS
    assert_sound(cache, driver)
    assert view is not None
    with pytest.raises(StaleView):
        view.array()
    driver.log.clear()
    cache.begin_window()
    assert names(driver.log) == ["synchronize", "copy_in"]
    assert cache.residency.slot(incoming) == slot
    assert np.array_equal(cache.read(*GEOMETRY.expert(incoming)), SOURCE.blob(incoming))
    assert_sound(cache, driver)
    assert lies == []


def test_admission_leaves_a_swap_that_is_on_its_way_alone() -> None:
    """Another fill waits for the copies of the swap too; its slot stays taken and its row on its way until it lands."""
    cache, driver = small_cache("uniform")
    tier = AdaptiveTier(cache, Pace(every=1))
    cache.residency.demote(cache.residency.row(40))
    cache.residency.upload()
    incoming, outgoing = hot(tier)
    slot = cache.residency.slot(outgoing)
    assert tier.end_window() == [(incoming, outgoing)]
    assert cache.admit(outgoing) == 40
    assert cache.admit(incoming) == MISS
    assert not cache.free_slots().any()
    assert_sound(cache, driver)
    cache.begin_window()
    assert cache.residency.slot(incoming) == slot
    assert_sound(cache, driver)


def test_counts_decay_after_a_round_and_only_then() -> None:
    cache, _ = small_cache()
    tier = AdaptiveTier(cache, Pace(every=2))
    tier.count([0, 0, 5])
    tier.end_window()
    assert tier.usage[[0, 5, 6]].tolist() == [2, 1, 0]
    tier.end_window()
    assert tier.usage[[0, 5, 6]].tolist() == [2 * 0.7, 0.7, 0]


def test_a_round_is_skipped_while_swaps_are_on_their_way() -> None:
    cache, _ = small_cache()
    tier = AdaptiveTier(cache, Pace(every=1))
    swap = hot(tier)
    assert tier.end_window() == [swap]
    usage = tier.usage.copy()
    assert tier.end_window() == []
    assert np.array_equal(tier.usage, usage)
    assert [row for row, _ in tier.pending] == [swap[0]]


@pytest.mark.parametrize("progress", [0, 1, 3])
def test_what_is_decided_does_not_depend_on_how_fast_copies_are(progress: int) -> None:
    """Every run makes the same tables at every window, however many copies were done in between."""

    def tables(done: int) -> list[list[int]]:
        cache, driver = small_cache("uniform")
        tier = AdaptiveTier(cache, Pace(every=2, swaps=4))
        found = []
        for window in range(12):
            cache.begin_window()
            found.append(cache.residency.device().tolist())
            tier.count([(window * 17 + 5 * hit * hit) % GEOMETRY.rows for hit in range(80)])
            tier.end_window()
            driver.progress(cache.stream, done)
        assert_sound(cache, driver)
        return found

    reference = tables(0)
    assert len({tuple(table) for table in reference}) > 3  # swaps did happen
    assert tables(progress) == reference


def test_an_expert_the_host_does_not_hold_is_neither_evicted_nor_fetched() -> None:
    cache, _ = small_cache()
    tier = AdaptiveTier(cache, Pace(every=1))
    incoming, outgoing = hot(tier)
    cache.source = patterned(GEOMETRY, absent=frozenset((incoming,)))
    tier.usage /= 0.7
    assert (incoming, outgoing) not in tier.begin()
    cache, _ = small_cache()
    tier = AdaptiveTier(cache, Pace(every=1))
    incoming, outgoing = hot(tier)
    cache.source = patterned(GEOMETRY, absent=frozenset((outgoing,)))
    assert outgoing not in [swap.outgoing for swap in tier.begin()]


@pytest.mark.parametrize("call", ["copy_in", "synchronize"])
@pytest.mark.parametrize("occurrence", [1, 2])
def test_a_failed_call_of_a_swap_is_fatal_and_no_row_lies(call: str, occurrence: int) -> None:
    cache, driver = small_cache()
    tier = AdaptiveTier(cache, Pace(every=1))
    incoming, outgoing = hot(tier)
    home = cache.residency.slot(outgoing)
    before = sum(one.name == call for one in driver.log)
    driver.plan.nth(call, before + occurrence, Fail(Code.UNKNOWN))
    with pytest.raises(Fatal):  # noqa: PT012 - which of the two it is depends on the call
        tier.end_window()
        cache.begin_window()
    # The first wait comes before anything has changed.
    begun = (call, occurrence) != ("synchronize", 1)
    assert cache.residency.slot(outgoing) == (MISS if begun else home)
    assert cache.residency.slot(incoming) == MISS
    assert_sound(cache, driver)


def test_the_checker_sees_a_swap_that_brought_a_wrong_byte() -> None:
    cache, driver = small_cache()
    tier = AdaptiveTier(cache, Pace(every=1))
    hot(tier)
    driver.plan.when(lambda call: call.name == "copy_in" and call.args[2] == cache.stream, Corrupt(3))
    tier.end_window()
    cache.begin_window()
    with pytest.raises(AssertionError, match="I1 expert"):
        assert_sound(cache, driver)


def test_the_hottest_miss_of_a_layer() -> None:
    cache, _ = small_cache("uniform")
    tier = AdaptiveTier(cache)
    misses = [row for row in range(30, 60) if cache.residency.slot(row) == MISS]
    assert tier.hottest_miss(1) == misses[0]
    tier.count([misses[2], misses[4]])
    assert tier.hottest_miss(1) == misses[2]
    cache.loan_book("x").add([(misses[2], 1)])
    assert tier.hottest_miss(1) == misses[4]
    cache.source = patterned(GEOMETRY, absent=frozenset(misses))
    assert tier.hottest_miss(1) == MISS


def test_a_queued_window_reads_what_was_there_when_it_was_queued(kind: str) -> None:
    """Its table and its slots, whatever swaps begin and land before it runs."""
    cache, driver = small_cache(kind)
    tier = AdaptiveTier(cache, Pace(every=1, swaps=4))
    stream = driver.stream()
    wrong: list[int] = []

    def window() -> None:
        cache.begin_window()
        reads = [
            (row, cache.base + int(cache.slots.off[slot]), GEOMETRY.blob(row))
            for row, slot in cache.residency.resident()
        ]
        table = (cache.residency.address, 4 * GEOMETRY.rows)
        expected = cache.residency.host.copy()

        def run() -> None:
            if not np.array_equal(driver.peek(*table).view(np.int32), expected):
                wrong.append(MISS)
            wrong.extend(row for row, va, n in reads if not np.array_equal(driver.peek(va, n), SOURCE.blob(row)))

        driver._queues.enqueue(stream, Work((table, *((va, n) for _, va, n in reads)), run))

    swapped = 0
    for round_ in range(6):
        window()
        missing = [row for row in range(GEOMETRY.rows) if cache.residency.slot(row) == MISS]
        tier.count([row for row in missing for _ in range(3 * (round_ + 1))])
        swapped += len(tier.end_window())
    driver.wait_stream(stream)
    assert swapped == 24
    assert wrong == []
    assert driver.misuse == []


@pytest.mark.parametrize("change", ["LEND", "admit", "land"])
def test_a_queued_window_reads_its_table(change: str) -> None:
    cache, driver = small_cache("uniform")
    tier, lending = AdaptiveTier(cache, Pace(every=1, swaps=4)), Lending(cache)
    if change == "admit":
        cache.take(cache.loan_book("empty", exclusive=False), len(cache.slots) - 1)
        cache.loan_books[-1].drop([len(cache.slots) - 1])
    if change == "land":
        hot(tier)
        assert tier.end_window()
    stream = driver.stream()
    driver.kernel([(cache.residency.address, 4 * GEOMETRY.rows)], [], stream)
    if change == "LEND":
        lending.lend(1)
    elif change == "land":
        cache.begin_window()
    else:
        assert cache.admit(next(row for row in range(GEOMETRY.rows) if cache.residency.slot(row) == MISS)) != MISS
    assert driver.misuse == []
