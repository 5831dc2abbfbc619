"""The parity command: plan, run, report, record."""

from __future__ import annotations

import argparse
import platform
import shlex
import time
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from strata.executors.base import StrataError, source_digests
from strata.kernels.paths import Path, select
from validation.controls import self_test
from validation.controls.control import Answer
from validation.core.settings import Settings
from validation.core.verdict import Check, Verdict, combine
from validation.ledger import ledger, slack_statistics
from validation.ledger.ledger import Ledger
from validation.ledger.review import Asked, Review, review
from validation.numerics.rounding_hypotheses import Followed, followed
from validation.numerics.tensorcore_rules import DEFAULT_RULE
from validation.operations import registry
from validation.operations.attention.captured import load as load_capture
from validation.operations.attention.case import Case
from validation.operations.experts.case import parse
from validation.record import recording
from validation.record.recording import Recording
from validation.report.table import print_report
from validation.run import owner
from validation.run import plan as profiles
from validation.run.executor_options import refuse_idle
from validation.run.executors import Stations
from validation.run.plan import Entry
from validation.run.prebuild import Prebuild
from validation.run.progress import Reporter
from validation.run.run_file import SCHEMA, RunFile
from validation.run.runner import Job, run_jobs

DEFAULT_PATHS = "prompt_attention/*"
DEFAULT_QUERIES = 512
DEFAULT_PROFILE = "quick"
PASSED, FAILED = 0, 1


@dataclass
class Run:
    """One run as `run.json` records it, rewritten after each finished case. controls: what the harness answered
    when it was asked about itself; recording: makes a record of the run, None for runs that make none."""

    words: Sequence[str]
    jobs: Sequence[Job]
    stations: Stations
    settings: Settings
    file: RunFile | None
    asked: Asked = field(default_factory=lambda: Asked(None, profiles.SEED, None))
    ledger: Ledger = field(default_factory=Ledger)
    controls: Sequence[Answer] = ()
    recording: Recording | None = None
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
        if self_test.failed(self.controls):
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

    def end(self, status: str, console: Console) -> None:
        """Hold what is finished against the ledger, write `run.json` and report."""
        held: Sequence[dict[str, Any]] = self.results
        if self.recording is not None and self.asked.profile is not None:
            held = slack_statistics.of_profile(self.results, self.asked.profile, self.asked.seed)
        self.review = review(self.asked, held, self.ledger, str(self.file.path) if self.file else "")
        self.record(status)
        print_report(console, self.results, len(self.jobs))
        if said := self.readings.text():
            console.print(Text(said, "" if self.readings.agree else "bold red"), soft_wrap=True)
        for line in [*self.review.lines(), self.review.line()]:
            console.print(Text(line, "" if self.review.ok else "red"), soft_wrap=True)

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
                "failed": [answer.line() for answer in self_test.failed(self.controls)],
                "command": shlex.join(["python", "-m", "validation", *self.words]),
                "started": self.started,
                "process": owner.this(),
                "seconds": time.perf_counter() - self.began,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "machine": platform.machine(),
                "system": platform.system(),
                "executor": self.stations.first.describe(),
                "sources": source_digests(),
                "predict": self.settings.predict,
                "plan": asdict(self.asked),
                "for_record": self.recording is not None,
                "readings": self.readings.record(),
                "planned": len(self.jobs),
                "executed": sum(result["verdict"] != Verdict.NOT_RUN.value for result in self.results),
                "verdicts": counts,
                "ledger": None if self.review is None else self.review.record(),
                "cases": self.results,
                "not_run": [{"case": job.case.text(), "path": job.path.name} for job in unfinished],
            }
        )


def plan_entries(options: argparse.Namespace, paths: Sequence[Path]) -> list[Entry]:
    """The entries that the command line asks for. Raises StrataError for sizes and recipes that cannot be."""
    sized = options.context is not None or options.queries is not None
    if options.case is not None:
        return [Entry(parse(options.case))]
    if options.recipe:
        registry.find(options.recipe)
    if sized:
        if not options.context:
            given = "not given, and --queries is" if options.context is None else f"{options.context}"
            raise StrataError(f"--context is {given}, expected at least 1 cell")
        queries = min(DEFAULT_QUERIES, options.context) if options.queries is None else options.queries
        if not 1 <= queries <= options.context:
            raise StrataError(f"--queries is {queries}, expected 1 to the context of {options.context}")
        return [Entry(Case(options.recipe or profiles.SIZED_RECIPE, options.seed, options.context, queries))]
    entries = profiles.entries(options.seed, options.profile, paths)
    if options.capture and any(registry.of_path(path) == "prompt_attention" for path in paths):
        entries += _captured(options)
    if options.recipe == "captured" and not options.capture:
        raise StrataError("recipe captured needs a capture: name its file by --capture")
    return profiles.with_recipe(entries, options.recipe) if options.recipe else entries


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


