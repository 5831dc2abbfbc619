"""The parity command: plan, run, report, record."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.text import Text

from strata.executors.base import StrataError
from strata.kernels.paths import Path, select
from strata.kernels.registry import first_gated
from validation.controls import self_test
from validation.core.control import failed
from validation.core.settings import Settings
from validation.ledger import ledger
from validation.ledger.review import Asked
from validation.ledger.whole_run import FAILED, WholeRun
from validation.numerics.tensorcore_rules import DEFAULT_RULE
from validation.operations.attention.captured import load as load_capture
from validation.record import recording
from validation.record.evidence import Keeper
from validation.record.recording import Recording
from validation.report.table import near_ties, print_report
from validation.run import plan as profiles
from validation.run.executor_options import refuse_idle
from validation.run.executors import ExecutorPool
from validation.run.plan_request import plan_entries
from validation.run.prebuild import Prebuild
from validation.run.progress import Reporter
from validation.run.run_file import RunFile
from validation.run.runner import Job, run_jobs

DEFAULT_PATHS = f"{first_gated()}/*"
DEFAULT_PROFILE = "quick"


def with_defaults(options: argparse.Namespace) -> argparse.Namespace:
    """The options with the defaults of seed, profile and directory. Raises StrataError where --case or --record says
    otherwise."""
    if options.record is not None:
        recording.refuse_other_cases(options)
    if options.case is not None:
        for name in ("context", "queries", "recipe", "seed", "profile"):
            value = getattr(options, name)
            if value is not None:
                raise StrataError(f"--case is a whole case, expected without --{name} {value}")
    profile = DEFAULT_PROFILE if options.record is None else recording.PROFILE
    usual = {"seed": profiles.SEED, "profile": profile, "out": options.record}
    chosen = {name: usual.get(name) if value is None else value for name, value in vars(options).items()}
    return argparse.Namespace(**chosen)


def plan_settings(options: argparse.Namespace, executor_pool: ExecutorPool, sized: bool) -> Settings:
    """Settings of the run; prediction is on by default on a card with a compiler beside it, of all bits for a record
    and of a sample for quick runs."""
    predict = options.predict
    if predict is None:
        wanted = options.profile == "quick" and not sized
        usual = "none" if executor_pool.lanes else "all" if options.record else "sample" if wanted else "none"
        predict = usual if usual == "none" or executor_pool.can_predict() else "none"
    if predict != "none" and not executor_pool.lanes:
        executor_pool.predictor(DEFAULT_RULE)
    return Settings(options.reps, predict, executor_pool.predictor, capture=options.capture)


def rerun_options(options: argparse.Namespace, predict: str, lanes: bool) -> list[str]:
    """What a rerun of one case needs beside its executor: the capture and the prediction."""
    words = ["--capture", str(options.capture)] if options.capture else []
    return words + (["--predict", predict] if predict != "none" and not lanes else [])


def run(options: argparse.Namespace, words: Sequence[str], console: Console) -> int:
    """Run the command with parsed `options`; words: as they were typed. Returns the exit status.

    Raises StrataError when it cannot run at all. Ctrl-C keeps the finished cases and gives 1.
    """
    options = with_defaults(options)
    try:
        paths = select(options.paths)
    except ValueError as error:
        raise StrataError(str(error)) from error
    if options.record is not None:
        recording.refuse_other_paths(paths)
    if options.capture:  # whatever uses it: no case can make up for a capture that does not fit
        load_capture(options.capture)
    entries = plan_entries(options, paths)
    rule = options.rule or DEFAULT_RULE
    executor_pool = ExecutorPool(options.executor, rule, options.target, options.flavor, options.schedule_seed)
    refuse_idle(options, executor_pool.lanes)
    if options.record is None:
        jobs = profiles.plan(paths, entries, executor_pool.lanes)
    else:
        jobs = profiles.record_plan(paths, options.profile, options.seed, executor_pool.lanes)
    settings = plan_settings(options, executor_pool, options.context is not None or options.case is not None)
    rerun = rerun_options(options, settings.predict, executor_pool.lanes)
    sized = options.context is not None or options.case is not None
    asked = Asked(None if sized else options.profile, options.seed, ledger.rule_name(executor_pool.first))
    with closing(RunFile(options.out)) if options.out else nullcontext() as file:
        record = WholeRun(
            words, jobs, executor_pool, settings, file, asked, ledger.load(), self_test.flat(self_test.prove())
        )
        return _begin(options, paths, record, rerun, console)


def _begin(
    options: argparse.Namespace, paths: Sequence[Path], record: WholeRun, rerun: Sequence[str], console: Console
) -> int:
    """Say what is run and run it, unless a control failed. Returns the exit status."""
    if record.file is not None and record.file.replaces:
        console.print(record.file.replaces, markup=False, soft_wrap=True)
    record.record("running")
    console.print(_heading(record), markup=False)
    if failed(record.controls):
        return _void(record, console)
    record.for_record = options.record is not None
    with _recording(options, paths, record) as recording:
        return _run(record, recording, rerun, console)


def _recording(options: argparse.Namespace, paths: Sequence[Path], record: WholeRun) -> Recording | nullcontext[None]:
    if options.record is None:
        return nullcontext()
    return Recording(options.record, options.profile, options.seed, paths, record.jobs, record.executor_pool)


def _run(record: WholeRun, recording: Recording | None, rerun: Sequence[str], console: Console) -> int:
    """Run the planned cases and report. rerun: as of `rerun_options`. Returns the exit status."""
    keeper = recording.keeper if recording else None
    try:
        predict = record.settings.predict != "none"
        with (
            Reporter(console, len(record.jobs)) as reporter,
            Prebuild(record.jobs, record.executor_pool, predict) as built,
        ):
            run_jobs(
                record.jobs,
                lambda job: built.wait(job, record.executor_pool.of(job, rerun)),
                replace(record.settings, recorder=keeper),
                finished=lambda job, result: _finish(record, keeper, reporter, job, result),
                starts=lambda job: reporter.starts(f"{job.path.name} {job.case.recipe}"),
            )
    except KeyboardInterrupt:
        _end(record, "interrupted", console)
        where = f" in {record.file.path}" if record.file else ""
        none = "; an interrupted run makes no record" if recording else ""
        console.print(f"interrupted: the finished cases are kept{where}{none}", markup=False, soft_wrap=True)
        return FAILED
    except Exception:  # of what all cases need; it is said after what is finished
        _end(record, "failed", console)
        kept = f", in {record.file.path}" if record.file else ""
        console.print(
            f"{len(record.results)} of {len(record.jobs)} cases are finished{kept}", markup=False, soft_wrap=True
        )
        raise
    except BaseException:
        record.record("failed")
        raise
    _end(record, "complete", console)
    if recording is not None:
        predicted = record.settings.predict != "none" and not record.executor_pool.lanes
        try:
            said = recording.finish(record.results, record.passed, predicted)
        except StrataError as error:  # the cases are judged all the same, and in run.json
            if record.passed:  # no verdict of failure: the record could not be made, of a full disk say
                raise
            console.print(str(error), style="red", markup=False, soft_wrap=True)
            return FAILED
        console.print(said, markup=False, soft_wrap=True)
    return record.status


def _void(record: WholeRun, console: Console) -> int:
    """Say which controls failed. No case is run: what a harness says that is wrong about these is worth nothing."""
    record.record("complete")
    for answer in failed(record.controls):
        console.print(answer.line(), markup=False, style="red", soft_wrap=True)
    console.print("VOID: the harness fails its own controls, so no case was run.", style="bold red")
    return record.status


def _finish(record: WholeRun, keeper: Keeper | None, reporter: Reporter, job: Job, result: dict[str, Any]) -> None:
    if keeper is not None:
        keeper.ended()
    record.add(result)
    reporter.finished(f"{job.path.name} {job.case.recipe}", result["explain"])
    for what, why in result["figures"].get("left_out", {}).items():
        reporter.once(f"{job.path.name} ran without {what}: {why}")


def _heading(record: WholeRun) -> str:
    facts = record.executor_pool.first.describe()
    names = ("arch", "device", "driver", "nvrtc", "compiler", "threads")
    said = ", ".join(f"{name} {facts[name]}" for name in names if name in facts)
    if record.executor_pool.lanes:
        said += f", rule {record.executor_pool.rule}"
    if facts.get("instead_of_cuda"):
        said += f"; no card: {facts['instead_of_cuda']}"
    said = f"{len(record.jobs)} cases on {record.executor_pool.first.name} ({said})"
    if not record.executor_pool.lanes:
        return f"{said}, prediction {record.settings.predict}"
    unused = [
        name
        for name, given in (("--reps", record.settings.reps), ("--predict", record.settings.predict != "none"))
        if given
    ]
    return f"{said}; {' and '.join(unused)} asked for, and only a card can do that" if unused else said


def _end(record: WholeRun, status: str, console: Console) -> None:
    """End the run as `status` and report it."""
    held = record.end(status)
    print_report(console, record.results, len(record.jobs))
    for line in near_ties(record.results):
        console.print(line, markup=False, soft_wrap=True)
    if said := record.readings.text():
        console.print(Text(said, "" if record.readings.agree else "bold red"), soft_wrap=True)
    for line in [*held.lines(), held.line()]:
        console.print(Text(line, "" if held.ok else "red"), soft_wrap=True)
