"""Keeps finished mutants of a run in a file, so that an interrupted one goes on where it was."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Any

from strata.executors.base import StrataError
from strata.forks import ForkLock
from validation.host import json_file, whole_file
from validation.host.json_file import JsonError
from validation.mutants.mutant import PACKAGES, ROOT, TESTS, Mutant
from validation.mutants.trial import Kill, Outcome

SCHEMA = "strata-mutants/1"


def digest_of_sources(root: FilePath = ROOT) -> str:
    """SHA-256 over names and bytes of all that a trial copies."""
    digest = hashlib.sha256()
    for name in (*PACKAGES, *TESTS):
        files = sorted((root / name).rglob("*")) if (root / name).is_dir() else [root / name]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(file.relative_to(root).as_posix().encode() + b"\0")
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


class Store:
    """Outcomes in DIR/mutants.json, one write each. directory None keeps nothing.

    What another state of the sources left there is not taken over. Raises StrataError when the file cannot be
    read or written.
    """

    def __init__(self, directory: FilePath | None, executor: str) -> None:
        self.file = directory / "mutants.json" if directory else None
        self._lock = ForkLock()
        self._head = {"schema": SCHEMA, "executor": executor, "sources": digest_of_sources()}
        self._kept: dict[str, dict[str, Any]] = {}
        if self.file and self.file.exists():
            try:
                found = json_file.parse(self.file.read_bytes())
                if found["schema"] != SCHEMA:
                    raise ValueError(f"schema {found['schema']!r}, expected {SCHEMA!r}")
                kept = {one["name"]: one for one in found["mutants"]}
                self._kept = kept if {name: found[name] for name in self._head} == self._head else {}
            except (OSError, ValueError, LookupError, TypeError, JsonError) as error:
                raise StrataError(
                    f"{self.file} is not a file of mutants: {error}; remove it or name another"
                ) from error

    def find(self, mutant: Mutant) -> Outcome | None:
        """What is kept of a mutant that was judged, from these very sources."""
        one = self._kept.get(mutant.name)
        if one is None or one["status"] == "error":
            return None
        kill = Kill(**(one["kill"] | {"checks": tuple(one["kill"]["checks"])})) if one["kill"] else None
        return Outcome(one["name"], one["status"], kill, one["usual"], one["note"])

    def add(self, outcome: Outcome) -> None:
        """Keep one outcome."""
        if not self.file:
            return
        with self._lock:
            self._kept[outcome.name] = asdict(outcome)
            text = json.dumps(self._head | {"mutants": list(self._kept.values())}, indent=1)
            whole_file.write(self.file, text + "\n")
