"""Runs quick cases of the sources it is imported from, up to the first that does not pass.

A program of its own (`python -m validation.mutants.quick`): a mutant is judged by its own copy of the sources, in
a process that has imported nothing else. Answers with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import strata
from strata.executors.base import BuildError, source_digests
from strata.kernels.paths import select
from validation import profiles
from validation.attention_case import Memo
from validation.prebuild import Prebuild, kernels_of
from validation.runner import Job, run_case
from validation.settings import Settings
from validation.stations import Stations
from validation.verdict import Verdict


def jobs_of(paths: str, recipes: Sequence[str], seed: int) -> list[Job]:
    """Jobs of the quick run on lanes, as it plans them, for paths of a pattern; in the order of `recipes`, if any."""
    jobs = profiles.plan(select(paths), profiles.quick(seed), lanes=True)
    if not recipes:
        return jobs
    chosen = [job for job in jobs if job.case.recipe in recipes]
    return sorted(chosen, key=lambda job: recipes.index(job.case.recipe))


def first_red(jobs: Sequence[Job]) -> dict[str, Any]:
    """planned, executed, and of the first job that did not pass the path, case and check; or the log of a kernel
    that does not compile."""
    stations = Stations("lanes")
    memo = Memo()
    executed = 0
    with Prebuild(jobs, stations) as built:
        for job in jobs:
            station = built.wait(job, stations.of(job, ()))
            try:
                for kernel in kernels_of(job):
                    station.executor.build(kernel)
            except BuildError as error:
                return {"planned": len(jobs), "executed": executed, "build": str(error)}
            settings = replace(Settings(), twin=station.twin, invocation=station.invocation)
            result = run_case(job.case, job.path, station.executor, settings, memo)
            executed += 1
            if not Verdict(result["verdict"]).passes:
                red = {"path": result["path"], "case": result["case"], "verdict": result["verdict"]}
                failed = next((check for check in result["checks"] if check["verdict"] == result["verdict"]), None)
                said = {"check": failed["name"], "reason": failed["reason"]} if failed else {}
                return {"planned": len(jobs), "executed": executed, "red": red | said}
    return {"planned": len(jobs), "executed": executed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paths", required=True)
    parser.add_argument("--recipes", nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    answer = first_red(jobs_of(options.paths, options.recipes, options.seed))
    packages = [str(FilePath(str(module.__file__)).parent) for module in (strata, profiles)]
    print(json.dumps(answer | {"packages": packages, "sources": source_digests()}))


if __name__ == "__main__":
    main()
