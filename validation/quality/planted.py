"""Wrong kernels, planted in a copy of the sources, which the gate and the needles must see.

The faults are entries of the table of mutants (`validation.mutants`), which parity's checks refuse each by itself. Here
they show whether a whole model's answers would have told. The copy runs the same command as everybody, with one option
more: a changed kernel has no record, so its paths are served whatever the gate of records says.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from strata.executors.base import StrataError
from validation.core.verdict import Verdict
from validation.host import json_file
from validation.mutants.faults import table
from validation.mutants.mutant import Mutant, apply, copy_sources
from validation.run.unfinished import COMPLETE

#: The faults: one whose overflow gives no finite number, and two that give plausible ones.
FAULTS = ("v-fold-positive", "k-block-scale-of-neighbour", "width-one-less")
#: The most needles that may be found with a fault that the constructed model is made to meet: its answers are no
#: numbers then, and the limit that was agreed leaves two for chance.
MOST_FOUND = {"v-fold-positive": 2}
#: Parts of the command that the copies run.
PARTS = ("gate", "needles")
#: Seconds that a copy may take.
LIMIT_S = 3600
_KERNELS = "strata/kernels/"
#: Exit statuses of a command that came to a verdict.
_JUDGED = (0, 1)


@dataclass(frozen=True)
class Planted:
    """What became of a fault.

    Parameters
    ----------
    name, why
        Its name and what it does.
    verdict, reason
        Of the gate.
    found, asked
        Needles that were found by the setting with the fault, and how many there are.
    """

    name: str
    why: str
    verdict: Verdict
    reason: str
    found: int
    asked: int

    @property
    def flagged(self) -> bool:
        """Whether the gate flagged it."""
        return self.verdict is Verdict.EXCEEDS

    @property
    def seen(self) -> bool:
        """Whether the gate flagged it, and where needles must go with it, whether they did."""
        return self.flagged and self.found <= MOST_FOUND.get(self.name, self.asked)


def run(name: str, words: Sequence[str]) -> Planted:
    """Plant a fault in a copy of the sources and run the gate and the needles there.

    Parameters
    ----------
    name
        A fault of the table of mutants.
    words
        Options of the command, without its parts.

    Raises
    ------
    StrataError
        When the copy does not come to a verdict, or something else than the copy ran.
    """
    mutant = table()[name]
    with tempfile.TemporaryDirectory(prefix="strata-quality-") as directory:
        tree = FilePath(directory).resolve()
        copy_sources(tree)
        apply(mutant, tree)
        out = tree / "quality"
        answer = _answer(tree, out, name, words)
        _confirm(answer, tree, mutant)
    gate, needles = answer["gate"], answer["needles"]["settings"]
    setting = next((one for one in needles if one["setting"] == gate["b"]), None)
    if setting is None:
        raise StrataError(f"planted {name}: no needles of setting {gate['b']}")
    return Planted(name, mutant.why, Verdict(gate["verdict"]), gate["reason"], setting["found"], setting["asked"])


def _answer(tree: FilePath, out: FilePath, name: str, words: Sequence[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "validation", "quality", *PARTS, "--ungated", "--out", str(out), *words]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment(tree), capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise StrataError(f"planted {name}: no verdict within {LIMIT_S} s") from None
    if done.returncode not in _JUDGED:
        last = (done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["no message"])[-1]
        raise StrataError(f"planted {name}: the run ended with status {done.returncode}: {last}")
    answer: dict[str, Any] = json_file.read(out / "run.json", "the run")
    if answer["status"] != COMPLETE:
        raise StrataError(f"planted {name}: the run ended with status {answer['status']!r}, expected {COMPLETE!r}")
    return answer


def environment(tree: FilePath) -> dict[str, str]:
    """The environment of a process that imports from `tree` alone."""
    return os.environ | {"PYTHONPATH": str(tree)}


def _confirm(answer: Mapping[str, Any], tree: FilePath, mutant: Mutant) -> None:
    """Raises StrataError unless what ran was imported from `tree`, and its kernels have the fault's text."""
    if FilePath(answer["package"]).resolve() != tree / "strata":
        raise StrataError(f"planted {mutant.name}: {answer['package']} ran, expected the copy in {tree}")
    for edit in mutant.edits:
        digest = hashlib.sha256((tree / edit.file).read_bytes()).hexdigest()
        if answer["sources"].get(edit.file.removeprefix(_KERNELS)) != digest:
            raise StrataError(f"planted {mutant.name}: {edit.file} has another digest in the run")
