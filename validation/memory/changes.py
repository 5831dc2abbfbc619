"""Many changes of phase on a card or the fake: head alias and prompt loans, with nothing lost and nothing moved.

    python -m validation.memory.changes --driver real --changes 100

For every change: the head's address, the bytes of all handles and the card's free memory are compared with those before
the first one; a graph captured then is refused while the head is lent, and reads the head's bytes afterwards; the whole
workspace is overwritten meanwhile; rows, slots and both tables are checked (I1 to I7, every byte) every tenth time and
at the end. Status 0: all as expected; 1: something was not; 2: it could not run. Times are medians, for information.
"""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from strata.arguments import whole
from strata.command import command
from strata.memory.arena.arena import open_arena
from strata.memory.arena.pieces import MiB
from strata.memory.cache.invariants import violations
from strata.memory.cache.opening import open_cache
from strata.memory.cache.pattern import patterned
from strata.memory.cache.slots import uniform_slots
from strata.memory.cache.source import total_bytes
from strata.memory.driver.fake import FakeCard, FakeDriver
from strata.memory.driver.graphs import BoundGraph, StaleGraph
from strata.memory.loan.head import Head, HeadAlias, HeadPhase
from strata.memory.loan.prompt_path import PromptPath
from strata.memory.loan.tail_loan import TailLoan
from strata.memory.loan.workspace_layout import Workspace
from validation.memory.loan_engine import REAL, SMALL, STATE, LoanEngine, Sizes, locked, profile

#: What is written over a workspace.
FOREIGN = 0x5A
#: Every so many changes everything is compared.
EVERY = 10


@dataclass
class Report:
    """problems: what was not as expected; times: seconds by the name of what was timed."""

    problems: list[str] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=dict)

    def expect(self, right: bool, line: str) -> None:
        if not right:
            self.problems.append(line)

    def timed(self, name: str, call: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = call()
        self.times.setdefault(name, []).append(time.perf_counter() - began)
        return result


def alias_changes(driver: Any, sizes: Sizes, changes: int, report: Report) -> None:
    """`changes` prompts through the head alias."""
    head = Head(open_arena(driver, sizes.head, sizes.piece), locked(driver, sizes.head, 1 << 20))
    source = patterned(sizes.geometry, driver.page_locked(total_bytes(sizes.geometry)))
    cache = open_cache(driver, source, uniform_slots(sizes.geometry, sizes.slots), profile(sizes), sizes.piece)
    alias = HeadAlias(head, TailLoan(cache), PromptPath(driver, sizes.shape, 32_768), keep=4)
    captured = driver.capture([(head.address, sizes.head)])
    graph = BoundGraph("window", captured, [head])

    def standing() -> tuple[int, int, int]:
        bytes_ = cache.arena.mapped_bytes + head.arena.mapped_bytes + alias.window.mapped_bytes
        return head.address, bytes_, driver.mem_info()[0]

    before = standing()
    for change in range(changes):
        workspace: Workspace = report.timed("alias enter", lambda: alias.enter(sizes.tokens))
        report.expect(alias.phase is HeadPhase.PROMPT, f"change {change}: {alias.note}")
        report.expect(standing() == before, f"change {change}: in PROMPT {standing()}, expected {before}")
        driver.fill(workspace.address, FOREIGN, workspace.nbytes)
        try:
            graph.launch()
            report.expect(False, f"change {change}: the graph was launched while the head was lent")
        except StaleGraph:
            pass
        report.timed("alias leave", alias.leave)
        report.expect(standing() == before, f"change {change}: in DECODE {standing()}, expected {before}")
        if change % EVERY == 0 or change == changes - 1:
            got = np.asarray(graph.launch())
            report.expect(
                np.array_equal(got, head.content), f"change {change}: the graph read other bytes than the head's"
            )
            report.problems += [f"change {change}: {line}" for line in violations(cache)]
    if hasattr(captured, "close"):
        captured.close()
    alias.close()
    cache.close()
    head.arena.close()


def loan_changes(driver: Any, sizes: Sizes, changes: int, report: Report) -> None:
    """`changes` prompts that take the loan."""
    engine = LoanEngine(driver, sizes)
    loan, resources, verifier = engine.loan, engine.resources, engine.verifier
    addresses = [resource.address for resource in resources]
    free = driver.mem_info()[0]
    for change in range(changes):
        workspace = report.timed("loan begin", lambda: loan.begin(engine.prompt))
        report.expect(not loan.note, f"loan {change}: {loan.note}")
        driver.fill(workspace.address, FOREIGN, workspace.nbytes)
        report.timed("loan end", loan.end)
        report.expect(verifier.state() == STATE, f"loan {change}: request state is {verifier.state()}")
        report.expect([one.address for one in resources] == addresses, f"loan {change}: a resource has moved")
        got = driver.mem_info()[0]
        report.expect(got == free, f"loan {change}: {got} bytes free, expected {free}")
        if change % EVERY == 0 or change == changes - 1:
            for resource in resources[:2]:
                same = driver.compare(resource.address, engine.contents[resource.name]).equal
                report.expect(same, f"loan {change}: {resource.name} has other bytes")
            report.problems += [f"loan {change}: {line}" for line in violations(engine.cache)]
    engine.close()


def run(driver: Any, sizes: Sizes, changes: int) -> Report:
    """Both kinds of changes, on one driver, which holds nothing afterwards."""
    report = Report()
    alias_changes(driver, sizes, changes, report)
    loan_changes(driver, sizes, changes, report)
    return report


@command("changes")
def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.memory.changes", description=__doc__.partition("\n")[0])
    parser.add_argument("--driver", choices=("fake", "real"), default="fake")
    parser.add_argument("--changes", type=whole(1), default=100)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.driver == "real":
        from strata.memory.driver.real import RealDriver

        report = run(RealDriver(), REAL, chosen.changes)
    else:
        report = run(FakeDriver(FakeCard(512 * MiB), 64 << 10), SMALL, chosen.changes)
    medians = {name: 1000 * median(seconds) for name, seconds in report.times.items()}
    if chosen.json:
        print(json.dumps({"changes": chosen.changes, "problems": report.problems, "median_ms": medians}, indent=1))
    else:
        print("\n".join(report.problems[:20]) or f"{chosen.changes} changes of each kind, all as expected")
        print("\n".join(f"{name}: median {ms:.1f} ms" for name, ms in medians.items()))
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
