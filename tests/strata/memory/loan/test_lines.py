"""LEND and RECLAIM as a client sees them: every reply, every refusal, and what repeats."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strata.memory.arena.pieces import MiB
from strata.memory.cache.opening import open_cache
from strata.memory.cache.pattern import patterned
from strata.memory.driver.driver import Code
from strata.memory.driver.fake import FakeDriver
from strata.memory.driver.fault_plan import Corrupt, Fail, Report
from strata.memory.loan.lending import SPARE_BYTES, Lending
from strata.memory.loan.lines import LendingLines
from strata.memory.loan.rejections import EngineSetup
from tests.strata.memory.cache.caches import (
    GEOMETRY,
    PIECE,
    PROFILE,
    SOURCE,
    assert_sound,
    slots,
    small_cache,
)


def ticking(seconds: float) -> Callable[[], float]:
    """A clock that goes on by so much whenever it is read."""
    now = [0.0]

    def read() -> float:
        now[0] += seconds
        return now[0]

    return read


@pytest.fixture(autouse=True)
def _no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STRATA_VERIFY_RECLAIM", raising=False)


def protocol(kind: str = "sized", **options: object) -> tuple[LendingLines, Lending, FakeDriver]:
    cache, driver = small_cache(kind)
    lending = Lending(cache, clock=ticking(0.0042), **options)  # type: ignore[arg-type]
    return LendingLines(lending), lending, driver


def test_the_replies_of_a_loan() -> None:
    """Pieces of a quarter MiB, a short last one: 1 MiB asked for is that and four more, 1.18 MiB, of which 1 counts."""
    lines, lending, driver = protocol(chunk=lambda first: 512)
    cache = lending.cache
    assert lines.handle("RECLAIM\n") == "RECLAIMED 0 0 0"
    free = driver.mem_info()[0]
    first = cache.slots.within(cache.arena.starts[-5])
    experts = len(cache.slots) - first
    assert lines.handle("LEND 1\n") == f"LENT 1 {experts} 512"
    assert driver.mem_info()[0] - free == 4 * PIECE + cache.arena.sizes[-1] > MiB
    assert_sound(cache, driver)
    for again in ("LEND 1", "LEND 2", "LEND 0", "LEND x", "LEND"):
        assert lines.handle(again) == f"LENT 1 {experts} 512"  # the caller compares the figure with what it wanted
    assert lines.handle("RECLAIM") == f"RECLAIMED 1 {experts} 4"
    assert_sound(cache, driver)
    assert driver.mem_info()[0] == free
    assert lines.handle("RECLAIM") == "RECLAIMED 0 0 0"
    assert lines.status is None


@pytest.mark.parametrize("size", ["0", "-1", "abc", "\x1b[2J", "x", "1x", "1.5", "+1", "", "1 2", "٣", "0x10", "1_0"])
def test_what_is_no_size_is_refused(size: str) -> None:
    lines, lending, driver = protocol()
    driver.log.clear()
    said = "0 MiB" if size == "0" else ascii(size)
    assert lines.handle(f"LEND {size}") == f"ERR LEND: {said}, expected a whole number of MiB above 0"
    assert driver.log == []
    assert lending.loan is None


@pytest.mark.parametrize("size", [4, 5, 1 << 40, int("9" * 15), 1 << 64, int("9" * 40)])
def test_the_whole_cache_is_not_lent(size: int) -> None:
    lines, lending, driver = protocol()
    driver.log.clear()
    arena = lending.cache.arena
    mapped, most = arena.mapped_bytes // MiB, (arena.mapped_bytes - PIECE) // MiB
    expected = f"ERR LEND: {size} MiB, expected at most {most}, so that a slot stays of the cache's {mapped} MiB"
    assert lines.handle(f"LEND {size}") == expected
    assert driver.log == []
    assert lines.handle(f"LEND {most}").startswith("LENT ")


def test_a_size_of_thousands_of_digits_is_the_whole_cache() -> None:
    lines, _, _ = protocol()
    reply = lines.handle("LEND " + "9" * 6000)
    assert reply.startswith(f"ERR LEND: {'9' * 37}... MiB, expected at most ")
    assert reply.endswith(", so that a slot stays of the cache's 3 MiB")
    assert lines.handle("LEND " + "0" * 6000 + "1").startswith("LENT 1 ")


@pytest.mark.parametrize("line", ["", "LEN 1", "lend 1", "RECLAIM 1", "LENDING", "\x1b[2J", "é"])
def test_other_lines_are_refused_in_one_line_of_ascii(line: str) -> None:
    lines, _, driver = protocol()
    driver.log.clear()
    reply = lines.handle(line)
    assert reply.startswith("ERR ")
    assert reply.endswith("expected LEND <MiB> or RECLAIM")
    assert reply.isascii()
    assert reply.isprintable()
    assert driver.log == []


@pytest.mark.parametrize(
    ("setup", "reason"),
    [
        (EngineSetup(low_ram=True), "low-RAM exchange mode: host memory does not hold what the cache would give up"),
        (EngineSetup(layer_split=True), "layers are split over several cards"),
        (EngineSetup(helper_caches=True), "helper caches on other cards"),
        (EngineSetup(peer_device=True), "a peer device serves experts"),
        (EngineSetup(batch=True), "batch mode"),
    ],
)
def test_an_engine_that_cannot_lend_says_why(setup: EngineSetup, reason: str) -> None:
    lines, _, driver = protocol(setup=setup)
    driver.log.clear()
    assert lines.info() == "lendable=0"
    for line in ("LEND 1", "RECLAIM"):
        assert lines.handle(line) == f"ERR cannot lend: {reason}"
    assert driver.log == []
    assert lines.status is None


def test_a_cache_in_one_piece_cannot_lend() -> None:
    lines, lending, _ = protocol()
    assert lines.info() == "lendable=1"
    lending.cache.arena.elastic = False
    assert lines.info() == "lendable=0"
    assert lines.handle("LEND 1") == "ERR cannot lend: the cache is not made of pieces"


def test_no_chunk_that_fits_refuses_and_the_planner_is_asked_about_the_first_slot() -> None:
    asked: list[int] = []
    lines, lending, driver = protocol(chunk=asked.append)
    driver.log.clear()
    first = lending.cache.slots.within(lending.cache.arena.starts[-5])
    expected = f"ERR LEND: the {first} slots that would stay cannot lend the smallest prompt chunk"
    assert lines.handle("LEND 1") == expected
    assert asked == [first]
    assert driver.log == []


def test_an_expert_that_is_nowhere_else_is_not_given_up() -> None:
    lines, lending, driver = protocol()
    lending.cache.source = patterned(GEOMETRY, absent=frozenset((PROFILE[len(lending.cache.slots) - 1],)))
    expert = GEOMETRY.expert(PROFILE[len(lending.cache.slots) - 1])
    driver.log.clear()
    assert lines.handle("LEND 1") == f"ERR LEND: host memory does not hold 1 of the experts, the first is {expert}"
    assert driver.log == []


def test_while_a_prompts_loan_is_out_nothing_is_lent_or_taken_back() -> None:
    lines, lending, driver = protocol()
    prompt = lending.cache.loan_book("prompt")
    lending.cache.take(prompt, 50)
    assert lines.handle("LEND 1") == "ERR LEND: the loan 'prompt' is still out"
    lending.cache.give_back(prompt)
    assert lines.handle("LEND 1").startswith("LENT 1 ")
    lending.cache.take(prompt, 20, lending.cache.usable_slots())
    assert lines.handle("RECLAIM") == "ERR RECLAIM: the loan 'prompt' is still out"
    lending.cache.give_back(prompt)
    assert lines.handle("RECLAIM").startswith("RECLAIMED 1 ")
    assert_sound(lending.cache, driver)


def test_reclaim_waits_for_a_borrower_that_is_slow_to_leave() -> None:
    lines, lending, driver = protocol()
    lines.handle("LEND 1")
    card, arena = driver.card, lending.cache.arena
    need = arena.reserved - arena.mapped_bytes
    card.take("borrower", card.reported_free)
    for left in (0, SPARE_BYTES // MiB):  # all of it, then all but the loan itself
        card.tenants["borrower"] -= left * MiB
        reply = lines.handle("RECLAIM")
        assert reply == (
            f"ERR RECLAIM: {left} MiB are free, expected 2 + 128: the borrower is still there; the loan stays out"
        )
        assert lending.loan is not None
        assert_sound(lending.cache, driver)
        assert lines.handle("LEND 3").startswith("LENT 1 ")
    card.tenants["borrower"] -= need - 1
    assert lines.handle("RECLAIM").startswith("ERR RECLAIM: 129 MiB are free, expected 2 + 128")
    card.tenants["borrower"] -= 1
    assert lines.handle("RECLAIM").startswith("RECLAIMED 1 ")
    assert_sound(lending.cache, driver)
    assert card.ever_paged == 0


def test_a_free_figure_of_0_means_later() -> None:
    """Right after memory was freed a driver may report 0 once."""
    lines, _, driver = protocol()
    lines.handle("LEND 1")
    driver.plan.next("mem_info", Report(0))
    assert lines.handle("RECLAIM").startswith("ERR RECLAIM: 0 MiB are free")
    assert lines.handle("RECLAIM").startswith("RECLAIMED 1 ")
    lines.handle("LEND 1")
    driver.plan.next("mem_info", Fail(Code.NOT_PERMITTED))
    assert lines.handle("RECLAIM").endswith("the loan stays out, try again")
    assert lines.handle("RECLAIM").startswith("RECLAIMED 1 ")


def test_a_fatal_end_answers_err_and_names_a_status() -> None:
    lines, lending, driver = protocol(verify_all=True)
    lines.handle("LEND 1")
    row, slot = list(lending.book)[2]
    driver.plan.nth("copy_in", 1 + sum(call.name == "copy_in" for call in driver.log) + 2, Corrupt(1234, 0x10))
    expected = int(SOURCE.blob(row)[1234])
    reply = lines.handle("RECLAIM")
    where = f"expert {GEOMETRY.expert(row)} in slot {slot}"
    assert reply == f"ERR {where}: byte 1234 is {expected ^ 0x10:#04x}, expected {expected:#04x}"
    assert lines.status == 1
    assert lines.info() == "lendable=0"
    assert_sound(lending.cache, driver)
    assert lines.handle("LEND 1").startswith("ERR the cache has ended: expert ")


@pytest.mark.parametrize(("value", "every"), [(None, False), ("", False), ("0", False), ("1", True), ("yes", True)])
def test_the_switch_asks_for_every_byte(value: str | None, every: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set for the process, it reaches a Lending that is opened as everybody opens it, and what is compared says so."""
    monkeypatch.delenv("STRATA_VERIFY_RECLAIM", raising=False)
    if value is not None:
        monkeypatch.setenv("STRATA_VERIFY_RECLAIM", value)
    lines, lending, _ = protocol()
    lines.handle("LEND 1")
    lent = list(lending.book)
    lines.handle("RECLAIM")
    verified = lending.verified
    assert verified.of == len(lent)
    assert (verified.slots == len(lent)) is every
    assert (verified.nbytes == sum(GEOMETRY.blob(row) for row, _ in lent)) is every


