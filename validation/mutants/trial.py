"""Gives mutants, and the sources as they are, to their judges, and says what came of it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from strata.forks import ForkLock
from strata.kernels.paths import select
from strata.unforeseen import unforeseen
from validation.mutants.mutant import Mutant, MutantError, apply, copy_sources
from validation.operations import registry

#: Seconds a trial may take; what does not end is an error.
LIMIT_S = 600
_KERNELS = "strata/kernels/"
#: pytest's exit statuses: all passed, some failed. Others are errors of the run.
_PASSED, _FAILED = 0, 1


@dataclass(frozen=True)
class Kill:
    """The first thing that did not pass. checks: all checks that failed there, the one that decides first;
    where: the path and case, or the tests; reason: of the first check; rerun: the command for that case."""

    checks: tuple[str, ...]
    verdict: str
    where: str
    reason: str
    rerun: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of one mutant. status: killed, survived, error, or device when it needs a card; usual: what
    the usual checks said (`usual.py`), empty where they do not apply; note: the error, or why a card is needed."""

    name: str
    status: str
    kill: Kill | None = None
    usual: dict[str, Any] = field(default_factory=dict)
    note: str = ""


def outcome(mutant: Mutant, executor: str = "lanes", seed: int = 1) -> Outcome:
    """Everything about one mutant; what keeps it from being judged becomes status `error`."""
    if mutant.device and executor == "lanes":
        return Outcome(mutant.name, "device", note=mutant.device)
    try:
        kill, usual = trial(mutant, executor, seed)
    except MutantError as error:
        return Outcome(mutant.name, "error", note=str(error))
    except Exception as error:  # a fault of this program: no judgement, and the other mutants are none the worse
        return Outcome(mutant.name, "error", note=unforeseen(error))
    return Outcome(mutant.name, "killed" if kill else "survived", kill, usual)


def trial(mutant: Mutant, executor: str = "lanes", seed: int = 1) -> tuple[Kill | None, dict[str, Any]]:
    """What killed the mutant, None when it survived its judges, and what the usual checks say.

    Raises MutantError when it cannot be judged, and when the sources as they are do not pass the same judges.
    """
    with tempfile.TemporaryDirectory(prefix="strata-mutant-") as directory:
        tree = FilePath(directory).resolve()
        copy_sources(tree, FilePath(_snapshot().name), tests=bool(mutant.tests))
        apply(mutant, tree)
        if mutant.tests:
            healthy_tests(mutant.tests)
            return _tests(tree, mutant.name, mutant.tests), {}
        if mutant.controls:
            healthy_controls()
            kill = _controls(tree, mutant.name)
            if kill:
                return kill, {}
        healthy(mutant.paths, executor, seed)
        answer = _cases(tree, mutant.name, mutant.paths, mutant.recipes, executor, seed)
        _confirm(answer, tree, mutant)
        if "build" in answer:
            raise MutantError(f"mutant {mutant.name} does not compile: {answer['build']}")
        usual = _usual(tree, mutant.paths, executor, seed)
    return _kill(answer), usual


def _kill(answer: dict[str, Any]) -> Kill | None:
    red = answer.get("red")
    if not red:
        return None
    checks = red["checks"] or [{"name": "none", "reason": "no check was made"}]
    where = f"{red['path']} {red['case']}"
    return Kill(tuple(check["name"] for check in checks), red["verdict"], where, checks[0]["reason"], red["rerun"])


_lock = ForkLock()
#: Processes of trials that have not ended.
_running: set[subprocess.Popen[str]] = set()
#: Whether nobody takes their outcomes any more, which then nobody waits for.
_ended = False


@cache
def _made_snapshot() -> tempfile.TemporaryDirectory[str]:
    directory = tempfile.TemporaryDirectory(prefix="strata-healthy-")
    copy_sources(FilePath(directory.name), tests=True)
    return directory


def _snapshot() -> tempfile.TemporaryDirectory[str]:
    """The sources as they are at the first trial, so that an edit meanwhile reaches none of the later ones."""
    with _lock:
        return _made_snapshot()


_answers: dict[object, tuple[ForkLock, list[Any]]] = {}


def _once(key: object, make: Callable[[], Any]) -> Any:
    """`make()`, once for each key, also when several threads ask; what it raises is raised to each of them."""
    with _lock:
        lock, made = _answers.setdefault(key, (ForkLock(), []))
    with lock:
        if not made:
            try:
                made.append((make(), None))
            except MutantError as error:
                made.append((None, error))
        value, refused = made[0]
    if refused is not None:
        raise refused
    return value


def healthy(paths: str, executor: str = "lanes", seed: int = 1) -> int:
    """How many quick cases the paths have. Raises MutantError unless the sources as they are pass all of them, and
    the usual checks."""
    return int(_once((paths, executor, seed), lambda: _healthy(paths, executor, seed)))


def _healthy(paths: str, executor: str, seed: int) -> int:
    tree = FilePath(_snapshot().name)
    answer = _cases(tree, "none", paths, (), executor, seed)
    if "red" in answer or answer["executed"] != answer["planned"] or not answer["planned"]:
        raise MutantError(f"without a mutant the cases of {paths} do not pass: {answer.get('red', answer)}")
    usual = _usual(tree, paths, executor, seed)
    said = [value for key, value in usual.items() if key.endswith("_passes")]
    if not said or not all(said):
        raise MutantError(f"without a mutant the usual checks of {paths} do not pass: {usual}")
    return int(answer["planned"])


