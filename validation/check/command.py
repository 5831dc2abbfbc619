"""Check a kernel of your own: `python -m validation check FILE[:NAME]`.

FILE is a Python file, anywhere, that defines a `validation.check.OwnKernel`: its .cu file, inputs, an FP64 reference
and a bound. It gets hostile data, both builds of the CPU executor with races and ranges checked, repeated, permuted and
cut runs, wrong answers that its verdicts must refuse, bits on a card against the CPU, and faults planted in its own
source.

Exit status: 0 when every planned case passed, 1 when one did not, 2 when it could not run, for a fault in FILE too.
"""

from __future__ import annotations

import argparse
import platform
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from strata.arguments import file, whole, word
from strata.executors import NAMES as EXECUTORS
from strata.executors import open_executor
from strata.executors.base import Executor, StrataError
from strata.executors.lanes import FLAVORS
from strata.executors.lanes.build import find_compiler, finds_undefined
from validation.check import early_end, mutants, plan, raw, sensitivity, unjudged
from validation.check.folding import news
from validation.check.load import Loaded, load
from validation.check.operation import OwnOperation, operations
from validation.check.plan import PROFILES
from validation.check.source_mutants import SourceMutant
from validation.check.table import print_cases, print_matrix
from validation.core.settings import Settings
from validation.core.verdict import Check, Verdict, combine
from validation.numerics.tensorcore_rules import DEFAULT_RULE
from validation.run import owner, unfinished
from validation.run.executor_options import refuse_idle
from validation.run.executors import ExecutorPool
from validation.run.prebuild import Prebuild
from validation.run.progress import Reporter
from validation.run.run_file import CHECK_SCHEMA, RunFile
from validation.run.runner import Job, run_jobs

PASSED, FAILED = 0, 1
#: Mutants to try, and how many the source has.
_Faults = tuple[list[SourceMutant], int]
DEFAULT_PROFILE = "quick"
#: The largest seed of a schedule: lanes take twice it, in 64 bits.
_MOST_SCHEDULE = (1 << 62) - 1
#: Seconds that a launch of the quick profile, and of larger ones, may take on lanes; it takes less than one, or ten.
LIMIT_S, LONG_LIMIT_S = 60, 600
_LONGEST_S = 1_000_000
_MOST_MUTANTS = 100_000
_MOST_RANDOM = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("file", type=word, metavar="FILE[:NAME]", help="a Python file, and which of its kernels")
    what = parser.add_argument_group("what is run")
    what.add_argument(
        "--profile", choices=PROFILES, help=f"list of cases (default: {DEFAULT_PROFILE}; not with --case)"
    )
    what.add_argument("--case", type=word, metavar="TEXT", help="one case, as a failing verdict prints it")
    what.add_argument(
        "--random",
        type=whole(1, _MOST_RANDOM),
        metavar="N",
        help="besides, so many cases of random recipes, sizes and seeds, which follow from --seed",
    )
    what.add_argument("--seed", type=whole(), metavar="N", help=f"seed of all cases (default: {plan.SEED})")
    where = parser.add_argument_group("where it runs")
    where.add_argument("--executor", choices=EXECUTORS, default="auto", help="auto takes a card when there is one")
    where.add_argument("--target", type=word, metavar="ARCH", help="cuda: image to build (default: the card's own)")
    where.add_argument("--rule", type=word, help=f"lanes: tensor-core rule (default: {DEFAULT_RULE})")
    where.add_argument("--flavor", choices=FLAVORS, help="lanes: build of every case (default: by its size)")
    where.add_argument(
        "--limit",
        type=whole(1, _LONGEST_S),
        metavar="S",
        help=f"lanes: seconds that a launch may take, more is endless (default: {LIMIT_S}, {LONG_LIMIT_S} outside of "
        "the quick profile)",
    )
    where.add_argument(
        "--schedule-seed", type=whole(0, _MOST_SCHEDULE), metavar="N", help="lanes: order of lanes and blocks"
    )
    more = parser.add_argument_group("what is asked besides")
    kill = more.add_mutually_exclusive_group()
    kill.add_argument(
        "--mutants",
        type=_mutants,
        nargs="?",
        const=mutants.USUAL,
        metavar="N|all|GLOB",
        help="lanes: plant so many faults in the kernel's source, or those of such names, KERNEL-KIND-LINE (default in "
        f"the quick profile: {mutants.USUAL})",
    )
    kill.add_argument("--no-mutants", action="store_true", help="plant none")
    more.add_argument("--out", type=file, metavar="DIR", help="write run.json with every figure there")


