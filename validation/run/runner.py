"""Runs planned cases and keeps what they came to.

Running a case is a pure function of (case, path, executor) and of the settings that add checks to
it; nothing a case does depends on the cases before it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from strata.executors.base import Executor, ExecutorUnavailable, StrataError
from strata.kernels.paths import Path
from strata.unforeseen import unforeseen
from validation.core.case import AnyCase
from validation.core.findings import Findings
from validation.core.handed import InputsChangedError
from validation.core.memo import Memo
from validation.core.operation import Operation, Trial
from validation.core.settings import Settings
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Check, Verdict, combine
from validation.operations import registry
from validation.run import far
from validation.run.run_file import plain


@dataclass(frozen=True)
class Job:
    """One planned case: what, on which path, and for lanes in which build and schedule."""

    case: AnyCase
    path: Path
    flavor: str = "fast"
    schedule: int | None = None


@dataclass(frozen=True)
class Executors:
    """Where a job runs.

    Parameters
    ----------
    executor
        Of the run that is judged.
    repeat_executor
        The same under another schedule, for the repeat, or None.
    invocation
        The command that chooses the same executor again, up to `--paths`.
    """

    executor: Executor
    repeat_executor: Executor | None
    invocation: str


def rerun_command(case: AnyCase, path: Path, settings: Settings) -> str:
    """The command that runs just this case again."""
    chosen = f" --paths {path.name}" if settings.names_path else ""
    return f"{settings.invocation}{chosen} --case {shlex.quote(case.brief())}"


def run_case(
    case: AnyCase,
    path: Path,
    executor: Executor,
    settings: Settings,
    memo: Memo | None = None,
    operations: Mapping[str, Operation] | None = None,
) -> dict[str, Any]:
    """Run one case; the result holds JSON types only.

    A kernel that faults or cannot be built, a case too large for memory, and an exception that nobody foresaw give
    NOT_RUN with the reason: it fails, and the run goes on.
    """

    known = registry.found() if operations is None else operations
    operation = known.get(path.operation)
    words = Operation if operation is None else operation

    def run() -> Findings:
        if operation is None:
            raise UnknownOperationError(path, "operation", known)
        found = operation.judge(Trial(operation, case, path, executor, settings, memo or Memo()))
        if far.asks(operation, case, executor):
            found.checks += far.checks(operation, case, path, executor)
        return found

    found = answered(run, words.ends_a_run)
    verdict = settle(found.checks)
    command = rerun_command(case, path, settings)
    result = {
        "case": case.text(),
        "recipe": case.recipe,
        "path": path.name,
        "executor": executor.describe(),
        "verdict": verdict,
        "explain": explain(words.title(case, path), verdict, found.checks, command, words.bounds),
        "rerun": command,
        "checks": [
            {"name": check.name, "verdict": check.verdict, "reason": check.reason, "figures": check.figures}
            for check in found.checks
        ],
        "figures": found.figures,
        "seconds": found.seconds,
    }
    return dict(plain(result))


def answered(run: Callable[[], Findings], ends: tuple[type[Exception], ...] = (ExecutorUnavailable,)) -> Findings:
    """What a case came to, with what it raised as its one check: a run that changed its inputs EXCEEDS, one that could
    not run is NOT_RUN. Raises what `ends` a run: no case can run on an unwritable cache, or when a compiler is gone."""
    try:
        return run()
    except ends:
        raise
    except InputsChangedError as error:
        check = Check("inputs", Verdict.EXCEEDS, str(error))
    except StrataError as error:
        check = Check("run", Verdict.NOT_RUN, str(error))
    except MemoryError as error:  # of the host or, by CuPy, of a card
        check = Check("run", Verdict.NOT_RUN, f"too little memory for this case: {error}")
    except Exception as error:  # a fault of the harness, or of what it stands on: the other cases are none the worse
        check = Check("run", Verdict.NOT_RUN, unforeseen(error))
    return Findings([check])


def settle(checks: Sequence[Check]) -> Verdict:
    """The verdict of a case: the worst of its checks; EXACT when besides every bit of it was predicted."""
    verdict = combine(checks)
    predicted = any(check.verdict is Verdict.EXACT and check.figures.get("all_bits") for check in checks)
    return Verdict.EXACT if verdict is Verdict.WITHIN_BOUND and predicted else verdict


def explain(
    title: str, verdict: Verdict, checks: Sequence[Check], command: str, bounds: Sequence[str] = Operation.bounds
) -> str:
    """One line on why a case did not pass; empty when it did. title: of the case; bounds: as of `Operation`."""
    if verdict.passes:
        return ""
    failed = [check for check in checks if check.verdict is verdict]
    # A wrong value says more than that it changes from run to run.
    worst = next((check for check in failed if check.name in bounds), failed[0] if failed else None)
    said = f"{worst.name}: {worst.reason}" if worst else "no check was made"
    return f"{verdict.value} {title} {said} | rerun: {command}"


def run_jobs(
    jobs: Sequence[Job],
    executors_of: Callable[[Job], Executors],
    settings: Settings,
    finished: Callable[[Job, dict[str, Any]], None],
    starts: Callable[[Job], None] = lambda job: None,
    operations: Mapping[str, Operation] | None = None,
) -> list[dict[str, Any]]:
    """Run `jobs` in order; finished is called with each result as soon as it exists."""
    results: list[dict[str, Any]] = []
    memo = Memo()
    for job in jobs:
        starts(job)
        executors = executors_of(job)
        own = replace(settings, repeat_executor=executors.repeat_executor, invocation=executors.invocation)
        result = run_case(job.case, job.path, executors.executor, own, memo, operations)
        results.append(result)
        finished(job, result)
    return results
