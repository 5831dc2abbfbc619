"""What a pull request changes, read from git objects: one added record, or the reasons why it is no submission.

Nothing of the pull request is checked out or run. Trees are listed and compared entry by entry, so that no attribute,
no rename rule and no setting of diff has a say; the one blob is read after its size is known.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

from strata.executors.base import StrataError
from validation.record import canonical
from validation.record.canonical import LARGEST, RecordError

#: Where accepted records lie, exactly so: a directory of another case is another directory.
FOLDER = "strata/gates/records"
PLAIN_FILE = "100644"
#: Seconds for one git command.
GIT_SECONDS = 120
#: Reasons shown; the rest are counted.
SHOWN = 10

_NAME = re.compile(r"[0-9a-f]{64}\.json")
_KINDS = {"120000": "the link", "160000": "the submodule", "100755": "the executable file"}


class CannotCheckError(StrataError):
    """Nobody can say whether the change is a submission; the message says what is missing."""


class RefusedError(StrataError):
    """It is no submission. reasons: a line each, which begins with a word for the rule."""

    def __init__(self, reasons: Sequence[str]) -> None:
        more = [f"shape: and {len(reasons) - SHOWN} more"] if len(reasons) > SHOWN else []
        self.reasons = (*reasons[:SHOWN], *more)
        super().__init__("; ".join(self.reasons))


@dataclass(frozen=True)
class Candidate:
    """A file that may be a record. name: what it is called, its digest and `.json`; data: its bytes; commits: how
    many brought it."""

    name: str
    data: bytes
    commits: int = 0


@dataclass(frozen=True)
class Entry:
    """One line of a tree."""

    mode: str
    kind: str
    oid: str


def git(repository: FilePath, *words: str) -> bytes:
    """What a git command that only reads prints. Raises CannotCheckError when it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # Objects as they are: no replacement that was fetched, no refreshed index, no question to a person.
    environment |= {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    command = ["git", "-C", str(repository), *words]
    try:
        done = subprocess.run(command, capture_output=True, env=environment, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotCheckError(f"git {words[0]}: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
        raise CannotCheckError(f"git {words[0]}: {said[-1]}")
    return done.stdout


def commit(repository: FilePath, reference: str) -> str:
    """The full name of a commit. Raises CannotCheckError for what is none, and for a name that means several.

    A tag called `main` goes before the branch, and tags come along when a fork is fetched: the fork's verifier would
    be taken for the main branch's.
    """
    kinds = [f"refs/{kind}/{reference}" for kind in ("tags", "heads", "remotes")]
    listed = git(repository, "for-each-ref", "--format=%(refname)", *kinds).decode().split()
    same = [name for name in listed if name in kinds]
    if len(same) > 1:
        raise CannotCheckError(f"{reference!a} means {' and '.join(same)}: expected the whole name of one")
    try:
        found = git(repository, "rev-parse", "--verify", "--end-of-options", f"{reference}^{{commit}}")
    except CannotCheckError as error:
        raise CannotCheckError(f"{reference!a} is no commit of {repository}: {error}") from error
    return found.decode().strip()


def added(repository: FilePath, base: str, head: str) -> Candidate:
    """The record that the commits from `base` to `head` add, both full names of commits.

    Raises RefusedError when they do anything else, CannotCheckError when that cannot be told.
    """
    fork = _fork(repository, base, head)
    before, after = (_tree(repository, each) for each in (fork, head))
    reasons, found = _compare(before, after)
    if reasons:
        raise RefusedError(reasons)
    if len(found) != 1:
        raise RefusedError([f"shape: it adds {len(found)} records, expected one"])
    (path,) = found
    if path in _tree(repository, base):
        raise RefusedError([f"shape: {path} is there already"])
    oid = after[path][0].oid
    size = int(git(repository, "cat-file", "-s", oid))
    if size > LARGEST:
        raise RefusedError([f"size: {path} has {size:,} bytes, expected at most {LARGEST:,}"])
    commits = int(git(repository, "rev-list", "--count", head, f"^{base}"))
    return named(path.rpartition("/")[2], git(repository, "cat-file", "blob", oid), commits)


def from_file(file: FilePath) -> Candidate:
    """The record in a file, which must be a plain one. Raises RefusedError, and CannotCheckError for no such file."""
    try:
        return named(file.name, canonical.read(file))
    except RecordError as error:
        if error.rule == "file":
            raise CannotCheckError(str(error)) from error
        raise RefusedError([f"{error.rule}: {error}"]) from error


def named(name: str, data: bytes, commits: int = 0) -> Candidate:
    """The candidate of some bytes. Raises RefusedError unless they are called by their digest."""
    digest = hashlib.sha256(data).hexdigest()
    if name != f"{digest}.json":
        raise RefusedError([f"name: the file is called {shown(name)}, expected {digest}.json, its own SHA-256"])
    return Candidate(name, data, commits)


def shown(path: str) -> str:
    """An untrusted path in printable ASCII, cut."""
    return ascii(path)[1:-1][:120]


def _fork(repository: FilePath, base: str, head: str) -> str:
    """The commit from which `head` left `base`."""
    try:
        forks = git(repository, "merge-base", "--all", base, head).decode().split()
    except CannotCheckError as error:
        if git(repository, "rev-parse", "--is-shallow-repository").strip() == b"true":
            raise CannotCheckError("the history is cut off (shallow): fetch all of it") from error
        raise RefusedError(["shape: it shares no commit with the base"]) from error
    if len(forks) != 1:
        raise RefusedError([f"shape: it left the base at {len(forks)} commits, expected one: rebase it"])
    return forks[0]


def _tree(repository: FilePath, reference: str) -> dict[str, list[Entry]]:
    """Every entry of a commit's tree by its full path, directories among them; several of one path only in a tree
    that no honest git wrote."""
    found: dict[str, list[Entry]] = {}
    for line in git(repository, "ls-tree", "-r", "-t", "-z", "--full-tree", reference).split(b"\0")[:-1]:
        words, _, path = line.partition(b"\t")
        mode, kind, oid = words.decode().split()
        found.setdefault(os.fsdecode(path), []).append(Entry(mode, kind, oid))
    return found


def _compare(before: dict[str, list[Entry]], after: dict[str, list[Entry]]) -> tuple[list[str], list[str]]:
    """Reasons against the change, and the paths of the records it adds."""
    parents = {FOLDER[:end] for end, char in enumerate(FOLDER + "/") if char == "/"}
    reasons, records, trees = [], [], []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path, []), after.get(path, [])
        if old == new:
            continue
        if all(entry.kind == "tree" for entry in (*old, *new)):
            if path not in parents or len(new) != 1:
                trees.append(f"shape: it changes the directory {shown(path)}, expected one new file in {FOLDER}")
        elif not old and new == [Entry(PLAIN_FILE, "blob", new[0].oid)] and _is_record(path):
            records.append(path)
        else:
            reasons.append(_reason(path, old, new))
    # A changed directory is told by what is in it; by itself only where no file shows it.
    return reasons or trees, records


def _is_record(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder == FOLDER and _NAME.fullmatch(name) is not None


def _reason(path: str, old: list[Entry], new: list[Entry]) -> str:
    where = shown(path)
    if not new:
        return f"shape: it removes {where}"
    if old:
        moded = [entry.oid for entry in old] == [entry.oid for entry in new]
        return f"shape: it changes {'the mode of ' if moded else ''}{where}"
    what = _KINDS.get(new[0].mode, "the file")
    return f"shape: it adds {what} {where}, expected one plain file {FOLDER}/<sha256>.json"