def _mutants(text: str) -> int | str:
    """A number of mutants, or a shell pattern of their names: `*` for all of them."""
    if text == "all":
        return "*"
    return whole(1, _MOST_MUTANTS)(text) if not text or text[0] in "-+0123456789" else word(text)


@dataclass
class Run:
    """One run as `run.json` records it, rewritten after each finished case."""

    command: Sequence[str]
    loaded: Loaded
    jobs: Sequence[Job]
    executor_pool: ExecutorPool
    file: RunFile | None
    profile: str | None = None
    results: list[dict[str, Any]] = field(default_factory=list)
    matrix: mutants.Matrix | None = None
    began: float = field(default_factory=time.perf_counter)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def predicts(self) -> bool:
        """Whether a card's bits are compared with lanes: they run such a kernel, and a compiler is there."""
        return not self.executor_pool.lanes and self.executor_pool.can_predict()

    @property
    def other_build(self) -> Callable[[], Executor] | None:
        """What opens the fast build of lanes, for cases of the checked one; None on a card."""
        pool = self.executor_pool
        return (lambda: pool.predictor(pool.rule)) if pool.lanes else None

    @property
    def verdict(self) -> Verdict:
        """That of all cases, of which the worst decides; NOT_RUN when other cases ended than were planned."""
        checks = [Check(str(index), Verdict(result["verdict"])) for index, result in enumerate(self.results)]
        if len(checks) != len(self.jobs):
            checks.append(Check("executed", Verdict.NOT_RUN))
        checks += [Check(name, Verdict.VOID, said) for name, said in self.blind.items()]
        return combine(checks)

    @property
    def unjudged(self) -> str:
        """A line on what nobody looked at."""
        lanes = self.executor_pool.lanes
        flavor = self.executor_pool.flavor
        jobs = self.jobs if flavor is None else [replace(job, flavor=flavor) for job in self.jobs]
        whole = lanes and finds_undefined(find_compiler())
        return unjudged.line(self.loaded, jobs, lanes, whole)

    @property
    def blind(self) -> dict[str, str]:
        """Float outputs whose bounds could have refused next to nothing in a whole profile, with a line on each. A case
        that is asked for alone may be one in which terms cancel."""
        if self.profile is None or len(self.results) != len(self.jobs):
            return {}
        return sensitivity.blind(self.results, self.loaded.self_checks)

    @property
    def status(self) -> int:
        """The exit status."""
        return PASSED if self.verdict.passes else FAILED

    def add(self, result: dict[str, Any]) -> None:
        self.results.append(result)
        self.record("running")

    def record(self, status: str) -> None:
        """Write `run.json`. status: running, complete, interrupted or failed."""
        if self.file is None:
            return
        kernel = self.loaded.kernel
        self.file.write(
            {
                "schema": CHECK_SCHEMA,
                "status": status,
                "passed": self.verdict.passes,
                "verdict": self.verdict.value,
                "command": shlex.join(["python", "-m", "validation", "check", *self.command]),
                "started": self.started,
                "process": owner.this(),
                "seconds": time.perf_counter() - self.began,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "machine": platform.machine(),
                "system": platform.system(),
                "executor": self.executor_pool.first.describe(),
                "kernel": kernel.name,
                "attested": kernel.raw is None,
                "sources": self.loaded.digests(),
                "inputs": {name: values.domain for name, values in kernel.inputs.items()},
                "left_out": dict(kernel.without),
                "planned": len(self.jobs),
                "executed": sum(result["verdict"] != Verdict.NOT_RUN.value for result in self.results),
                "verdicts": {v.value: sum(one["verdict"] == v.value for one in self.results) for v in Verdict},
                "profile": self.profile,
                "mutants": None if self.matrix is None else self.matrix.record(),
                "cases": self.results,
                "not_run": [{"case": job.case.text()} for job in self.jobs[len(self.results) :]],
            }
        )


