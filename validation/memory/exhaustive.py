"""Every driver call of every operation fails, before and after its effect, with each code; nothing may come of it but
what the table of outcomes says.

An operation is run once to count its calls, then again for each fault. A call that makes something (a handle, a range,
a stream) keeps nothing when it fails, so for those there is no failure after the effect. The second of two faults may
come too late, when the operation has ended with the first: how many came about is counted.

Afterwards the faults are off, and it is asked: do the invariants hold, was a rule of the driver broken, is a handle
nobody's? Was it refused or done: does everything come home, byte for byte, does LEND and RECLAIM work, is the card
empty after closing? Was it fatal: does nothing go on, is the card empty after the process, does the next process open?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from strata.executors.base import StrataError
from strata.memory.driver.driver import STICKY, Code
from strata.memory.driver.errors import Fatal
from strata.memory.driver.fake_calls import MAKERS
from strata.memory.driver.fault_plan import Fail
from validation.memory.operations import DONE, FATAL, OPERATIONS, REFUSED, Operation
from validation.memory.world import KINDS, World, missing

CODES = (
    Code.INVALID_VALUE,
    Code.OUT_OF_MEMORY,
    Code.NOT_INITIALIZED,
    Code.ECC_UNCORRECTABLE,
    Code.ILLEGAL_ADDRESS,
    Code.LAUNCH_FAILED,
    Code.NOT_PERMITTED,
    Code.NOT_SUPPORTED,
    Code.STREAM_CAPTURE_UNSUPPORTED,
    Code.UNKNOWN,
)
#: How far behind a fault a second one may come: a rollback begins with the next call.
SECOND_WITHIN = 3


class Trial(NamedTuple):
    """call: the one that fails, counted from 1 in the act; second: another one that does, 0 for none."""

    operation: str
    kind: str
    call: int
    code: int
    after: bool
    second: int = 0

    def __str__(self) -> str:
        more = f" and {self.second}" if self.second else ""
        return (
            f"{self.operation} ({self.kind}), call {self.call}{more}: {Code(self.code).name} "
            f"{'after' if self.after else 'before'} its effect"
        )


@dataclass
class Findings:
    """What came of trials. outcomes: how often each (operation, call, outcome); problems: a line each; pairs: trials of
    two faults, both: those of them in which the second came about, too."""

    trials: int = 0
    pairs: int = 0
    both: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    outcomes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        """Take in what another process found."""
        self.trials += other.trials
        self.pairs += other.pairs
        self.both += other.both
        self.calls |= other.calls
        self.outcomes += other.outcomes
        self.problems += other.problems


def calls(operation: Operation, kind: str) -> list[str]:
    """The labels of the driver calls that an operation makes when none fails. Raises StrataError when it fails so."""
    world = prepared(operation, kind)
    done = len(world.driver.log)
    operation.act(world)
    return [operation.label(world, call) for call in world.driver.log[done:]]


def trials(operation: Operation, kind: str, names: Sequence[str], codes: Sequence[int] = CODES) -> Iterator[Trial]:
    """Every single fault, and every pair of faults that are at most SECOND_WITHIN calls apart (with one code).

    names: of the calls that the operation makes.
    """
    for call, name in enumerate(names, 1):
        moments = (False,) if name in MAKERS else (False, True)
        for code in codes:
            for after in moments:
                yield Trial(operation.name, kind, call, code, after)
        for apart in range(1, SECOND_WITHIN + 1):
            for after in moments:
                yield Trial(operation.name, kind, call, Code.UNKNOWN, after, call + apart)


def examine(operation: Operation, kind: str, codes: Sequence[int] = CODES) -> Findings:
    """All trials of an operation; none, with what is wrong, when it does not even go well without a fault."""
    wrong = unfaulted(operation, kind)
    if wrong:
        return Findings(problems=[f"{operation.name} ({kind}), without a fault: {line}" for line in wrong])
    names = calls(operation, kind)
    findings = Findings(calls={f"{operation.name} ({kind})": len(names)})
    for trial in trials(operation, kind, names, codes):
        name = names[trial.call - 1]
        outcome, problems, met = attempt(operation, trial, name)
        findings.trials += 1
        findings.pairs += bool(trial.second)
        findings.both += met == 2
        findings.outcomes[operation.name, name, outcome] += 1
        findings.problems += [f"{trial} ({name}): {line}" for line in problems]
    return findings


def unfaulted(operation: Operation, kind: str) -> list[str]:
    """What is wrong after the operation, and its way back, although no call fails."""
    world = prepared(operation, kind)
    try:
        operation.act(world)
        return world.problems() or _afterwards(operation, world, DONE)
    except Exception as error:  # the operation's own code fell over, or what it says of itself is not so
        return [f"{type(error).__name__}: {error}"]


def attempt(operation: Operation, trial: Trial, name: str) -> tuple[str, list[str], int]:
    """The outcome of a trial, what is wrong, and how many faults came about. name: of the call that fails."""
    world = prepared(operation, trial.kind)
    done = len(world.driver.log)
    world.driver.plan.at(done + trial.call, Fail(trial.code, trial.after))
    if trial.second:
        world.driver.plan.at(done + trial.second, Fail(trial.code, trial.after))
    found: list[str] = []
    outcome, said = DONE, ""
    try:
        operation.act(world)
    except Fatal as error:
        outcome, said = FATAL, str(error)
    except StrataError as error:
        outcome, said = REFUSED, str(error)
    except Exception as error:  # the operation's own code fell over
        return "fell over", [f"{type(error).__name__}: {error}"], world.driver.plan.met
    met = world.driver.plan.met
    world.driver.plan.clear()
    if not met:
        found.append("the fault did not come about")
    if operation.opens and outcome == FATAL and not trial.second:
        outcome = REFUSED  # nothing had begun
    found += _expected(operation, trial, name, outcome, said)
    try:
        if not (operation.opens and outcome == FATAL):
            found += world.problems()
        if not found:
            found += _afterwards(operation, world, outcome)
    except StrataError as error:
        found.append(f"{outcome}, and then: {error}")
    return outcome, found, met


def _expected(operation: Operation, trial: Trial, name: str, outcome: str, said: str) -> list[str]:
    """A second fault may make any outcome worse, but never turn it into success."""
    wanted = operation.expected.get(name)
    if wanted is None:
        return [f"no outcome is laid down for it; it was {outcome}"]
    if trial.code in STICKY:
        wanted = REFUSED if operation.opens else FATAL
    rank = (DONE, REFUSED, FATAL)
    if outcome == wanted or (trial.second and rank.index(outcome) >= rank.index(wanted)):
        return []
    return [f"{outcome}, expected {wanted} {said and f'({said})'}"]


def _afterwards(operation: Operation, world: World, outcome: str) -> list[str]:
    if outcome == FATAL or world.driver.lost:
        return (world.ended() if operation.remembered else []) + world.killed()
    operation.back(world)
    found = world.problems() + missing(world, world.home) + world.at_home()
    world.lending.lend(1)
    world.lending.reclaim()
    found += world.problems() + missing(world, world.home) + world.at_home()
    world.cache.begin_window()
    return found + world.close()


def prepared(operation: Operation, kind: str) -> World:
    """A world in which the operation can be done."""
    world = operation.make(kind)
    if not operation.opens:
        world.open()
    operation.prepare(world)
    return world


def plan() -> list[tuple[Operation, str]]:
    """What is examined: every operation with every kind of slots."""
    return [(operation, kind) for operation in OPERATIONS for kind in KINDS]
