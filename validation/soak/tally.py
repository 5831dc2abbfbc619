"""What the runs of a soak come to: verdicts, alarms, and how near each check came to one."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from validation.core.verdict import Verdict


@dataclass(frozen=True)
class Finished:
    """One run, as it is counted. slack: by check; parts: seconds by part of the case."""

    index: int
    path: str
    case: str
    verdict: str
    explain: str
    slack: dict[str, float]
    parts: dict[str, float]

    @property
    def passes(self) -> bool:
        return Verdict(self.verdict).passes


@dataclass
class Tally:
    """What the finished runs come to, in their order."""

    runs: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    recipes: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    alarms: list[Finished] = field(default_factory=list)
    worst: dict[str, tuple[float, Finished]] = field(default_factory=dict)

    def add(self, run: Finished) -> None:
        self.runs += 1
        self.verdicts[run.verdict] += 1
        self.paths[run.path] += 1
        self.recipes[run.case.partition(" ")[0].removeprefix("recipe=")] += 1
        self.seconds.update(run.parts)
        if not run.passes:
            self.alarms.append(run)
        for name, slack in run.slack.items():
            size = math.inf if math.isnan(slack) else slack
            if name not in self.worst or size > self.worst[name][0]:
                self.worst[name] = (size, run)

    def record(self) -> dict[str, Any]:
        worst = {
            name: {"slack": slack, "path": run.path, "case": run.case} for name, (slack, run) in self.worst.items()
        }
        return {
            "finished": self.runs,
            "verdicts": dict(sorted(self.verdicts.items())),
            "alarms": [
                {"index": run.index, "path": run.path, "case": run.case, "explain": run.explain} for run in self.alarms
            ],
            "worst": dict(sorted(worst.items())),
            "paths": dict(sorted(self.paths.items())),
            "recipes": dict(sorted(self.recipes.items())),
            "seconds_by_part": dict(sorted(self.seconds.items())),
        }


def report(console: Console, tally: Tally, seconds: float) -> None:
    """The worst figure of each check, and the counts."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("check")
    table.add_column("worst observed/bound", justify="right")
    table.add_column("where", overflow="fold")
    for name, (slack, found) in sorted(tally.worst.items()):
        table.add_row(name, f"{slack:.3g}", f"{found.path} {found.case}")
    console.print(table)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(tally.verdicts.items())) or "none"
    rate = tally.runs / seconds if seconds > 0 else 0.0
    said = f"{tally.runs} runs ({counts}), {len(tally.alarms)} false alarms, {rate:.1f} runs a second"
    console.print(said, style="bold red" if tally.alarms else None)
