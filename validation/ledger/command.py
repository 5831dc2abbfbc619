"""The slack ledger: what it holds, and taking over the figures of a run, with a reason."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path as FilePath
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from strata.arguments import file
from strata.executors.base import StrataError, source_digests
from validation.core.verdict import Verdict
from validation.host import json_file
from validation.host.checkout import need_checkout
from validation.ledger import floor, slack_statistics
from validation.ledger import ledger as ledgers
from validation.ledger.ledger import KEPT, Ledger
from validation.ledger.slack_statistics import Family, Key
from validation.run import plan as profiles
from validation.run.run_file import SCHEMA

#: Columns: heading, figure of a family, and what a row of several families shows of it.
_COLUMNS = (
    ("bound, median", "bound median", median),
    ("bound, largest", "bound max", max),
    ("bound, rms", "bound rms", median),
    ("agreement", "agreement max", max),
    ("baseline", "baseline bound max", max),
    ("rotation", "rotation to FP64 max", max),
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `python -m validation ledger`."""
    command.add_argument("--families", action="store_true", help="a row for each family, not for each path")
    command.add_argument("--accept", type=file, metavar="RUN.json", help="take over the figures of a run")
    command.add_argument("--reason", metavar="TEXT", help="why they moved, kept with them")


def run(options: argparse.Namespace, console: Console) -> int:
    """Print the ledger, or accept a run into it. Exit status: 0, 1 when families are missing from it or from what the
    profiles plan. Raises StrataError when it refuses."""
    if options.accept is None and options.reason is not None:
        raise StrataError("--reason is the reason of an acceptance, expected with --accept RUN.json")
    if options.accept is not None:
        need_checkout("ledger --accept")
        reason = (options.reason or "").strip()
        if not reason:
            raise StrataError("--reason is empty, expected why the figures moved")
        held = ledgers.load()
        new, entry = accept(held, read_run(options.accept), reason, datetime.now(UTC).date().isoformat())
        ledgers.save(new)
        said = (
            f"{entry['added']} added, {entry['changed']} changed, {entry['removed']} removed, {entry['same']} the same"
        )
        console.print(f"{ledgers.FILE}: families {said}", markup=False, soft_wrap=True)
        return 0
    held = ledgers.load()
    _print(held, console, options.families)
    gone = [*lacking(held)]
    for line in gone:
        console.print(line, markup=False, style="red", soft_wrap=True)
    return 1 if gone else 0


def lacking(held: Ledger) -> Iterator[str]:
    """What is missing: families that a profile plans and its section lacks, families that are planned no more, and
    what the floor has besides. A line each."""
    for (rule, profile), section in sorted(held.sections.items()):
        plan = slack_statistics.planned(profile, profiles.SEED)
        for (path, recipe), family in sorted(section.items()):
            if (path, recipe) not in plan:
                yield f"ledger: {path} {recipe}: profile {profile} plans it no more"
            elif family.digest != plan[path, recipe]:
                yield f"ledger: {path} {recipe}: profile {profile} plans other cases"
        for path, recipe in sorted(set(plan) - set(section)):
            yield f"ledger: {path} {recipe}: planned by profile {profile}, and rule {rule} has no figures of it"
    for line in floor.missing(floor.load().sections.get("ledger", {}), floor.of_ledger(held)):
        yield f"ledger: missing that was there: {line} ({floor.UPDATE} --reason TEXT lowers the floor)"


def read_run(file: FilePath) -> dict[str, Any]:
    """A `run.json`. Raises StrataError when it is not one."""
    held = json_file.read(file, "the run")
    if not isinstance(held, dict) or held.get("schema") != SCHEMA:
        raise StrataError(f"{str(file)!r} is not a run of parity, expected schema {SCHEMA!r}")
    return held