def run(options: argparse.Namespace, console: Console) -> int:
    """Run the command with parsed `options`. Returns the exit status.

    Raises StrataError when it cannot run at all, for a fault in the author's file too. Ctrl-C keeps the finished
    cases and gives 1.
    """
    with early_end.refused():
        return _checked(options, console)


def _checked(options: argparse.Namespace, console: Console) -> int:
    for name in ("profile", "seed", "random"):
        if options.case is not None and getattr(options, name) is not None:
            raise StrataError(f"--case is a whole case, expected without --{name} {getattr(options, name)}")
    loaded = load(options.file)
    profile = None if options.case is not None else options.profile or DEFAULT_PROFILE
    if options.case is not None:
        planned = [OwnOperation(loaded).parse(options.case)]
    else:
        seed = plan.SEED if options.seed is None else options.seed
        planned = plan.cases(loaded, str(profile), seed)
        planned += plan.random_cases(loaded, options.random, seed) if options.random else []
    limit = options.limit or (LIMIT_S if profile in (None, DEFAULT_PROFILE) else LONG_LIMIT_S)
    executor_pool = _executor_pool(options, loaded, limit)
    refuse_idle(options, executor_pool.lanes)
    faults = _faults(options, loaded, executor_pool, profile)
    jobs = plan.jobs(loaded, planned, profile if executor_pool.lanes else None)
    with closing(RunFile(options.out)) if options.out else nullcontext() as out:
        own = Run(_words(options), loaded, jobs, executor_pool, out, profile)
        if out is not None and out.replaces:
            console.print(out.replaces, markup=False, soft_wrap=True)
        own.record("running")
        console.print(_heading(own), markup=False, soft_wrap=True)
        if said := unjudged.cards_without_room(loaded, planned):
            console.print(Text(said, "yellow"), soft_wrap=True)
        return _run(own, faults, console)


def _executor_pool(options: argparse.Namespace, loaded: Loaded, limit: int) -> ExecutorPool:
    """The executors of a run. limit: seconds of a launch. Raises ExecutorUnavailable for one that is not here."""
    limited = partial(open_executor, limit_s=float(limit))
    opened = limited if loaded.kernel.raw is None else raw.opener(loaded, limited)
    return ExecutorPool(
        options.executor,
        options.rule or DEFAULT_RULE,
        options.target,
        options.flavor,
        options.schedule_seed,
        open=opened,
        command=("check", loaded.reference),
        usual="checked",
        says_rule=loaded.tensor_cores,
    )


def _faults(
    options: argparse.Namespace, loaded: Loaded, executor_pool: ExecutorPool, profile: str | None
) -> _Faults | None:
    """The mutants that are asked for, or usual; None for none. Raises StrataError where they cannot be."""
    asked = options.mutants
    if asked is not None and not executor_pool.lanes:
        raise StrataError("--mutants are tried on lanes, expected --executor lanes")
    if options.no_mutants or not executor_pool.lanes or (asked is None and profile != DEFAULT_PROFILE):
        return None
    return mutants.chosen(loaded, mutants.USUAL if asked is None else asked)


