"""A whole run: what was planned, what its cases came to, and whether that makes it green."""

from __future__ import annotations

import platform
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from strata.executors.base import source_digests
from validation.core.control import Answer, failed
from validation.core.settings import Settings
from validation.core.verdict import Check, Verdict, combine
from validation.ledger import slack_statistics
from validation.ledger.ledger import Ledger
from validation.ledger.review import Asked, Review, review
from validation.numerics.rounding_hypotheses import Followed, followed
from validation.run import owner
from validation.run import plan as profiles
from validation.run.executors import ExecutorPool
from validation.run.run_file import SCHEMA, RunFile
from validation.run.runner import Job

PASSED, FAILED = 0, 1


@dataclass
class WholeRun:
    """One run as `run.json` records it, rewritten after each finished case. controls: what the harness answered
    when it was asked about itself; for_record: whether a record is made of it."""

    words: Sequence[str]
    jobs: Sequence[Job]
    executor_pool: ExecutorPool
    settings: Settings
    file: RunFile | None
    asked: Asked = field(default_factory=lambda: Asked(None, profiles.SEED, None))
    ledger: Ledger = field(default_factory=Ledger)
    controls: Sequence[Answer] = ()
    for_record: bool = False
    results: list[dict[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    review: Review | None = None

    @property
    def readings(self) -> Followed:
        """The readings of its tensor core that the card followed so far."""
        return followed(self.results)

    @property
    def verdict(self) -> Verdict:
        """VOID when a control failed or none was asked, NOT_RUN when other cases ended than were planned; else that
        of all cases, of which the worst decides."""
        if failed(self.controls):
            return Verdict.VOID
        checks = [Check(str(index), Verdict(result["verdict"])) for index, result in enumerate(self.results)]
        if len(checks) != len(self.jobs):  # and of no check at all nothing is made but NOT_RUN
            checks.append(Check("executed", Verdict.NOT_RUN))
        return combine(checks)

    @property
    def passed(self) -> bool:
        """Whether there were planned cases, every one was executed and passed, the controls were right, one reading
        explains all, and the ledger agreed."""
        return self.verdict.passes and self.readings.agree and self.review is not None and self.review.ok

    @property
    def status(self) -> int:
        """The exit status."""
        return PASSED if self.passed else FAILED

    def add(self, result: dict[str, Any]) -> None:
        self.results.append(result)
        self.record("running")

    def end(self, status: str) -> Review:
        """Hold what is finished against the ledger and write `run.json`; returns what the ledger said."""
        held: Sequence[dict[str, Any]] = self.results
        if self.for_record and self.asked.profile is not None:
            held = slack_statistics.of_profile(self.results, self.asked.profile, self.asked.seed)
        self.review = review(self.asked, held, self.ledger, str(self.file.path) if self.file else "")
        self.record(status)
        return self.review

    def record(self, status: str) -> None:
        """Write `run.json`. status: running, complete, interrupted or failed."""
        if self.file is None:
            return
        counts = {v.value: sum(result["verdict"] == v.value for result in self.results) for v in Verdict}
        unfinished = self.jobs[len(self.results) :]
        self.file.write(
            {
                "schema": SCHEMA,
                "status": status,
                "passed": self.passed,
                "verdict": self.verdict.value,
                "controls": len(self.controls),
                "failed": [answer.line() for answer in failed(self.controls)],
                "command": shlex.join(["python", "-m", "validation", *self.words]),
                "started": self.started,
                "process": owner.this(),
                "seconds": time.perf_counter() - self.began,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "machine": platform.machine(),
                "system": platform.system(),
                "executor": self.executor_pool.first.describe(),
                "sources": source_digests(),
                "predict": self.settings.predict,
                "plan": asdict(self.asked),
                "for_record": self.for_record,
                "readings": self.readings.record(),
                "planned": len(self.jobs),
                "executed": sum(result["verdict"] != Verdict.NOT_RUN.value for result in self.results),
                "verdicts": counts,
                "ledger": None if self.review is None else self.review.record(),
                "cases": self.results,
                "not_run": [{"case": job.case.text(), "path": job.path.name} for job in unfinished],
            }
        )
