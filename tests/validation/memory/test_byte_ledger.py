"""The byte ledger: made on a fake card, checked, and refused when any of its claims is another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strata.memory.driver import Compared
from validation.memory import byte_ledger
from validation.memory.bench_world import fake_world
from validation.record import canonical


@pytest.fixture(scope="module")
def ledger() -> dict[str, Any]:
    world = fake_world()
    world.open()
    return byte_ledger.make(world.cache, world.lending, 1, world.borrow, {"device": "a fake card"})


def test_an_honest_ledger_passes(ledger: dict[str, Any], tmp_path: Path) -> None:
    assert byte_ledger.check(ledger) == []
    first = ledger["lent"]["first"]
    assert 0 < first < len(ledger["slots"])
    assert all(entry["meanwhile"] for entry in ledger["slots"][:first])
    file = byte_ledger.write(ledger, tmp_path)
    data = canonical.read(file)
    assert file.stem == canonical.name_of(data)
    assert byte_ledger.check(canonical.decode(data)) == []


def change_slot(slot: int, field: str) -> Callable[[dict[str, Any]], None]:
    def change(ledger: dict[str, Any]) -> None:
        ledger["slots"][slot][field] = byte_ledger.digest(b"other")

    return change


def other_bytes_throughout(ledger: dict[str, Any]) -> None:
    """Consistent, but not the expert's: only its bytes, made again, tell."""
    for field in ("before", "after"):
        ledger["slots"][-1][field] = byte_ledger.digest(b"other")


def swap_experts(ledger: dict[str, Any]) -> None:
    one, two = ledger["slots"][3], ledger["slots"][4]
    for field in ("before", "meanwhile", "after"):
        one[field], two[field] = two[field], one[field]


def swap_rows(ledger: dict[str, Any]) -> None:
    one, two = ledger["slots"][3], ledger["slots"][4]
    one["row"], two["row"] = two["row"], one["row"]


@pytest.mark.parametrize(
    "change",
    [
        change_slot(0, "before"),
        change_slot(0, "meanwhile"),
        change_slot(0, "after"),
        change_slot(-1, "before"),
        change_slot(-1, "meanwhile"),
        change_slot(-1, "after"),
        other_bytes_throughout,
        swap_experts,
        swap_rows,
        lambda ledger: ledger["slots"][0].update(row=ledger["slots"][1]["row"]),
        lambda ledger: ledger.update(schema="strata-memory-ledger/0"),
        lambda ledger: ledger["beside"].update(after="0" * 64),
        lambda ledger: ledger["lent"].update(experts=ledger["lent"]["experts"] - 1),
        lambda ledger: ledger["lent"].update(borrowed=(ledger["lent"]["mib"] << 20) - 1),
        lambda ledger: ledger["lent"].update(first=ledger["lent"]["first"] - 1),
        lambda ledger: ledger["reclaimed"].update(compared=ledger["reclaimed"]["compared"] - 1),
        lambda ledger: ledger["reclaimed"].update(mib=0),
    ],
)
def test_another_claim_is_refused(ledger: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
    changed = copy.deepcopy(ledger)
    change(changed)
    assert byte_ledger.check(changed)


def test_a_reclaim_that_changes_a_byte_is_seen_in_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the comparison on the card said nothing: digests are of what is read back."""
    world = fake_world()
    world.open()
    real = world.cache.wait

    def wait() -> None:
        real()
        slot = world.lending.loan.first + 1 if world.lending.loan else 0
        world.driver.fill(world.cache.arena.address(int(world.cache.slots.off[slot]) + 5), 0x77, 1)

    monkeypatch.setattr(world.cache, "wait", wait)
    monkeypatch.setattr(world.driver, "compare_all", lambda ranges: Compared(sum(host.nbytes for _, host in ranges)))
    made = byte_ledger.make(world.cache, world.lending, 1, world.borrow, {})
    assert any("after the loan" in line for line in byte_ledger.check(made))


def test_a_ledger_of_nothing_is_refused() -> None:
    """It contradicts nothing, and shows nothing."""
    empty = {
        "schema": byte_ledger.SCHEMA,
        "geometry": {"layers": 1, "experts": 1, "blobs": [8]},
        "slots": [],
        "lent": {"first": 0, "mib": 0, "experts": 0, "borrowed": 0},
        "reclaimed": {"mib": 0, "experts": 0, "compared": 0},
        "beside": {"before": "", "after": ""},
    }
    found = byte_ledger.check(empty)
    for name in ("mib", "experts", "compared"):
        assert f"{name} is 0, expected more than nothing" in found
    assert any("is the first that was lent" in line for line in found)


def test_the_table_is_what_the_slots_say(ledger: dict[str, Any]) -> None:
    """Made again from the slots: the same wrong digest before and after does not pass."""
    changed = copy.deepcopy(ledger)
    changed["beside"] = dict.fromkeys(("before", "after"), byte_ledger.digest(b"another table"))
    assert byte_ledger.check(changed) == ["the table beside the slots is not what the slots say"]


def test_a_row_that_does_not_exist_is_refused(ledger: dict[str, Any]) -> None:
    for row in (-2, 1 << 20):
        changed = copy.deepcopy(ledger)
        changed["slots"][3]["row"] = row
        assert any(line.startswith(f"row {row}, expected one of") for line in byte_ledger.check(changed))
