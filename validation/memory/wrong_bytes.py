"""Every copy to the card that brings experts or resources back arrives with one wrong byte: it must never be silent.

Asked of the operations that compare every byte when they are asked to (`verify_all`): RECLAIM, and the ends of prompts.
The others compare a sample, as `docs/loans.md` says; there a wrong byte may stay unseen, so nothing is claimed of them.
The residency table is left out: it is small, and uploaded by one blocking call whose answer is trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from strata.executors.base import StrataError
from strata.memory.driver.errors import Fatal
from strata.memory.driver.fault_plan import Corrupt
from validation.memory.exhaustive import prepared
from validation.memory.operations import OPERATIONS, Operation
from validation.memory.world import KINDS

#: Operations in which every byte that comes back is compared.
COMPARED = ("RECLAIM", "restore", "leave prompt", "leave alias")
#: The byte that is changed (of a short copy, the remainder by its size), and how.
WRONG = Corrupt(1000, 0xFF)


class Wrong(NamedTuple):
    """copy: which of the operation's copies, from 1; outcome: fatal, refused, or right (it was seen and tried again);
    problems: what was wrong afterwards."""

    operation: str
    kind: str
    copy: int
    outcome: str
    problems: list[str]


def compared() -> list[Operation]:
    """The operations that are asked."""
    return [operation for operation in OPERATIONS if operation.name in COMPARED]


def copies(operation: Operation, kind: str) -> list[int]:
    """The numbers of the copies of an operation, counted among all calls of its act, but for uploads of the table."""
    world = prepared(operation, kind)
    done = len(world.driver.log)
    operation.act(world)
    table = world.cache.residency.address
    calls = world.driver.log[done:]
    return [number for number, call in enumerate(calls, 1) if call.name == "copy_in" and call.args[0] != table]


def examine(operation: Operation, kind: str) -> Iterator[Wrong]:
    """One trial for each copy."""
    for copy, number in enumerate(copies(operation, kind), 1):
        world = prepared(operation, kind)
        world.driver.plan.at(len(world.driver.log) + number, WRONG)
        outcome = "right"
        try:
            operation.act(world)
        except Fatal:
            outcome = "fatal"
        except StrataError:
            outcome = "refused"
        problems = world.problems()
        if not world.driver.plan.met:
            problems.append("no byte was changed")
        yield Wrong(operation.name, kind, copy, outcome, problems)


def everything() -> Iterator[Wrong]:
    """All operations with both kinds of slots."""
    for operation in compared():
        for kind in KINDS:
            yield from examine(operation, kind)
