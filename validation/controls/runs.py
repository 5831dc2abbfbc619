"""What a whole run comes to: only planned cases that were all executed and all passed make it green."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from strata.kernels.paths import PATHS, select
from validation.core.control import Answer, Control
from validation.core.settings import Settings
from validation.core.stub_executor import StubExecutor
from validation.ledger.ledger import Drift
from validation.ledger.review import Review
from validation.ledger.whole_run import WholeRun
from validation.operations.attention.operation import under_test
from validation.operations.attention.stub_kernels import healthy, kernel
from validation.operations.kv_pack.case import Case
from validation.run import runner
from validation.run.plan_request import plan_entries
from validation.run.runner import Executors, Job

_RIGHT, _WRONG = Answer("one", "EXACT", "EXACT"), Answer("two", "EXACT", "EXCEEDS")
#: A case that costs next to nothing: one query of an empty pool.
_CASE = Case("all_absent", 1, 1, 1, 1, n_head_kv=1, group=4)
_PATH = PATHS["prompt_attention/fp16/sm80"]

#: What the ledger says: nothing, and that a family moved.
AGREES = Review(reason="a control")
MOVED = Review(1, drifts=(Drift((_PATH.name, "all_absent"), "bound max", 1.0, 0.5),))

#: name, planned cases, verdicts of those that ended, controls asked, verdict of the run, exit status.
RUNS: tuple[tuple[str, int, tuple[str, ...], tuple[Answer, ...], str, int], ...] = (
    ("all within bound", 2, ("WITHIN_BOUND", "WITHIN_BOUND"), (_RIGHT,), "WITHIN_BOUND", 0),
    ("all exact", 2, ("EXACT", "EXACT"), (_RIGHT,), "EXACT", 0),
    ("exact and within bound", 2, ("EXACT", "WITHIN_BOUND"), (_RIGHT,), "WITHIN_BOUND", 0),
    ("no planned case", 0, (), (_RIGHT,), "NOT_RUN", 1),
    ("nothing executed", 2, (), (_RIGHT,), "NOT_RUN", 1),
    ("fewer executed than planned", 3, ("EXACT", "EXACT"), (_RIGHT,), "NOT_RUN", 1),
    ("more executed than planned", 1, ("EXACT", "EXACT"), (_RIGHT,), "NOT_RUN", 1),
    ("executed, none planned", 0, ("EXACT",), (_RIGHT,), "NOT_RUN", 1),
    *(
        (f"{value} {where}", 3, cases, (_RIGHT,), value, 1)
        for value in ("EXCEEDS", "VOID", "NOT_RUN", "INCONCLUSIVE")
        for where, cases in (
            ("first", (value, "EXACT", "EXACT")),
            ("last", ("EXACT", "WITHIN_BOUND", value)),
            ("everywhere", (value, value, value)),
        )
    ),
    ("EXCEEDS before all were executed", 3, ("EXCEEDS",), (_RIGHT,), "EXCEEDS", 1),
    ("a control failed", 1, ("EXACT",), (_RIGHT, _WRONG), "VOID", 1),
    ("a control failed, and a case", 1, ("EXCEEDS",), (_WRONG,), "VOID", 1),
    ("a control failed, nothing run", 1, (), (_WRONG,), "VOID", 1),
    ("no control was asked", 1, ("EXACT",), (), "VOID", 1),
)


def run_level() -> Iterator[Control]:
    """The rows of RUNS, put to the record that the command keeps."""

    def ask(
        planned: int,
        verdicts: Sequence[str],
        controls: Sequence[Answer],
        held: Review | None = AGREES,
        readings: Sequence[str] = (),
    ) -> str:
        nowhere: Any = None
        run = WholeRun([], [Job(_CASE, _PATH)] * planned, nowhere, Settings(), None, controls=controls)
        run.review = held
        for index, verdict in enumerate(verdicts):
            checks = [
                {"name": "prediction", "verdict": "EXACT", "figures": {"readings": [reading]}}
                for reading in readings[index : index + 1]
            ]
            run.add({"path": _PATH.name, "case": str(index), "verdict": verdict, "checks": checks})
        return f"{run.verdict.value}, passed {run.passed}, exit {run.status}"

    for name, planned, verdicts, controls, verdict, status in RUNS:
        said = f"{verdict}, passed {status == 0}, exit {status}"
        yield Control(f"run/{name}", partial(ask, planned, verdicts, controls), said)
    right = partial(ask, 2, ("EXACT", "EXACT"), (_RIGHT,))
    yield Control("run/a family of the ledger moved", partial(right, MOVED), "EXACT, passed False, exit 1")
    yield Control("run/nothing was held against the ledger", partial(right, None), "EXACT, passed False, exit 1")
    for name, second, passed in (("one reading", "sm_75", True), ("two readings", "sm_75_block4", False)):
        asked = partial(right, readings=("sm_75", second))
        yield Control(f"run/{name}", asked, f"EXACT, passed {passed}, exit {int(not passed)}")
    yield Control("run/a planned seed", partial(_seeds, plan_entries), "{'40'} {'41'}")
    yield Control("run/every job is run", _jobs, "3 run, 3 ended with their own result, 3 results")
    for when, crashing in (("before its output", _before), ("after its output", _after)):
        yield Control(f"run/a case that crashes {when}", partial(_crash, crashing), "NOT_RUN, then WITHIN_BOUND")


class _CrashError(Exception):
    """What nobody foresaw."""


class _Crashing:
    """A recorder that falls over once all that judges a case has been asked, and was right."""

    def keep(self, *arguments: Any) -> None:
        raise _CrashError


def _fall(out: Any, inputs: Any) -> Any:
    raise _CrashError


def _before() -> dict[str, Any]:
    return _case(operations=healthy(prompt_attention=kernel(_fall)))


def _after() -> dict[str, Any]:
    return _case(settings=Settings(recorder=_Crashing()))


def _case(operations: Any = None, settings: Settings | None = None) -> dict[str, Any]:
    """The result of a small case on stand-ins."""
    return runner.run_case(
        _CASE, _PATH, StubExecutor(), settings or Settings(), operations=under_test(operations or healthy())
    )


def _crash(crashing: Callable[[], dict[str, Any]]) -> str:
    """The verdicts of a case in which the harness falls over, and of one after it."""
    return f"{crashing()['verdict']}, then {_case()['verdict']}"


def _seeds(plan: Any) -> str:
    """The seeds of the cases that --seed 40 and --seed 41 plan, a size of their own among them."""
    base = {"case": None, "context": None, "queries": None, "recipe": None, "profile": "quick", "capture": None}
    found = []
    for seed in (40, 41):
        seeds = set()
        for sizes in ({}, {"context": 8}):
            options = argparse.Namespace(**(base | sizes), seed=seed)
            entries = plan(options, select("*"))
            seeds |= {word[5:] for entry in entries for word in entry.case.text().split() if word.startswith("seed=")}
        found.append(str(seeds))
    return " ".join(found)


def _jobs() -> str:
    """How many of three jobs the runner really runs and hands over."""
    lanes, ended, executor_pool = StubExecutor(), [], []

    def executors(job: Job) -> Executors:
        executor_pool.append(job)
        return Executors(lanes, None, "")

    def finished(job: Job, result: dict[str, Any]) -> None:
        if result["case"] == job.case.text():
            ended.append(job)

    jobs = [Job(replace(_CASE, seed=seed), _PATH) for seed in (1, 2, 3)]
    results = runner.run_jobs(jobs, executors, Settings(), finished, operations=under_test(healthy()))
    own = sum(result["case"] == job.case.text() for job, result in zip(jobs, results, strict=True))
    return f"{len(executor_pool)} run, {len(ended)} ended with their own result, {own} results"