def accept(held: Ledger, run: Mapping[str, Any], reason: str, date: str) -> tuple[Ledger, dict[str, Any]]:
    """The ledger with the families of a run in place of its own, and the line of its history.

    Families that the profile no longer has go. Raises StrataError for a run that did not pass, did not end, is not
    of the ledger's seed and profiles, or ran only a part of a family.
    """
    try:
        profile, seed, rule = (run["plan"][name] for name in ("profile", "seed", "rule"))
        cases = run["cases"]
        verdicts = [Verdict(case["verdict"]) for case in cases]
        ended, planned, unfinished = run["status"], run["planned"], run["not_run"]
    except (KeyError, TypeError, ValueError) as error:
        raise StrataError(f"the run is no complete run.json: {type(error).__name__}: {error}") from error
    if ended != "complete" or unfinished or len(cases) != planned or not cases:
        raise StrataError(f"the run is {ended}, {len(cases)} of {planned} cases; expected a complete one")
    if run.get("sources") != source_digests():
        raise StrataError("the run is of other kernel sources than this checkout's, and says nothing of these")
    readings = run.get("readings")
    if not run.get("controls") or run.get("failed") or not (isinstance(readings, dict) and readings.get("agree")):
        raise StrataError("the run's own controls failed or were not asked, or its cases follow two readings")
    failed = sum(not verdict.passes for verdict in verdicts)
    if failed:
        raise StrataError(f"{failed} cases of the run did not pass, expected none: figures of a fault are not accepted")
    if profile not in KEPT or seed != profiles.SEED or not rule:
        raise StrataError(
            f"the run is of profile {profile}, seed {seed}, rule {rule}; expected profile {' or '.join(KEPT)}, "
            f"seed {profiles.SEED} and a known rule"
        )
    plan = slack_statistics.planned(profile, seed)
    results = slack_statistics.of_profile(cases, profile, seed) if run.get("for_record") is True else cases
    new = {key: ledgers.rounded(family) for key, family in slack_statistics.of_results(results).items() if key in plan}
    partial = [key for key, family in new.items() if family.digest != plan[key]]
    if partial or not new:
        first = " ".join(partial[0]) if partial else "any family"
        raise StrataError(f"the run does not have all cases of {first} and no others, expected whole families")
    broken = [(key, name) for key, family in new.items() for name, x in family.figures.items() if ledgers.drifted(x, x)]
    if broken:
        raise StrataError(f"{broken[0][1]} of {' '.join(broken[0][0])} is not a finite number")
    old = held.sections.get((rule, profile), {})
    kept = {key: family for key, family in old.items() if key in plan}
    entry = {"date": date, "reason": reason, "rule": rule, "profile": profile, **_changes(old, new, plan)}
    sections = {**held.sections, (rule, profile): {**kept, **new}}
    return Ledger(sections, [*held.history, entry]), entry


def _changes(old: Mapping[Key, Family], new: Mapping[Key, Family], plan: Mapping[Key, str]) -> dict[str, Any]:
    """What an acceptance did: counts, the families changed, and the figures that moved furthest up and down."""
    changed = [key for key in new if key in old and new[key] != old[key]]
    moves = [
        (now / then, {"family": " ".join(key), "figure": name, "old": then, "new": now})
        for key in changed
        for name, now in new[key].figures.items()
        if (then := old[key].figures.get(name, 0.0)) > 0
    ]
    out: dict[str, Any] = {
        "added": sum(key not in old for key in new),
        "changed": len(changed),
        "removed": sum(key not in plan for key in old),
        "same": sum(new[key] == old[key] for key in new if key in old),
        "families": [" ".join(key) for key in changed],
    }
    if moves:
        out["up"] = max(moves, key=lambda move: move[0])[1]
        out["down"] = min(moves, key=lambda move: move[0])[1]
    return out


def _print(held: Ledger, console: Console, each: bool) -> None:
    for (rule, profile), section in sorted(held.sections.items()):
        table = Table(box=SIMPLE_HEAD, pad_edge=False, title=f"profile {profile}, rule {rule}", title_justify="left")
        table.add_column("family" if each else "path", no_wrap=True)
        for heading in ("cases", *(heading for heading, _, _ in _COLUMNS)):
            table.add_column(heading, justify="right")
        rows: dict[str, list[Family]] = {}
        for (path, recipe), family in sorted(section.items()):
            rows.setdefault(f"{path} {recipe}" if each else path, []).append(family)
        for name, own in rows.items():
            table.add_row(name, str(sum(family.cases for family in own)), *_row(own))
        console.print(table)
        slack = [family.figures["bound median"] for family in section.values() if "bound median" in family.figures]
        if slack:
            said = f"median observed/bound over {len(slack)} families: {median(slack):.3g}"
            console.print(said, markup=False)
    if not held.sections:
        console.print("the ledger is empty")
    for entry in held.history[-1:]:
        console.print(f"accepted last: {entry.get('date')}, {entry.get('reason')}", markup=False, soft_wrap=True)


def _row(own: list[Family]) -> list[str]:
    cells = []
    for _, name, of in _COLUMNS:
        found = [family.figures[name] for family in own if name in family.figures]
        cells.append(f"{of(found):.2g}" if found else "")
    return cells
