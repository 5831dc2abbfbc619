"""Judges mutants of one kernel, one after another: a process of its own, so that a mutant may crash or never end.

Started as `python -m validation.check.mutant_worker`; says nothing to people. Reads lines of JSON: first what is to be
checked, then a mutant in each; answers with `built`, or with what became of the mutant.
"""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import validation.host.blas_threads  # noqa: F401  before anything imports NumPy
from strata.command import command
from strata.executors.base import BuildError, Kernel
from strata.executors.lanes import LanesExecutor
from validation.check.load import Loaded, load
from validation.check.operation import OwnOperation, operations
from validation.core.memo import Memo
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.run.runner import Job, run_case

#: What becomes of a mutant.
KILLED, SURVIVED, NOT_COMPILED, SAME = "killed", "survived", "not compiled", "same program"


class Bench:
    """The kernel, its cases and the executors that mutants are judged on.

    Parameters
    ----------
    reference : str
        `FILE:NAME` of the kernel.
    cases : sequence of (str, int or None)
        Texts of cases with the order of lanes and blocks, in the order in which they are run.
    rule : str
        The tensor core's rule.
    seconds : int
        Processor time that a case of a mutant may take: more is an endless loop.
    """

    def __init__(self, reference: str, cases: Sequence[tuple[str, int | None]], rule: str, seconds: int) -> None:
        self.loaded = load(reference)
        own = OwnOperation(self.loaded)
        self.jobs = [Job(own.parse(text), self.loaded.path, "checked", schedule) for text, schedule in cases]
        self.seconds = seconds
        self._rule = rule
        self._memos = [Memo() for _ in self.jobs]  # what is known of a case is known for every mutant
        self._executors: dict[tuple[str, int | None], LanesExecutor] = {}

    def executor(self, flavor: str, seed: int | None) -> LanesExecutor:
        """Lanes with one thread: several of these processes run side by side."""
        if (flavor, seed) not in self._executors:
            self._executors[flavor, seed] = LanesExecutor(self._rule, flavor, seed, threads=1)
        return self._executors[flavor, seed]

    def kernels(self, loaded: Loaded) -> list[Kernel]:
        """What the cases launch, each once."""
        own = OwnOperation(loaded)
        return list({image: None for job in self.jobs for image in own.kernels(job.path, job.case)})

    def built(self, loaded: Loaded, flavor: str) -> list[str]:
        """The digests of the images. Raises BuildError."""
        return [self.executor(flavor, None).build(kernel).digest for kernel in self.kernels(loaded)]

    def judged(self, loaded: Loaded) -> dict[str, Any] | None:
        """The first check that refuses a kernel; None when all cases pass."""
        for job, memo in zip(self.jobs, self._memos, strict=True):
            _allow(self.seconds)
            settings = Settings(repeat_executor=self.executor("checked", (job.schedule or 0) + 1))
            executor = self.executor("checked", job.schedule)
            result = run_case(job.case, job.path, executor, settings, memo, operations(loaded))
            verdict = Verdict(result["verdict"])
            if not verdict.passes:
                failed = [check for check in result["checks"] if check["verdict"] == result["verdict"]]
                check = failed[0] if failed else {"name": "none", "reason": "no check was made"}
                return {"check": check["name"], "reason": check["reason"], "case": result["case"]}
        return None

    def same(self, loaded: Loaded) -> bool:
        """Whether a mutant compiles to the very program that the kernel compiles to."""
        try:
            return self.built(loaded, "fast") == self.built(self.loaded, "fast")
        except BuildError:
            return False


def in_place(source: str, span: Sequence[int], new: str) -> str:
    """The source with an edit after which everything keeps its line and column: a compiled kernel knows them, and
    without this two equal programs would differ in them alone."""
    first, last = span
    line = source.count("\n", 0, last) + 1
    column = len(source[source.rfind("\n", 0, last) + 1 : last].encode())
    return f"{source[:first]}{new}\n#line {line}\n{' ' * column}{source[last:]}"


def _allow(seconds: int | None) -> None:
    """Let this process use so much more processor time before the system ends it; None takes the limit away."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = hard if seconds is None else int(used.ru_utime + used.ru_stime) + 1 + seconds
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def judge(bench: Bench, mutant: Mapping[str, Any], directory: Path, say: IO[str]) -> dict[str, Any]:
    """What becomes of one mutant. mutant: text, span and new; directory: where its source may lie."""
    _allow(None)
    name = bench.loaded.source.name
    (directory / name).write_text(mutant["text"])
    loaded = Loaded(bench.loaded.kernel, bench.loaded.file, directory)
    try:
        bench.built(loaded, "checked")
    except BuildError as error:
        return {"fate": NOT_COMPILED, "reason": str(error)}
    _answer(say, {"fate": "built"})
    found = bench.judged(loaded)
    _allow(None)
    if found is not None:
        return {"fate": KILLED, **found}
    (directory / name).write_text(in_place(bench.loaded.text, mutant["span"], mutant["new"]))
    again = Loaded(bench.loaded.kernel, bench.loaded.file, directory)
    return {"fate": SAME if bench.same(again) else SURVIVED}


def _answer(say: IO[str], answer: Mapping[str, Any]) -> None:
    say.write(json.dumps(answer) + "\n")
    say.flush()


@command()
def main() -> int:
    """Answer until the input ends."""
    # Ctrl-C and the end of a terminal reach every process of a command; they are for the one that keeps the results.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What the author's functions print is none of the answers.
    say = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    first = json.loads(sys.stdin.readline())
    bench = Bench(
        first["reference"], [(text, order) for text, order in first["cases"]], first["rule"], first["seconds"]
    )
    with tempfile.TemporaryDirectory(prefix="strata-mutant-") as directory:
        for header in bench.loaded.image().headers:
            shutil.copy(header, directory)
        for line in sys.stdin:
            _answer(say, judge(bench, json.loads(line), Path(directory), say))
    return 0


if __name__ == "__main__":
    sys.exit(main())