def healthy_tests(tests: tuple[str, ...]) -> None:
    """Raises MutantError unless the sources as they are pass the tests."""

    def run() -> None:
        killed = _tests(FilePath(_snapshot().name), "none", tests)
        if killed:
            raise MutantError(f"without a mutant {killed.where} does not pass: {killed.reason}")

    _once(tests, run)


def healthy_controls() -> None:
    """Raises MutantError unless the sources as they are pass their controls."""

    def run() -> None:
        killed = _controls(FilePath(_snapshot().name), "none")
        if killed:
            raise MutantError(f"without a mutant a control fails: {killed.reason}")

    _once("controls", run)


def _python(tree: FilePath, name: str, words: list[str]) -> subprocess.CompletedProcess[str]:
    """A Python process that imports from `tree`."""
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _running.add(process)
        if _ended:
            process.terminate()
        try:
            out, errors = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise MutantError(f"mutant {name}: the run did not end in {LIMIT_S} s") from None
        finally:
            _running.discard(process)
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


@contextmanager
def trial_workers(jobs: int) -> Iterator[ThreadPoolExecutor]:
    """Threads for trials. An exception that leaves the block ends the trials that they run, by MutantError."""
    global _ended
    try:
        with ThreadPoolExecutor(jobs) as workers:
            try:
                yield workers
            except BaseException:
                _ended = True  # also for a trial whose thread starts its process only now
                _end_all()
                raise
    finally:
        _ended = False  # no thread of theirs is left, and later trials are others


def _end_all() -> None:
    for process in list(_running):
        process.terminate()


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["no message"])[-1]


def _cases(tree: FilePath, name: str, paths: str, recipes: tuple[str, ...], executor: str, seed: int) -> dict[str, Any]:
    """The answer of `validation.mutants.quick`, imported from `tree`."""
    words = ["-m", "validation.mutants.quick", "--paths", paths, "--seed", str(seed), "--executor", executor]
    done = _python(tree, name, [*words, "--recipes", *recipes])
    if done.returncode != 0:
        raise MutantError(f"mutant {name}: the run ended with status {done.returncode}: {_last_line(done)}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def _controls(tree: FilePath, name: str) -> Kill | None:
    """The controls that fail in `tree`, the first one's line as the reason."""
    done = _python(tree, name, ["-m", "validation.controls.answers"])
    if done.returncode != 0:
        raise MutantError(f"mutant {name}: its controls ended with status {done.returncode}: {_last_line(done)}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    for package in answer["packages"]:
        if FilePath(package).resolve().parent != tree.resolve():
            raise MutantError(f"mutant {name}: {package} ran, expected the copy in {tree}")
    if not answer["wrong"]:
        return None
    families = dict.fromkeys(f"control {one['name'].partition('/')[0]}" for one in answer["wrong"])
    first = answer["wrong"][0]
    return Kill(tuple(families), "VOID", f"control {first['name']}", first["reason"])


def _usual(tree: FilePath, paths: str, executor: str, seed: int) -> dict[str, Any]:
    """The answer of `mutants.conventional_checks`. A run that ends otherwise (a fault in memory) passes neither."""
    words = [
        "-m",
        "validation.mutants.conventional_checks",
        "--paths",
        paths,
        "--seed",
        str(seed),
        "--executor",
        executor,
    ]
    done = _python(tree, "usual checks", words)
    if done.returncode != 0:
        second = registry.conventional(select(paths)[0]).second
        return {"nmse_passes": False, **dict.fromkeys(second, False), "nmse": None, "ended": _last_line(done)}
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def _tests(tree: FilePath, name: str, tests: tuple[str, ...]) -> Kill | None:
    """The first failed test. Raises MutantError when the tests cannot run, or none of them did."""
    done = _python(tree, name, ["-m", "pytest", "-x", "-q", "-rf", "-p", "no:cacheprovider", *tests])
    if done.returncode not in (_PASSED, _FAILED):
        raise MutantError(f"mutant {name}: its tests ended with status {done.returncode}: {_last_line(done)}")
    if done.returncode == _PASSED:
        if not re.search(r"\b\d+ passed", done.stdout):
            raise MutantError(f"mutant {name}: none of its tests ran")
        return None
    failed = re.search(r"^FAILED (\S+?)(?:\[.*?\])?(?: - (.*))?$", done.stdout, re.MULTILINE)
    if not failed:
        raise MutantError(f"mutant {name}: pytest names no failed test: {_last_line(done)}")
    test = failed[1].rpartition("::")[2]
    return Kill((f"test {test}",), "FAILED", failed[1], failed[2] or "")


def _confirm(answer: dict[str, Any], tree: FilePath, mutant: Mutant) -> None:
    """Raises MutantError unless what ran was imported from `tree`, and its kernels have the mutant's text."""
    for package in answer["packages"]:
        if FilePath(package).resolve().parent != tree:
            raise MutantError(f"mutant {mutant.name}: {package} ran, expected the copy in {tree}")
    for edit in mutant.edits:
        if edit.file.startswith(_KERNELS) and not edit.file.endswith(".py"):
            name = edit.file.removeprefix(_KERNELS)
            digest = hashlib.sha256((tree / edit.file).read_bytes()).hexdigest()
            if answer["sources"].get(name) != digest:
                raise MutantError(f"mutant {mutant.name}: {name} has another digest in the run")
