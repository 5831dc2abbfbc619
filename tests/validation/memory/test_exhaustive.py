"""The exhaustive loop over its smallest operations, and that it sees code that handles a failure wrongly.

All operations with every code: `python -m validation memory faults`, in `.ci/run`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from strata.executors.base import StrataError
from strata.memory.arena import mapping
from strata.memory.arena.arena import Arena
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.verification import WrongBytes
from strata.memory.driver.driver import Code, Driver, DriverError
from strata.memory.driver.errors import Fatal
from strata.memory.driver.fake_calls import MAKERS
from strata.memory.driver.fault_plan import Meanwhile
from strata.memory.loan import lending
from validation.memory.exhaustive import CODES, Trial, attempt, calls, examine, plan, trials, unfaulted
from validation.memory.faults_command import FEW
from validation.memory.operations import OPERATIONS, Operation
from validation.memory.world import KINDS, World


def operation(name: str) -> Operation:
    return next(operation for operation in OPERATIONS if operation.name == name)


@pytest.mark.parametrize("name", ["LEND", "LEND again", "swap", "land", "enter alias"])
def test_every_failure_leads_to_its_outcome(name: str) -> None:
    findings = examine(operation(name), "sized", FEW)
    assert findings.problems == []
    assert findings.trials > 0


def test_every_operation_goes_well_without_a_fault() -> None:
    """Otherwise none of its failures is examined."""
    assert [(one.name, kind, wrong) for one, kind in plan() for wrong in unfaulted(one, kind)] == []


def test_what_is_planned() -> None:
    """Every operation with both kinds of slots; each call before and after its effect with each code, and in pairs."""
    assert len(plan()) == len(OPERATIONS) * len(KINDS)
    names = calls(operation("LEND"), "uniform")
    assert names[:3] == ["synchronize", "copy_in", "synchronize"]
    assert names.count("unmap") == names.count("release") >= 2
    planned = list(trials(operation("LEND"), "uniform", names))
    single = {(trial.call, trial.code, trial.after) for trial in planned if not trial.second}
    assert len(single) == len(names) * len(CODES) * 2
    assert {trial.call for trial in planned} == set(range(1, len(names) + 1))
    assert {trial.second - trial.call for trial in planned if trial.second} == {1, 2, 3}
    assert len(set(planned)) == len(planned)


@pytest.mark.parametrize("name", ["open", "RECLAIM"])
def test_what_makes_something_has_no_failure_after_its_effect(name: str) -> None:
    """It would be the same trial twice."""
    names = calls(operation(name), "sized")
    late = {names[trial.call - 1] for trial in trials(operation(name), "sized", names) if trial.after}
    assert "create" in names
    assert late == set(names) - MAKERS


def test_faults_that_came_about_are_counted() -> None:
    """Every first one; of the pairs those in which the operation went on after the first."""
    findings = examine(operation("LEND"), "sized", FEW)
    names = calls(operation("LEND"), "sized")
    assert findings.pairs == sum(6 if name not in MAKERS else 3 for name in names)
    assert 0 < findings.both < findings.pairs
    late = Trial("LEND", "sized", len(names) + 1, Code.UNKNOWN, False)
    _, problems, met = attempt(operation("LEND"), late, "release")
    assert (problems, met) == (["the fault did not come about"], 0)


def test_operations_lay_down_an_outcome_for_each_of_their_calls() -> None:
    """And for no call that they never make but those of a way back."""
    for one in OPERATIONS:
        names = set(calls(one, "uniform"))
        assert names <= set(one.expected), one.name


def no_undo(self: lending.Lending, loan: lending.Loan, error: DriverError) -> None:
    """A refused unmap is answered, and nothing is taken back."""


def leak(self: Arena, handle: int, size: int, again: bool = False) -> bool:
    """A handle whose release failed is forgotten."""
    try:
        self.driver.release(handle)
    except DriverError:
        return False
    return True


def keep_rows(self: ExpertCache, book: object, first: int, stop: int | None = None) -> int:
    """Nothing becomes a miss."""
    return len(self.residency.resident(first, stop))


def no_rollback(driver: Driver, va: int, size: int, handle: int) -> None:
    """A piece stays mapped although it cannot be accessed."""
    driver.map(va, size, handle)
    driver.set_access(va, size)


@pytest.mark.parametrize(
    ("name", "where", "what", "broken"),
    [
        ("LEND", lending.Lending, "_undo", no_undo),
        ("LEND", Arena, "_release", leak),
        ("LEND", ExpertCache, "take", keep_rows),
        ("RECLAIM", mapping, "map_piece", no_rollback),
    ],
)
def test_wrong_handling_is_seen(
    name: str, where: object, what: str, broken: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    if where is mapping:
        monkeypatch.setattr("strata.memory.arena.arena.map_piece", broken)
    else:
        monkeypatch.setattr(where, what, broken)
    try:
        findings = examine(operation(name), "uniform", (Code.UNKNOWN,))
    except Fatal:
        return  # the healthy run fails already
    assert findings.problems


def test_an_outcome_that_is_not_laid_down_is_a_problem() -> None:
    one = operation("LEND")
    changed = Operation(one.name, one.prepare, one.act, one.back, {**one.expected, "release": "fatal"})
    findings = examine(changed, "uniform", (Code.UNKNOWN,))
    assert any("done, expected fatal" in line for line in findings.problems)
    fewer = Operation(one.name, one.prepare, one.act, one.back, {"unmap": "refused"})
    assert any("no outcome" in line for line in examine(fewer, "uniform", (Code.UNKNOWN,)).problems)


def test_a_killed_process_leaves_the_card_to_the_next_one() -> None:
    """Killed before, in the middle of and after each driver call of LEND and RECLAIM."""
    counted = World()
    counted.open()
    done = len(counted.driver.log)
    counted.lending.lend(1)
    counted.lending.reclaim()
    for call in range(1, len(counted.driver.log) - done + 1):
        world = World()
        world.open()
        world.driver.plan.at(done + call, Meanwhile(world.driver.kill))
        with suppress(StrataError):
            world.lending.lend(1)
            world.lending.reclaim()
        assert world.driver.lost
        assert world.killed() == []


def test_the_next_process_opens_on_the_card_as_it_was_left() -> None:
    """A card that is not as new is opened itself, though a process on a new one went well before."""
    world = World()
    world.open()
    assert world.killed() == []
    world = World()
    world.open()
    world.card._freed += [1000, 1000]
    with pytest.raises(WrongBytes):
        world.killed()