def _words(options: argparse.Namespace) -> list[str]:
    """The command line that says the same."""
    words = [str(options.file)]
    for name in (
        "profile",
        "case",
        "random",
        "seed",
        "executor",
        "target",
        "rule",
        "flavor",
        "limit",
        "schedule_seed",
        "out",
    ):
        value = getattr(options, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def _heading(own: Run) -> str:
    facts, kernel = own.executor_pool.first.describe(), own.loaded.kernel
    names = ("arch", "device", "driver", "nvrtc", "compiler", "threads")
    said = ", ".join(f"{name} {facts[name]}" for name in names if name in facts)
    if own.executor_pool.lanes and own.loaded.tensor_cores:
        said += f", rule {own.executor_pool.rule}"
    if facts.get("instead_of_cuda"):
        said += f"; no card: {facts['instead_of_cuda']}"
    domains = ", ".join(f"{name} {values.domain}" for name, values in kernel.inputs.items())
    said = f"{kernel.name}: {len(own.jobs)} cases on {own.executor_pool.first.name} ({said}); inputs: {domains}"
    if kernel.raw is not None:
        return f"{said}; {raw.FLUSHES}; {raw.NOT_ATTESTED}"
    if own.executor_pool.lanes:
        return said
    return f"{said}; bits {'are' if own.predicts else 'are not'} compared with lanes"


def _run(own: Run, faults: _Faults | None, console: Console) -> int:
    try:
        _cases(own, console)
    except (KeyboardInterrupt, Exception) as error:
        own.record(unfinished.status(error))
        if own.results or isinstance(error, KeyboardInterrupt):
            print_cases(console, own.loaded, own.results, len(own.jobs))
        if isinstance(error, KeyboardInterrupt):
            return _interrupted(own, error, console)
        raise
    print_cases(console, own.loaded, own.results, len(own.jobs))
    console.print(Text(own.unjudged, "dim"), soft_wrap=True)
    for line in own.blind.values():
        console.print(Text(f"VOID {own.loaded.kernel.name}: {line}", "bold red"), soft_wrap=True)
    if own.loaded.kernel.raw is not None:
        console.print(Text(raw.NOT_ATTESTED, "yellow"), soft_wrap=True)
    if faults is not None and not own.verdict.passes:
        console.print("no faults are planted in the source: as it is it does not pass", markup=False, soft_wrap=True)
    elif faults is not None and (interrupt := _kill(own, faults, console)) is not None:
        return _interrupted(own, interrupt, console)
    own.record("complete")
    return own.status


def _cases(own: Run, console: Console) -> None:
    """Run the planned cases."""
    known = operations(own.loaded, own.other_build)
    settings = Settings(
        predict="all" if own.predicts else "none", predictor=own.executor_pool.predictor, names_path=False
    )

    def finished(job: Job, result: dict[str, Any]) -> None:
        said = news(result, own.results)
        own.add(result)
        reporter.finished(job.case.text(), said)

    with (
        Reporter(console, len(own.jobs)) as reporter,
        Prebuild(own.jobs, own.executor_pool, own.predicts, known) as built,
    ):
        run_jobs(
            own.jobs,
            lambda job: built.wait(job, own.executor_pool.of(job, ())),
            settings,
            finished,
            starts=lambda job: reporter.starts(job.case.text()),
            operations=known,
        )


def _interrupted(own: Run, error: BaseException, console: Console) -> int:
    """Say what is finished and where it is kept. Returns the exit status."""
    own.record(unfinished.INTERRUPTED)
    said = f"{len(own.results)} of {len(own.jobs)} cases"
    said += "" if own.matrix is None else f" and {len(own.matrix.trials)} of {own.matrix.planned} mutants"
    unfinished.say(console, error, f"{said} are finished{unfinished.where(own.file)}")
    return FAILED


def _kill(own: Run, faults: _Faults, console: Console) -> KeyboardInterrupt | None:
    """Try mutants and say what became of them. Gives the Ctrl-C that ended it."""
    planted, made = faults
    own.matrix = mutants.Matrix(made, len(planted))
    jobs = [job for job in own.jobs if job.flavor == "checked"]
    slowest = max(sum(result["seconds"].values()) for result in own.results)
    interrupt = None
    try:
        with Reporter(console, len(planted), "mutants") as reporter:

            def finished(trial: mutants.Trial) -> None:
                assert own.matrix is not None
                own.matrix.trials.append(trial)
                reporter.finished(f"{trial.mutant.name}: {trial.check or trial.fate}", "")

            mutants.tried(own.loaded, planted, jobs, own.executor_pool.rule, slowest, finished)
    except KeyboardInterrupt as error:
        interrupt = error
    except Exception:
        own.record("failed")
        print_matrix(console, own.matrix)
        raise
    print_matrix(console, own.matrix)
    return interrupt
