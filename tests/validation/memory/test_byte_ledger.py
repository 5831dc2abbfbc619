"""The byte ledger: made on a fake card, checked, and refused when any of its claims is another."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strata.memory.driver.driver import Compared
from validation.__main__ import main
from validation.memory import byte_ledger
from validation.memory.bench_world import fake_world
from validation.memory.ledger_form import LedgerError
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


def drop_what_stayed(ledger: dict[str, Any]) -> None:
    """Only lent slots are left, and the loan begins with the first of them."""
    del ledger["slots"][: ledger["lent"]["first"]]
    ledger["lent"]["first"] = 1


def rows_that_stayed_are_gone(ledger: dict[str, Any]) -> None:
    for entry in ledger["slots"][: ledger["lent"]["first"]]:
        entry["row"] = -1


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
        lambda ledger: ledger.update(sources={}),
        lambda ledger: ledger["sources"].update({"memory/cache/cache.py": "0" * 64}),
        lambda ledger: ledger["sources"].pop("memory/cache/cache.py"),
        lambda ledger: ledger.update(project="0"),
        drop_what_stayed,
        lambda ledger: ledger["slots"].pop(),
        lambda ledger: ledger["slots"].pop(0),
        rows_that_stayed_are_gone,
        lambda ledger: ledger["slots"][1].update(offset=0),
        lambda ledger: ledger["slots"][2].update(offset=ledger["slots"][2]["offset"] + 256),
        lambda ledger: ledger["slots"][0].update(layer=1 - ledger["slots"][0]["layer"] % 2),
        lambda ledger: ledger["slots"][0].update(layer=-1),
        lambda ledger: ledger["slots"][0].update(row=16 * 3),
        lambda ledger: ledger["geometry"]["blobs"].pop(),
        lambda ledger: ledger["lent"].update(borrowed=10**15),
        lambda ledger: ledger["lent"].update(asked=2),
        lambda ledger: ledger["arena"].update(piece=2 * ledger["arena"]["piece"]),
        lambda ledger: ledger["arena"].update(granularity=3 * ledger["arena"]["granularity"]),
        lambda ledger: ledger["beside"].update(before="0" * 64, after="0" * 64),
        lambda ledger: ledger["beside"].update(meanwhile=ledger["beside"]["before"]),
        lambda ledger: ledger["beside"].update(after="0" * 64),
        lambda ledger: ledger["lent"].update(experts=ledger["lent"]["experts"] - 1),
        lambda ledger: ledger["lent"].update(borrowed=(ledger["lent"]["mib"] << 20) - 1),
        lambda ledger: ledger["lent"].update(first=ledger["lent"]["first"] - 1),
        lambda ledger: ledger["reclaimed"].update(compared=ledger["reclaimed"]["compared"] - 1),
        lambda ledger: ledger["reclaimed"].update(mib=2),
    ],
)
def test_another_claim_is_refused(ledger: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
    changed = copy.deepcopy(ledger)
    change(changed)
    assert byte_ledger.check(changed)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda ledger: ledger.update(schema="strata-memory-ledger/0"), "schema: "),
        (lambda ledger: ledger.update(more=1), "the top: "),
        (lambda ledger: ledger["slots"][3].update(more=1), "slots/3: "),
        (lambda ledger: ledger.pop("sources"), "the top: 'sources' is a required property"),
        (lambda ledger: ledger.pop("geometry"), "the top: 'geometry' is a required property"),
        (lambda ledger: ledger["slots"][0].update(offset=-5), "slots/0/offset: "),
        (lambda ledger: ledger["slots"][0].update(row="x"), "slots/0/row: "),
        (lambda ledger: ledger["slots"][0].update(row=True), "slots/0/row: "),
        (lambda ledger: ledger.update(slots={}), "slots: "),
        (lambda ledger: ledger.update(slots=[]), "slots: "),
        (lambda ledger: ledger["slots"].insert(2, None), "slots/2: "),
        (lambda ledger: ledger.update(lent=None), "lent: "),
        (lambda ledger: ledger["lent"].update(mib="1"), "lent/mib: "),
        (lambda ledger: ledger["lent"].update(mib=0), "lent/mib: "),
        (lambda ledger: ledger["lent"].update(first=0), "lent/first: "),
        (lambda ledger: ledger["lent"].update(experts=0), "lent/experts: "),
        (lambda ledger: ledger["reclaimed"].update(compared=0), "reclaimed/compared: "),
        (lambda ledger: ledger["geometry"].update(experts="16"), "geometry/experts: "),
        (lambda ledger: ledger["geometry"].update(blobs="x"), "geometry/blobs: "),
        (lambda ledger: ledger["geometry"].update(blobs=[10**15] * 3), "geometry/blobs/"),
        (lambda ledger: ledger["slots"][0].update(before="A" * 64), "slots/0/before: "),
    ],
)
def test_what_is_no_ledger_is_one_line(
    ledger: dict[str, Any],
    change: Callable[[dict[str, Any]], None],
    where: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Status 2 and no more than a line, which says where."""
    changed = copy.deepcopy(ledger)
    change(changed)
    data = canonical.encode(changed)
    file = tmp_path / f"{canonical.name_of(data)}.json"
    file.write_bytes(data)
    assert main(["memory", "ledger", "--check", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: no ledger of schema strata-memory-ledger/2: at ")
    assert where in said
    assert said.count("\n") == 1
    assert len(said) < 300


def test_the_command_checks_the_name_too(
    ledger: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = byte_ledger.write(ledger, tmp_path)
    assert main(["memory", "ledger", "--check", str(file)]) == 0
    assert "every slot as before" in capsys.readouterr().out
    renamed = file.rename(tmp_path / "other.json")
    assert main(["memory", "ledger", "--check", str(renamed)]) == 1
    assert f"the file is named other, expected {file.stem}" in capsys.readouterr().out


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
    made = byte_ledger.make(world.cache, world.lending, 1, world.borrow, {"device": "a fake card"})
    assert any("after the loan: not the bytes of expert" in line for line in byte_ledger.check(made))


def leaves(value: Any, *way: str | int) -> Iterator[tuple[str | int, ...]]:
    """The ways to every number and text of a value."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], *way, key)
    else:
        yield way


def test_nothing_but_the_name_of_the_device_can_be_another(ledger: dict[str, Any]) -> None:
    """Each number one more and one less, each text another of its kind, one at a time: only what is attested passes."""
    first, passed = ledger["lent"]["first"], set()
    asked = {"sources": {min(ledger["sources"])}, "slots": {0, first - 1, first, len(ledger["slots"]) - 1}}
    for way in leaves(ledger):
        *above, last = way
        if way[0] in asked and way[1] not in asked[str(way[0])]:
            continue  # one of many of its kind
        changed = copy.deepcopy(ledger)
        place: Any = changed
        for key in above:
            place = place[key]
        old = place[last]
        for new in (old + 1, old - 1) if isinstance(old, int) else (byte_ledger.digest(old.encode()),):
            place[last] = new
            try:
                found = byte_ledger.check(changed)
            except LedgerError as error:
                found = [str(error)]
            if not found:
                passed.add(way)
    assert passed == {("provenance", "device")}
