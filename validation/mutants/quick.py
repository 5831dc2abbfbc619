"""Runs quick cases of the sources it is imported from, up to the first that does not pass.

A program of its own (`python -m validation.mutants.quick`): a mutant is judged by its own copy of the sources, in
a process that has imported nothing else. Answers with one line of JSON.
"""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import strata
import validation
from strata.arguments import whole
from strata.command import command
from strata.executors import NAMES
from strata.executors.base import BuildError, source_digests
from strata.kernels.paths import PATHS, Path, select
from validation.core.case import AnyCase
from validation.core.memo import Memo
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.ledger import ledger
from validation.ledger.ledger import Drift
from validation.ledger.review import Asked, review
from validation.operations import registry
from validation.run import plan as profiles
from validation.run.executors import ExecutorPool
from validation.run.prebuild import Prebuild, kernels_of
from validation.run.runner import Job, run_case


def jobs_of(paths: str, recipes: Sequence[str], seed: int, lanes: bool = True) -> list[Job]:
    """Jobs of the quick run, as it plans them, for paths of a pattern, but the cases for mutants where an operation
    has its own; those of `recipes` first, in that order."""
    chosen = select(paths)
    own = {path: cases for path in chosen if (cases := registry.of(path).mutant_cases(seed)) is not None}
    others = [path for path in chosen if path not in own]
    jobs = profiles.plan(others, profiles.entries(seed, "quick", others), lanes=lanes) if others else []
    jobs += [job for path, cases in own.items() for job in _alone(path, cases, lanes)]
    place = {name: index for index, name in enumerate(recipes)}
    return sorted(jobs, key=lambda job: place.get(job.case.recipe, len(place)))


def _alone(path: Path, cases: Sequence[AnyCase], lanes: bool) -> list[Job]:
    """Every case on a path without its baseline, in the checked build, every second under a permuted schedule."""
    bare = replace(path, baseline=None)
    return [Job(case, bare, "checked", at if lanes and at % 2 else None) for at, case in enumerate(cases)]


def first_red(jobs: Sequence[Job], executor_pool: ExecutorPool, seed: int = profiles.SEED) -> dict[str, Any]:
    """planned, executed, and of the first job that did not pass the path, case and checks that did not; when all
    pass, the family that left the ledger; or the log of a kernel that does not compile."""
    memo = Memo()
    results: list[dict[str, Any]] = []
    settings = Settings(predict="none" if executor_pool.lanes else "all", predictor=executor_pool.predictor)
    with Prebuild(jobs[:1], executor_pool) as built:
        for job in jobs:
            executors = built.wait(job, executor_pool.of(job, ()))
            try:
                for kernel in kernels_of(job):
                    executors.executor.build(kernel)
            except BuildError as error:
                return {"planned": len(jobs), "executed": len(results), "build": str(error)}
            own = replace(settings, repeat_executor=executors.repeat_executor, invocation=executors.invocation)
            result = run_case(job.case, job.path, executors.executor, own, memo)
            results.append(result)
            if not Verdict(result["verdict"]).passes:
                red = {name: result[name] for name in ("path", "case", "recipe", "verdict", "rerun")}
                failed = [check for check in result["checks"] if not Verdict(check["verdict"]).passes]
                # The check that gave the case its verdict first.
                failed.sort(key=lambda check: bool(check["verdict"] != result["verdict"]))
                said = [{name: check[name] for name in ("name", "verdict", "reason")} for check in failed]
                return {"planned": len(jobs), "executed": len(results), "red": red | {"checks": said}}
    moved = _moved(results, executor_pool, seed)
    return {"planned": len(jobs), "executed": len(results)} | ({"red": moved} if moved else {})


def _moved(results: Sequence[dict[str, Any]], executor_pool: ExecutorPool, seed: int) -> dict[str, Any] | None:
    """The family whose errors left the ledger furthest, in the form of a case that did not pass; None when none did.
    Operations whose every bit is predicted have no use for it."""
    kept = [result for result in results if not registry.of(PATHS[result["path"]]).every_bit]
    asked = Asked("quick", seed, ledger.rule_name(executor_pool.first))
    held = review(asked, kept, ledger.load())
    if held.ok:
        return None
    worst = max(held.drifts, key=Drift.size)
    path, recipe = worst.key
    check = {"name": "ledger", "verdict": Verdict.EXCEEDS.value, "reason": worst.text()}
    rerun = f"python -m validation parity --paths {path} --recipe {recipe}"
    case = {"path": path, "case": f"recipe={recipe}", "recipe": recipe, "rerun": rerun}
    return case | {"verdict": Verdict.EXCEEDS.value, "checks": [check]}


@command()
def main() -> int:
    """Answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paths", required=True)
    parser.add_argument("--recipes", nargs="*", default=[])
    parser.add_argument("--seed", type=whole(), default=profiles.SEED)
    parser.add_argument("--executor", choices=NAMES, default="lanes")
    options = parser.parse_args()
    executor_pool = ExecutorPool(options.executor)
    answer = first_red(
        jobs_of(options.paths, options.recipes, options.seed, executor_pool.lanes), executor_pool, options.seed
    )
    packages = [str(FilePath(str(module.__file__)).parent) for module in (strata, validation)]
    print(json.dumps(answer | {"packages": packages, "sources": source_digests()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
