"""Soak: many healthy runs of small cases with fresh seeds, each with every check. None may raise an alarm.

Runs go through all paths and recipes in turn, with drawn sizes: pages, groups, KV heads, widths and selections of
attention; tokens, experts, ranks and widths of experts. One in 47 is in the checked build. A run that does not pass is
printed with its case and the command that runs it again.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace

from rich.console import Console

from strata.arguments import MOST_JOBS, file, whole
from strata.cpus import usable
from strata.executors.base import Executor, Kernel, StrataError
from strata.executors.lanes import LanesExecutor
from validation.core.settings import Settings
from validation.host.workers import workers
from validation.numerics.tensorcore_rules import DEFAULT_RULE
from validation.run import owner, unfinished
from validation.run.executors import ExecutorPool
from validation.run.prebuild import kernels_of
from validation.run.progress import Reporter
from validation.run.run_file import RunFile
from validation.run.runner import Job, run_case
from validation.soak import plan as soak_plan
from validation.soak.tally import Finished, Tally, report

SCHEMA = "strata-soak/1"
NAME = "soak.json"
PASSED, FAILED = 0, 1
#: Runs whose kernels are compiled beforehand; those of later ones are nearly all among them.
PREBUILT = 10_000
#: Runs handed to a process at once, and how many such parts wait for each process.
PART = 4
AHEAD = 4
#: Seconds after which what is finished is written again, for a run that is killed.
KEPT_S = 30.0


def _one_thread(name: str, *, rule: str, flavor: str, seed: int | None, target: str | None) -> Executor:
    """Lanes on one thread: the processes are as many as the cores."""
    return LanesExecutor(rule=rule, flavor=flavor, seed=seed, threads=1)


@dataclass(frozen=True)
class Plan:
    """The same in every process. paths: pattern of the paths, which are gone through in turn; rule: of lanes."""

    seed: int
    rule: str = DEFAULT_RULE
    paths: str = "*"

    def job(self, index: int) -> Job:
        return soak_plan.job(self.seed, index, soak_plan.cycle(self.paths))


@dataclass
class Worker:
    """Runs single runs of a plan; one in each process."""

    plan: Plan
    executor_pool: ExecutorPool = field(init=False)

    def __post_init__(self) -> None:
        self.executor_pool = ExecutorPool("lanes", self.plan.rule, open=_one_thread)

    def run(self, index: int) -> Finished:
        job = self.plan.job(index)
        executors = self.executor_pool.of(job, ())
        settings = Settings(repeat_executor=executors.repeat_executor, invocation=executors.invocation)
        result = run_case(job.case, job.path, executors.executor, settings)
        checks = result["checks"]
        slack = {check["name"]: float(check["figures"]["slack"]) for check in checks if "slack" in check["figures"]}
        said = (result["path"], result["case"], result["verdict"], result["explain"])
        return Finished(index, *said, slack, result["seconds"])


_worker: Worker | None = None


def _start(plan: Plan) -> None:
    global _worker
    _worker = Worker(plan)


def _part(indices: Sequence[int]) -> list[Finished]:
    assert _worker is not None
    return [_worker.run(index) for index in indices]


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `python -m validation soak`."""
    command.add_argument(
        "--runs", type=whole(1), default=1000, metavar="N", help="how many runs (default: %(default)s)"
    )
    command.add_argument(
        "--start", type=whole(), default=0, metavar="I", help="index of the first (default: %(default)s)"
    )
    command.add_argument("--seed", type=whole(), default=1, metavar="N", help="seed of all runs (default: %(default)s)")
    command.add_argument("--paths", default="*", metavar="GLOB", help="paths (default: all)")
    command.add_argument("--rule", default=DEFAULT_RULE, help="tensor-core rule of lanes (default: %(default)s)")
    command.add_argument("--jobs", type=whole(1, MOST_JOBS), metavar="N", help="processes (default: one a core)")
    command.add_argument("--out", type=file, metavar="DIR", help=f"write {NAME} there")


def run(options: argparse.Namespace, console: Console) -> int:
    """Exit status 0 when every run passed, 1 when one did not or Ctrl-C came.

    Raises StrataError when it cannot run, or cannot go on; what is finished is kept and reported all the same.
    """
    jobs = usable() if options.jobs is None else options.jobs
    try:
        soak_plan.cycle(options.paths)
    except ValueError as error:
        raise StrataError(str(error)) from error
    plan = Plan(options.seed, options.rule, options.paths)
    with closing(RunFile(options.out, NAME)) if options.out else nullcontext() as file:
        if file is not None and file.replaces:
            console.print(file.replaces, markup=False, soft_wrap=True)
        return _soak(options, plan, jobs, file, console)


