"""Asks every control: what a run does before its first case, and `python -m validation controls`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from strata.executors.base import ExecutorUnavailable
from validation.controls import (
    between,
    changed_inputs,
    data,
    enclosures,
    even_bounds,
    experts,
    flags,
    floors,
    judgements,
    kernels,
    linear,
    local_bounds,
    memory,
    memory_loans,
    positions,
    router,
    runs,
    selection,
    values,
    watched_buffers,
)
from validation.core.control import Answer, Control, answer, failed

#: What makes the controls, by what they are about. Each must have some, or the proof fails.
GROUPS: Mapping[str, Callable[[], Iterator[Control]]] = {
    "comparator within": values.within,
    "comparator identical": values.identical,
    "comparator written": values.written,
    "comparator holds": values.holds,
    "comparators on odd sizes": values.odd,
    "combined verdicts": judgements.combining,
    "settled verdicts": judgements.settling,
    "gates": judgements.gating,
    "bounds of each element": local_bounds.local,
    "bounds of copies": even_bounds.even,
    "enclosures": enclosures.enclosing,
    "battery": judgements.probing,
    "witness": judgements.witnessing,
    "stored pools": judgements.pools,
    "data that breaks a promise": data.soft,
    "seeds": data.seeds,
    "healthy kernels": kernels.positive,
    "wrong kernels": kernels.negative,
    "healthy expert kernels": experts.positive,
    "wrong expert kernels": experts.negative,
    "healthy routers and sums": router.positive,
    "wrong routers and sums": router.negative,
    "healthy norms and elements": between.positive,
    "wrong norms and elements": between.negative,
    "healthy turns, embeddings and visible cells": positions.positive,
    "wrong turns, embeddings and visible cells": positions.negative,
    "healthy selections": selection.positive,
    "wrong selections": selection.negative,
    "healthy products": linear.positive,
    "wrong products": linear.negative,
    "loans of memory": memory_loans.loans,
    "inputs that are watched": watched_buffers.watching,
    "kernels that keep their inputs": changed_inputs.unchanging,
    "kernels that change their inputs": changed_inputs.changing,
    "flags of compilation": flags.compilation,
    "arithmetic of lent memory": memory.arithmetic,
    "whole runs": runs.run_level,
}


def ask(group: str, make: Callable[[], Iterator[Control]]) -> list[Answer]:
    """The answers of one group. A group that is empty, or cannot even be made, is a wrong answer.

    Raises ExecutorUnavailable where the machine lets nobody ask: no room for compiled kernels, say.
    """
    found: list[Answer] = []
    try:
        found.extend(answer(control) for control in make())
    except ExecutorUnavailable:
        raise
    except Exception as error:  # rows are made of the harness's own parts, which may be what is broken
        found.append(Answer(f"{group}/rows", f"{type(error).__name__}: {error}".splitlines()[0], "rows"))
    return found or [Answer(f"{group}/rows", "none", "rows")]


#: The group of controls that ask whether any of the others, of the plans or of the ledger, is gone.
FLOOR = "nothing has vanished"


def prove(groups: Mapping[str, Callable[[], Iterator[Control]]] = GROUPS) -> dict[str, list[Answer]]:
    """Every control's answer, by group; of all groups also whether one of them is gone."""
    answers = {group: ask(group, make) for group, make in groups.items()}
    if groups is GROUPS:
        made = {group: [one.name for one in own] for group, own in answers.items()}
        answers[FLOOR] = ask(FLOOR, lambda: floors.standing(made))
    return answers


def names() -> dict[str, list[str]]:
    """The names of all controls but those of the floor, by group."""
    return {group: [control.name for control in make()] for group, make in GROUPS.items()}


def flat(answers: Mapping[str, Sequence[Answer]]) -> list[Answer]:
    return [one for group in answers.values() for one in group]


def run(console: Console) -> int:
    """Print a table of the groups and a line for each wrong answer. Exit status: 0 when all are right, else 1."""
    answers = prove()
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading, justify in (("controls", "left"), ("asked", "right"), ("wrong", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for group, own in answers.items():
        table.add_row(group, str(len(own)), str(len(failed(own)) or ""))
    console.print(table)
    wrong = failed(flat(answers))
    for one in wrong:
        console.print(one.line(), markup=False, soft_wrap=True)
    count = len(flat(answers))
    console.print(f"{count - len(wrong)} of {count} controls are right.", style="red" if wrong else "green")
    return 1 if wrong else 0
