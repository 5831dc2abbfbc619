"""A run held against the slack ledger: which families it can be asked about, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from validation.ledger import ledger, slack_statistics
from validation.ledger.ledger import FACTOR, KEPT, Drift, Ledger
from validation.ledger.slack_statistics import Key
from validation.run import plan as profiles

#: Families printed of those that moved; every figure is in `run.json`.
SHOWN = 10


@dataclass(frozen=True)
class Asked:
    """What decides whether a run can be compared. profile: None for sizes or a case of the command line; rule: None
    where the executor's is not known."""

    profile: str | None
    seed: int
    rule: str | None


@dataclass(frozen=True)
class Review:
    """compared: families held against the ledger; partial: families of which cases are missing; beside: families
    that the profile does not have; drifts: what differs; reason: why nothing was compared, or empty; median:
    of observed/bound over the run's cases, None without any."""

    compared: int = 0
    partial: int = 0
    beside: int = 0
    drifts: Sequence[Drift] = ()
    reason: str = ""
    median: float | None = None
    accept: str = field(default="", compare=False)

    @property
    def ok(self) -> bool:
        return not self.drifts

    def line(self) -> str:
        """The summary: the median, and the ledger's verdict."""
        said = "" if self.median is None else f"median observed/bound {self.median:.3g}; "
        if self.reason:
            return f"{said}ledger: not compared, {self.reason}"
        left = [
            f"{count} {what}"
            for count, what in ((self.partial, "not whole"), (self.beside, "not of the profile"))
            if count
        ]
        moved = len({drift.key for drift in self.drifts})
        verdict = f"{moved} of {self.compared} families moved" if moved else f"{self.compared} families unmoved"
        return f"{said}ledger: {verdict} (factor {FACTOR})" + (f", left out: {', '.join(left)}" if left else "")

    def lines(self) -> list[str]:
        """One line for each family that moved, up to SHOWN, with its figure that moved furthest and what accepts it."""
        by_family: dict[Key, list[Drift]] = {}
        for drift in self.drifts:
            by_family.setdefault(drift.key, []).append(drift)
        shown = []
        for own in list(by_family.values())[:SHOWN]:
            others = f"; {len(own) - 1} more of its figures moved" if len(own) > 1 else ""
            shown.append(f"{max(own, key=Drift.size).text()}{others} | accept: {self.accept}")
        more = len(by_family) - len(shown)
        return shown + ([f"ledger: {more} families more"] if more > 0 else [])

    def record(self) -> dict[str, Any]:
        """What `run.json` says of it."""
        return {
            "ok": self.ok,
            "factor": FACTOR,
            "families": self.compared,
            "partial": self.partial,
            "beside": self.beside,
            "not_compared": self.reason,
            "median_slack": self.median,
            "drifts": [
                {"path": d.key[0], "recipe": d.key[1], "figure": d.figure, "now": d.now, "ledger": d.then}
                for d in self.drifts
            ],
        }


def incomparable(asked: Asked, held: Ledger) -> str:
    """Why the ledger says nothing about a run, or empty."""
    if asked.profile is None:
        return "its cases are not those of a profile"
    if asked.profile not in KEPT:
        return f"the ledger keeps the profiles {' and '.join(KEPT)}"
    if asked.seed != profiles.SEED:
        return f"the ledger is of seed {profiles.SEED}"
    if asked.rule is None:
        return "no tensor-core rule is known of this device"
    if asked.rule not in held.rules:
        return f"the ledger has nothing under rule {asked.rule}"
    return ""


def review(asked: Asked, results: Sequence[Mapping[str, Any]], held: Ledger, run_file: str = "") -> Review:
    """Hold finished cases against the ledger. run_file: where `run.json` is, for the command that accepts it.

    A family is asked about when all the cases that its profile plans for it were run. It must then be in the
    ledger, with the same cases, every figure of either side within FACTOR of the other's. A family of a path that was
    run is missed when the ledger has it and the profile plans it no more.
    """
    median = slack_statistics.median_slack(results)
    reason = incomparable(asked, held)
    if reason:
        return Review(reason=reason, median=median)
    assert asked.profile is not None
    assert asked.rule is not None
    plan = slack_statistics.planned(asked.profile, asked.seed)
    section = held.sections.get((asked.rule, asked.profile), {})
    whole: dict[Key, slack_statistics.Family] = {}
    found = slack_statistics.of_results(results)
    ran = {(result["path"], result["recipe"]) for result in results}
    for key, family in found.items():
        if family.digest == plan.get(key):
            whole[key] = family
    beside = len(ran - set(plan))
    drifts = [drift for key, family in whole.items() for drift in ledger.compare(key, family, section.get(key))]
    paths = {path for path, _ in ran}
    drifts += [Drift(key, "", None, None, gone=True) for key in section if key[0] in paths and key not in plan]
    where = run_file or "DIR/run.json (run it with --out DIR)"
    accept = f"python -m validation ledger --accept {where} --reason TEXT"
    return Review(len(whole), len(ran) - beside - len(whole), beside, drifts, "", median, accept)
