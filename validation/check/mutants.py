"""The kill matrix of an author's own source: which check refuses each planted fault, and what nothing notices.

Mutants come from `validation.check.source_mutants`. Each is compiled for lanes in the checked build and run on the
cases of the quick profile up to the first that refuses it, in processes of their own on all cores. One that does not
compile is none, and neither is one that compiles to the same program as the kernel [1].

References
----------
[1] M. Papadakis, Y. Jia, M. Harman, Y. Le Traon, Trivial Compiler Equivalence: A Large Scale Empirical Study of a
    Simple, Fast and Effective Equivalent Mutant Detection Technique, ICSE 2015.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from strata.cpus import usable
from strata.executors.base import ExecutorUnavailable, StrataError
from validation.check.load import Loaded
from validation.check.mutant_worker import KILLED, NOT_COMPILED, SAME, SURVIVED
from validation.check.refusal import refuse
from validation.check.source_mutants import ROUNDING_KINDS, SourceMutant, generate, spread
from validation.run.runner import Job

#: Mutants that are tried unless another number is asked for.
USUAL = 48
#: Checks of mutants that end otherwise than by a verdict: an endless loop, and a process that died.
ENDLESS, DIED = "time", "crash"
#: Processor seconds that a case may take at least, and times what it takes without a fault.
_LEAST_S, _TIMES = 4, 20
#: What Python is started with to judge mutants.
PROGRAM = ("-m", "validation.check.mutant_worker")
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Trial:
    """What became of one mutant. fate: `killed`, `survived`, `not compiled` or `same program`; check, reason, case: of
    the first check that refused it."""

    mutant: SourceMutant
    fate: str
    check: str = ""
    reason: str = ""
    case: str = ""

    def record(self) -> dict[str, Any]:
        """As `run.json` has it."""
        own = self.mutant
        said = {"name": own.name, "kind": own.kind, "line": own.line, "old": own.old, "new": own.new, "fate": self.fate}
        if self.fate == KILLED:
            return {**said, "check": self.check, "reason": self.reason, "case": self.case}
        return {**said, "question": own.question} if self.fate == SURVIVED else said


@dataclass
class Matrix:
    """The trials of a run. made: how many mutants the source has; planned: how many are tried."""

    made: int
    planned: int
    trials: list[Trial] = field(default_factory=list)

    def of(self, fate: str) -> list[Trial]:
        """The trials that ended in one way, by line."""
        return sorted(
            (one for one in self.trials if one.fate == fate), key=lambda one: (one.mutant.line, one.mutant.name)
        )

    @property
    def survivors(self) -> list[Trial]:
        """Mutants that no check noticed and that are faults whatever the bound."""
        return [one for one in self.of(SURVIVED) if one.mutant.kind not in ROUNDING_KINDS]

    @property
    def roundings(self) -> list[Trial]:
        """Survivors that change roundings alone, which a right bound may allow."""
        return [one for one in self.of(SURVIVED) if one.mutant.kind in ROUNDING_KINDS]

    @property
    def real(self) -> int:
        """Trials of mutants that are other programs than the kernel."""
        return len(self.of(KILLED)) + len(self.of(SURVIVED))

    def lines(self) -> list[str]:
        """The matrix in words: counts, checks with what they killed, and the survivors as questions."""
        killed = self.of(KILLED)
        said = [f"{len(killed)} of {self.real} mutants of the source were killed"]
        others = [f"{self.planned - len(self.trials)} not tried"] if len(self.trials) < self.planned else []
        others += [f"{len(self.of(SAME))} compile to the same program"] if self.of(SAME) else []
        others += [f"{len(self.of(NOT_COMPILED))} do not compile"] if self.of(NOT_COMPILED) else []
        others += [f"{self.made - self.planned} more with --mutants all"] if self.made > self.planned else []
        said[0] += f" ({', '.join(others)})" if others else ""
        counts = Counter(one.check for one in killed)
        if counts:
            said.append("killed by: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
        said += [one.mutant.question for one in self.survivors]
        if self.roundings:
            said.append(
                f"of {len(self.roundings)} more the roundings alone differ, as the bound allows; a model of the bits, "
                "`exact`, would tell: " + ", ".join(f"{one.mutant.file}:{one.mutant.line}" for one in self.roundings)
            )
        return said

    def record(self) -> dict[str, Any]:
        """As `run.json` has it."""
        return {"made": self.made, "planned": self.planned, "trials": [one.record() for one in self.trials]}


def chosen(loaded: Loaded, asked: int | str) -> tuple[list[SourceMutant], int]:
    """Mutants of a kernel's source, and how many it has in all.

    asked: so many at most, spread over kinds and lines, or those whose names fit a shell pattern. Raises StrataError
    for a pattern that none fits.
    """
    made = generate(loaded.text, loaded.source.name, loaded.kernel.defines)
    if isinstance(asked, int):
        return spread(made, asked), len(made)
    fitting = [mutant for mutant in made if fnmatchcase(mutant.name, asked)]
    if not fitting:
        names = f"one of {len(made)} names such as {made[0].name}" if made else "none: the source has no mutants"
        raise refuse("--mutants", asked, names)
    return fitting, len(made)


class _Worker:
    """One process that judges mutants; started when it is needed, and again when a mutant took it along."""

    def __init__(self, first: dict[str, Any]) -> None:
        self._first = first
        self._process: subprocess.Popen[str] | None = None
        self._errors: Any = None
        self._lock, self._stopped = threading.Lock(), False

    def _started(self) -> subprocess.Popen[str]:
        with self._lock:
            return self._begun()

    def _begun(self) -> subprocess.Popen[str]:
        if self._stopped:
            raise StrataError("the run of mutants was stopped")
        if self._process is None:
            self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read when the process has ended
            paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
            self._process = subprocess.Popen(
                [sys.executable, *PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
            )
            self._send(self._process, self._first)
        return self._process

    @staticmethod
    def _send(process: subprocess.Popen[str], line: dict[str, Any]) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(line) + "\n")
        process.stdin.flush()

    def judge(self, mutant: SourceMutant, text: str) -> Trial:
        """What becomes of a mutant. Raises StrataError when the process ends for another reason than the mutant."""
        process, built = self._started(), False
        try:
            self._send(process, {"text": mutant.mutated(text), "span": mutant.span, "new": mutant.new})
        except OSError:
            raise self._ended(process) from None
        assert process.stdout is not None
        for line in process.stdout:
            answer = json.loads(line)
            if answer["fate"] != "built":
                return Trial(mutant, **answer)
            built = True
        process.wait()
        if not built or process.returncode >= 0 or process.returncode in (-signal.SIGTERM, -signal.SIGKILL):
            raise self._ended(process)
        self._process = None
        if process.returncode == -signal.SIGXCPU:
            reason = f"a case takes more than {self._first['seconds']} s of processor time"
            return Trial(mutant, KILLED, ENDLESS, reason)
        return Trial(mutant, KILLED, DIED, f"the process ended by {signal.Signals(-process.returncode).name}")

    def _ended(self, process: subprocess.Popen[str]) -> StrataError:
        process.wait()
        self._errors.seek(0)
        said = (self._errors.read().strip().splitlines() or [f"status {process.returncode}"])[-1]
        self._process = None
        return ExecutorUnavailable(f"the process that judges mutants ended: {said.removeprefix('error: ')}")

    def stop(self) -> None:
        """End the process, whatever it does."""
        with self._lock:
            self._stopped, process = True, self._process
        if process is not None:
            process.kill()
            process.wait()


def tried(
    loaded: Loaded,
    mutants: Sequence[SourceMutant],
    jobs: Sequence[Job],
    rule: str,
    slowest: float,
    finished: Callable[[Trial], None],
    workers: int | None = None,
) -> None:
    """Try mutants on cases; `finished` is called with each trial, in this thread, in the order in which they end.

    Parameters
    ----------
    loaded : Loaded
        The kernel, which passes all these cases.
    mutants : sequence of SourceMutant
        Faults of its source.
    jobs : sequence of Job
        Cases in the order in which they are run.
    rule : str
        The tensor core's rule.
    slowest : float
        Seconds that the slowest of the cases takes without a fault.
    workers : int, optional
        Processes; by default one for each core.

    Raises
    ------
    StrataError
        When a process that judges mutants cannot go on. Whatever is raised, no process is left.
    """
    first = {
        "reference": loaded.reference,
        "cases": [(job.case.text(), job.schedule) for job in jobs],
        "rule": rule,
        "seconds": int(_LEAST_S + _TIMES * slowest),
    }
    todo: queue.SimpleQueue[SourceMutant] = queue.SimpleQueue()
    for mutant in mutants:
        todo.put(mutant)
    done: queue.SimpleQueue[Trial | BaseException] = queue.SimpleQueue()
    pool = [_Worker(first) for _ in range(min(workers or usable(), len(mutants)))]
    stopped = threading.Event()

    def work(worker: _Worker) -> None:
        try:
            while not stopped.is_set():
                done.put(worker.judge(todo.get_nowait(), loaded.text))
        except queue.Empty:
            pass
        except BaseException as error:  # goes to the thread that asked
            done.put(error)

    threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in pool]
    try:
        for thread in threads:
            thread.start()
        for _ in mutants:
            answer = done.get()
            if isinstance(answer, BaseException):
                raise answer
            finished(answer)
    finally:
        stopped.set()
        for worker in pool:
            worker.stop()
        for thread in threads:
            thread.join()