def _captured(options: argparse.Namespace) -> list[Entry]:
    capture = load_capture(options.capture)
    facts = capture.metadata
    heads = (facts.n_head_kv, facts.n_head // facts.n_head_kv)
    return profiles.captured(options.seed, sorted(capture.layers), facts.tokens, heads, options.profile)


def plan_settings(options: argparse.Namespace, stations: Stations, sized: bool) -> Settings:
    """Settings of the run; prediction is on by default on a card with a compiler beside it, of all bits for a record
    and of a sample for quick runs."""
    predict = options.predict
    if predict is None:
        wanted = options.profile == "quick" and not sized
        usual = "none" if stations.lanes else "all" if options.record else "sample" if wanted else "none"
        predict = usual if usual == "none" or stations.can_predict() else "none"
    if predict != "none" and not stations.lanes:
        stations.predictor(DEFAULT_RULE)
    return Settings(options.reps, predict, stations.predictor, capture=options.capture)


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
    stations = Stations(options.executor, rule, options.target, options.flavor, options.schedule_seed)
    refuse_idle(options, stations.lanes)
    if options.record is None:
        jobs = profiles.plan(paths, entries, stations.lanes)
    else:
        jobs = profiles.record_plan(paths, options.profile, options.seed, stations.lanes)
    settings = plan_settings(options, stations, options.context is not None or options.case is not None)
    rerun = rerun_options(options, settings.predict, stations.lanes)
    sized = options.context is not None or options.case is not None
    asked = Asked(None if sized else options.profile, options.seed, ledger.rule_name(stations.first))
    with closing(RunFile(options.out)) if options.out else nullcontext() as file:
        record = Run(words, jobs, stations, settings, file, asked, ledger.load(), self_test.flat(self_test.prove()))
        return _begin(options, paths, record, rerun, console)


def _begin(
    options: argparse.Namespace, paths: Sequence[Path], record: Run, rerun: Sequence[str], console: Console
) -> int:
    """Say what is run and run it, unless a control failed. Returns the exit status."""
    if record.file is not None and record.file.replaces:
        console.print(record.file.replaces, markup=False, soft_wrap=True)
    record.record("running")
    console.print(_heading(record), markup=False)
    if self_test.failed(record.controls):
        return _void(record, console)
    with _recording(options, paths, record) as record.recording:
        return _run(record, rerun, console)


def _recording(options: argparse.Namespace, paths: Sequence[Path], record: Run) -> Recording | nullcontext[None]:
    if options.record is None:
        return nullcontext()
    return Recording(options.record, options.profile, options.seed, paths, record.jobs, record.stations)


def _run(record: Run, rerun: Sequence[str], console: Console) -> int:
    """Run the planned cases and report. rerun: as of `rerun_options`. Returns the exit status."""
    keeper = record.recording.keeper if record.recording else None
    try:
        predict = record.settings.predict != "none"
        with (
            Reporter(console, len(record.jobs)) as reporter,
            Prebuild(record.jobs, record.stations, predict) as built,
        ):
            run_jobs(
                record.jobs,
                lambda job: built.wait(job, record.stations.of(job, rerun)),
                replace(record.settings, recorder=keeper),
                finished=lambda job, result: _finish(record, reporter, job, result),
                starts=lambda job: reporter.starts(f"{job.path.name} {job.case.recipe}"),
            )
    except KeyboardInterrupt:
        record.end("interrupted", console)
        where = f" in {record.file.path}" if record.file else ""
        none = "; an interrupted run makes no record" if record.recording else ""
        console.print(f"interrupted: the finished cases are kept{where}{none}", markup=False, soft_wrap=True)
        return FAILED
    except Exception:  # of what all cases need; it is said after what is finished
        record.end("failed", console)
        kept = f", in {record.file.path}" if record.file else ""
        console.print(
            f"{len(record.results)} of {len(record.jobs)} cases are finished{kept}", markup=False, soft_wrap=True
        )
        raise
    except BaseException:
        record.record("failed")
        raise
    record.end("complete", console)
    if record.recording is not None:
        predicted = record.settings.predict != "none" and not record.stations.lanes
        try:
            said = record.recording.finish(record.results, record.passed, predicted)
        except StrataError as error:  # the cases are judged all the same, and in run.json
            if record.passed:  # no verdict of failure: the record could not be made, of a full disk say
                raise
            console.print(str(error), style="red", markup=False, soft_wrap=True)
            return FAILED
        console.print(said, markup=False, soft_wrap=True)
    return record.status


def _void(record: Run, console: Console) -> int:
    """Say which controls failed. No case is run: what a harness says that is wrong about these is worth nothing."""
    record.record("complete")
    for answer in self_test.failed(record.controls):
        console.print(answer.line(), markup=False, style="red", soft_wrap=True)
    console.print("VOID: the harness fails its own controls, so no case was run.", style="bold red")
    return record.status


def _finish(record: Run, reporter: Reporter, job: Job, result: dict[str, Any]) -> None:
    if record.recording is not None:
        record.recording.keeper.ended()
    record.add(result)
    reporter.finished(f"{job.path.name} {job.case.recipe}", result["explain"])
    for what, why in result["figures"].get("left_out", {}).items():
        reporter.once(f"{job.path.name} ran without {what}: {why}")


def _heading(record: Run) -> str:
    facts = record.stations.first.describe()
    names = ("arch", "device", "driver", "nvrtc", "compiler", "threads")
    said = ", ".join(f"{name} {facts[name]}" for name in names if name in facts)
    if record.stations.lanes:
        said += f", rule {record.stations.rule}"
    if facts.get("instead_of_cuda"):
        said += f"; no card: {facts['instead_of_cuda']}"
    said = f"{len(record.jobs)} cases on {record.stations.first.name} ({said})"
    if not record.stations.lanes:
        return f"{said}, prediction {record.settings.predict}"
    unused = [
        name
        for name, given in (("--reps", record.settings.reps), ("--predict", record.settings.predict != "none"))
        if given
    ]
    return f"{said}; {' and '.join(unused)} asked for, and only a card can do that" if unused else said
