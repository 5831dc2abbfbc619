"""Gives mutants, and the sources as they are, to the quick run, and says what came of it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from validation.mutants.mutant import Mutant, MutantError, apply, copy_sources

#: Seconds a trial may take; what does not end is an error.
LIMIT_S = 600
_KERNELS = "strata/kernels/"


@dataclass(frozen=True)
class Kill:
    """The first planned case that a mutant did not pass: where, by which check, and what it said."""

    path: str
    case: str
    verdict: str
    check: str
    reason: str


def trial(mutant: Mutant, seed: int = 1) -> Kill | None:
    """What killed the mutant; None when it survived its cases.

    Raises MutantError when it cannot be judged, and when the sources as they are do not pass the same cases.
    """
    healthy(mutant.paths, mutant.recipes, seed)
    with tempfile.TemporaryDirectory(prefix="strata-mutant-") as directory:
        tree = FilePath(directory).resolve()
        copy_sources(tree, FilePath(_snapshot().name))
        apply(mutant, tree)
        answer = _run(tree, mutant.name, mutant.paths, mutant.recipes, seed)
        _confirm(answer, tree, mutant)
    if "build" in answer:
        raise MutantError(f"mutant {mutant.name} does not compile: {answer['build']}")
    red = answer.get("red")
    return Kill(red["path"], red["case"], red["verdict"], red.get("check", ""), red.get("reason", "")) if red else None


@cache
def _snapshot() -> tempfile.TemporaryDirectory[str]:
    """The sources as they are at the first trial, so that an edit meanwhile reaches none of the later ones."""
    directory = tempfile.TemporaryDirectory(prefix="strata-healthy-")
    copy_sources(FilePath(directory.name))
    return directory


@cache
def healthy(paths: str, recipes: tuple[str, ...], seed: int = 1) -> int:
    """Raises MutantError unless the sources as they are pass the cases; how many those are."""
    answer = _run(FilePath(_snapshot().name), "none", paths, recipes, seed)
    if answer["planned"] == 0:
        raise MutantError(f"no quick case of {', '.join(recipes)} fits the paths {paths}")
    if "red" in answer or answer["executed"] != answer["planned"]:
        said = answer.get("red", answer)
        raise MutantError(f"without a mutant the cases of {', '.join(recipes)} on {paths} do not pass: {said}")
    return int(answer["planned"])


def _run(tree: FilePath, name: str, paths: str, recipes: tuple[str, ...], seed: int) -> dict[str, Any]:
    """The answer of `validation.mutants.quick`, imported from `tree`."""
    words = ["-m", "validation.mutants.quick", "--paths", paths, "--seed", str(seed), "--recipes", *recipes]
    try:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tree,
            env=os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MutantError(f"mutant {name}: the run did not end in {LIMIT_S} s") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise MutantError(f"mutant {name}: the run ended with status {done.returncode}: {last}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def _confirm(answer: dict[str, Any], tree: FilePath, mutant: Mutant) -> None:
    """Raises MutantError unless what ran was imported from `tree`, and its kernels have the mutant's text."""
    for package in answer["packages"]:
        if FilePath(package).resolve().parent != tree:
            raise MutantError(f"mutant {mutant.name}: {package} ran, expected the copy in {tree}")
    if mutant.file.startswith(_KERNELS) and not mutant.file.endswith(".py"):
        name = mutant.file.removeprefix(_KERNELS)
        digest = hashlib.sha256((tree / mutant.file).read_bytes()).hexdigest()
        if answer["sources"].get(name) != digest:
            raise MutantError(f"mutant {mutant.name}: {name} has another digest in the run")
