"""The cases of every profile and of records, in their order, are those of a list that was written down: texts of cases,
builds and schedules stand in ledgers, in records and in what people quote.

`plans.txt` has a line for each list: what plans it (`plan` on lanes, or `record`), profile, edition, path, cases, and
the beginning of the SHA-256 of its lines.
"""

from __future__ import annotations

import hashlib
from pathlib import Path as FilePath

import pytest

from strata.kernels.paths import PATHS
from validation.run import plan
from validation.run.runner import Job

LISTED = FilePath(__file__).with_name("plans.txt").read_text().splitlines()
LISTS = sorted({tuple(line.split()[:3]) for line in LISTED})


def line_of(job: Job, what: str) -> str:
    return f"{job.flavor} {job.schedule} {job.case.text()}" if what == "plan" else job.case.text()


def planned(what: str, profile: str, edition: int) -> list[Job]:
    paths = list(PATHS.values())
    if what == "record":
        return plan.record_plan(paths, profile, plan.SEED, edition=edition)
    return plan.plan(paths, plan.entries(plan.SEED, profile, paths, edition), lanes=True)


@pytest.mark.parametrize(("what", "profile", "edition"), LISTS)
def test_a_profile_plans_what_it_planned(what: str, profile: str, edition: str) -> None:
    lines: dict[str, list[str]] = {}
    for job in planned(what, profile, int(edition)):
        lines.setdefault(job.path.name, []).append(line_of(job, what))
    head = f"{what} {profile} {edition}"
    digests = {name: hashlib.sha256("\n".join(own).encode()).hexdigest()[:16] for name, own in lines.items()}
    got = [f"{head} {name} {len(own)} {digests[name]}" for name, own in lines.items()]
    assert got == [line for line in LISTED if line.startswith(f"{head} ")]