def test_under_wddm_a_reclaim_does_not_page() -> None:
    """Memory beyond the card can be created there and is paged; so what is not free is not asked for."""
    cache, driver = small_cache()
    driver.card.wddm = True
    driver.card.optimism = 700 * MiB
    lines = LendingLines(Lending(cache))
    lines.handle("LEND 1")
    driver.card.take("borrower", driver.card.reported_free - 100 * MiB)
    assert lines.handle("RECLAIM").startswith("ERR RECLAIM: 100 MiB are free")
    driver.card.leave("borrower")
    assert lines.handle("RECLAIM").startswith("RECLAIMED 1 ")
    assert driver.card.ever_paged == 0
    assert driver.mem_info()[0] >= SPARE_BYTES


def test_five_cycles_leave_the_free_memory_as_it_was() -> None:
    lines, lending, driver = protocol("uniform", verify_all=True)
    free, table = driver.mem_info()[0], lending.cache.residency.host.copy()
    for _ in range(5):
        assert lines.handle("LEND 1").startswith("LENT 1 ")
        assert lines.handle("RECLAIM").startswith("RECLAIMED 1 ")
        assert driver.mem_info()[0] == free
        assert (lending.cache.residency.host == table).all()
    assert_sound(lending.cache, driver)
    assert driver.misuse == []


def test_a_cache_with_nothing_in_its_tail_can_lend_it() -> None:
    driver = small_cache()[1]
    cache = open_cache(driver, SOURCE, slots("uniform"), PROFILE[:3], PIECE)
    lines = LendingLines(Lending(cache, clock=lambda: 0.0))
    assert lines.handle("LEND 1") == "LENT 1 0 0"
    assert lines.handle("RECLAIM") == "RECLAIMED 1 0 0"
    assert_sound(cache, driver)