def _soak(options: argparse.Namespace, plan: Plan, jobs: int, file: RunFile | None, console: Console) -> int:
    indices = range(options.start, options.start + options.runs)
    console.print(
        f"{options.runs} runs from {options.start} of {options.paths}, seed {options.seed}, rule {options.rule}, "
        f"{jobs} processes",
        markup=False,
    )
    kept = _Kept(options, plan, jobs, file)
    tally = kept.tally
    try:
        began = time.perf_counter()
        built = _prebuild(indices[:PREBUILT], plan, jobs)
        console.print(f"{built} kernels are built, {time.perf_counter() - began:.0f} s")
        kept.began = time.perf_counter()
        with Reporter(console, options.runs) as reporter:
            for finished in _all(indices, plan, jobs):
                kept.add(finished)
                said = f"alarm in run {finished.index}: {finished.case} | {finished.explain}"
                reporter.finished(f"run {finished.index}", "" if finished.passes else said)
    except BaseException as error:
        kept.broken_off(error, console)
        if not isinstance(error, KeyboardInterrupt):
            raise
    else:
        kept.write(unfinished.COMPLETE)
        report(console, tally, kept.seconds)
    return PASSED if tally.runs == options.runs and not tally.alarms else FAILED


@dataclass
class _Kept:
    """What is finished of a run. file: where it is kept, None for a run that keeps nothing."""

    options: argparse.Namespace
    plan: Plan
    jobs: int
    file: RunFile | None
    tally: Tally = field(default_factory=Tally)
    began: float = field(default_factory=time.perf_counter)
    written: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def add(self, finished: Finished) -> None:
        self.tally.add(finished)
        if time.perf_counter() - self.written >= KEPT_S:
            self.write(unfinished.RUNNING)
            self.written = time.perf_counter()

    def write(self, status: str) -> None:
        if self.file:
            planned = {**asdict(self.plan), "start": self.options.start, "runs": self.options.runs}
            spent = {"seconds": self.seconds, "jobs": self.jobs, "process": owner.this()}
            self.file.write({"schema": SCHEMA, "status": status, **planned, **spent, **self.tally.record()})

    def broken_off(self, error: BaseException, console: Console) -> None:
        """Keep and report what is finished, and say how to go on."""
        try:
            self.write(unfinished.status(error))
        finally:
            report(console, self.tally, self.seconds)
            done = self.tally.runs
            first, left = self.options.start + done, self.options.runs - done
            rest = {"start": first, "runs": left, "seed": self.plan.seed, "paths": self.plan.paths}
            rest |= {"rule": self.plan.rule, "jobs": self.jobs, "out": unfinished.beside(self.options.out, first)}
            finished = f"{done} of {self.options.runs} runs are finished{unfinished.where(self.file)}"
            command = f"the rest: {unfinished.command('validation soak', rest)}" if left else ""
            unfinished.say(console, error, finished, command)


def _prebuild(indices: Sequence[int], plan: Plan, jobs: int) -> int:
    """Compile what the runs need, each kernel once, before there are processes that would do it twice."""
    executor_pool = ExecutorPool("lanes", plan.rule, open=_one_thread)
    needed: dict[tuple[str, Kernel], Executor] = {}
    for index in indices:
        job = plan.job(index)
        for kernel in kernels_of(job):
            if (job.flavor, kernel) not in needed:
                needed[job.flavor, kernel] = executor_pool.of(replace(job, schedule=None), ()).executor
    pool = ThreadPoolExecutor(jobs)
    try:
        for future in [pool.submit(executor.build, kernel) for (_, kernel), executor in needed.items()]:
            with suppress(Exception):  # said by its run, which asks for the same again
                future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return len(needed)


def _all(indices: Sequence[int], plan: Plan, jobs: int) -> Iterator[Finished]:
    """The runs in order, so that what is finished is always the first of them."""
    if jobs == 1:
        worker = Worker(plan)
        yield from map(worker.run, indices)
        return
    parts = (indices[first : first + PART] for first in range(0, len(indices), PART))
    with workers(jobs, _start, plan) as pool:
        yield from _in_order(parts, jobs * AHEAD, lambda part: pool.submit(_part, part))


def _in_order(
    parts: Iterable[Sequence[int]], ahead: int, submit: Callable[[Sequence[int]], Future[list[Finished]]]
) -> Iterator[Finished]:
    waiting: deque[tuple[Sequence[int], Future[list[Finished]]]] = deque()
    left = iter(parts)
    while True:
        for part in left:
            waiting.append((part, submit(part)))
            if len(waiting) >= ahead:
                break
        if not waiting:
            return
        part, future = waiting.popleft()
        try:
            yield from future.result()
        except BrokenProcessPool as error:
            raise StrataError(f"a process died in run {part[0]} or soon after it; --start {part[0]} goes on") from error
