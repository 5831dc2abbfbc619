"""Computes the shown rows of all cases again, the modes of a record beside one another."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rich.console import Console

from strata.cpus import usable
from validation.core.recordable import Predictor
from validation.record.rules.rows import Recomputed, Refusal
from validation.record.rules.subject import SHOWN, Subject
from validation.run.progress import Reporter


@dataclass(frozen=True)
class Total:
    """What the rows of a record come to.

    Parameters
    ----------
    refusals
        What is broken.
    rows
        Rows that were shown and computed.
    bounded
        Those held against FP64.
    enclosed
        Outputs held against their true value.
    followed
        Readings that give the bits of every row, None where no bits were predicted.
    """

    refusals: tuple[Refusal, ...]
    rows: int
    bounded: int
    enclosed: int
    followed: frozenset[str] | None


def recompute(subject: Subject, predictor: Predictor | None, console: Console, every: bool = False) -> Total:
    """Compute the rows of a record again.

    Cases of a mode stay in their order and in one thread, so that tiers share inputs and reference, and no two threads
    run one kernel. It stops early once there is enough to refuse.

    Parameters
    ----------
    subject
        The record.
    predictor
        What predicts bits; None leaves them out.
    console
        Where progress is shown.
    every
        Whether all rows are predicted, not those alone that are shown.

    Raises
    ------
    CannotCheckError
        When the verifier is at fault, or lacks something, which says nothing of the record.
    ExecutorUnavailable, BuildError
        When kernels cannot be compiled or run here.
    """
    modes: dict[str, list[int]] = {}
    for index, (path, _) in enumerate(subject.pairs):
        modes.setdefault(path.mode, []).append(index)
    stop, lock = threading.Event(), threading.Lock()

    def work(indices: list[int]) -> tuple[Recomputed, dict[int, list[Refusal]]]:
        rows, found = Recomputed(subject, predictor, every), {}
        for index in indices:
            if stop.is_set():
                break
            found[index] = rows.case(index)
            if len(rows.refusals) >= SHOWN:  # what the other rows look like is not worth the time
                stop.set()
            with lock:
                path, case = subject.pairs[index]
                reporter.finished(f"{path.name} {case.recipe}", "")
        return rows, found

    with Reporter(console, len(subject.pairs)) as reporter, ThreadPoolExecutor(usable()) as workers:
        try:
            parts = list(workers.map(work, modes.values()))
        finally:
            stop.set()  # an interrupt, or one that cannot go on, ends the others
    refusals = [
        refusal for _, found in sorted(item for _, found in parts for item in found.items()) for refusal in found
    ]
    followed = [part.followed for part, _ in parts if part.followed is not None]
    common = frozenset(set.intersection(*followed)) if followed else None
    if not refusals and followed and not common:
        refusals = [Refusal("bits", "no one reading of the card gives the bits of all its modes")]
    rows, bounded, enclosed = (sum(getattr(p, name) for p, _ in parts) for name in ("rows", "bounded", "enclosed"))
    return Total(tuple(refusals), rows, bounded, enclosed, common)
