"""What a pull request changes, read from git objects: one added record, or the reasons why it is no submission.

Nothing of the pull request is checked out or run. Of its trees only those are read that lead to the folder of records,
and entries are compared one by one, so that no attribute, no rename rule and no setting of diff has a say, and a tree
of any number of paths costs nothing: it is one entry too many. The one blob is read after its size is known.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path as FilePath

from ci.objects import CannotCheckError as CannotCheckError
from ci.objects import Entry, MissingError, TooLargeError, git, listed, parents, read, root_tree
from ci.objects import commit as commit
from strata.executors.base import StrataError
from validation.record import canonical
from validation.record.canonical import LARGEST, RecordError

#: Where accepted records lie, exactly so: a directory of another case is another directory.
FOLDER = "strata/gates/records"
PLAIN_FILE, DIRECTORY = "100644", "040000"
#: Commits that a pull request may have beside those of the base.
MOST_COMMITS = 100
#: Reasons shown; the rest are counted.
SHOWN = 10

_CUT_OFF = "the history is cut off (shallow): fetch all of it"
_NAME = re.compile(r"[0-9a-f]{64}\.json")
_KINDS = {"120000": "the link", "160000": "the submodule", "100755": "the executable file", DIRECTORY: "the directory"}

#: The entries of one directory by name.
Tree = Mapping[str, Sequence[Entry]]


class RefusedError(StrataError):
    """It is no submission. reasons: a line each, which begins with a word for the rule."""

    def __init__(self, reasons: Sequence[str]) -> None:
        more = [f"shape: and {len(reasons) - SHOWN} more"] if len(reasons) > SHOWN else []
        self.reasons = (*reasons[:SHOWN], *more)
        super().__init__("; ".join(self.reasons))


@dataclass(frozen=True)
class Candidate:
    """A file that may be a record. name: what it is called, its digest and `.json`; data: its bytes; blob: git's name
    of these; commits: how many brought it."""

    name: str
    data: bytes
    blob: str = ""
    commits: int = 0


def added(repository: FilePath, base: str, head: str) -> Candidate:
    """The record that the commits from `base` to `head` add, both full names of commits.

    Raises RefusedError when they do anything else, CannotCheckError when that cannot be told.
    """
    fork, commits = _fork(repository, base, head)
    reasons, found = _compare(repository, fork, head)
    if reasons:
        raise RefusedError(reasons)
    if len(found) != 1:
        raise RefusedError([f"shape: it adds {len(found)} records, expected one"])
    (entry,) = found
    path = f"{FOLDER}/{entry.name}"
    if entry.name in _records(repository, base):
        raise RefusedError([f"shape: {path} is there already"])
    with _bounded(path):
        data = read(repository, entry.oid, "blob", LARGEST)
    return named(entry.name, data, entry.oid, commits)


def from_file(file: FilePath) -> Candidate:
    """The record in a file, which must be a plain one. Raises RefusedError, and CannotCheckError for no such file."""
    try:
        return named(file.name, canonical.read(file))
    except RecordError as error:
        if error.rule == "file":
            raise CannotCheckError(str(error)) from error
        raise RefusedError([f"{error.rule}: {error}"]) from error


def named(name: str, data: bytes, blob: str = "", commits: int = 0) -> Candidate:
    """The candidate of some bytes. Raises RefusedError unless they are called by their digest."""
    digest = hashlib.sha256(data).hexdigest()
    if name != f"{digest}.json":
        raise RefusedError([f"name: the file is called {shown(name)}, expected {digest}.json, its own SHA-256"])
    return Candidate(name, data, blob, commits)


def shown(path: str) -> str:
    """An untrusted path in printable ASCII, cut."""
    return ascii(path)[1:-1][:120]


def _fork(repository: FilePath, base: str, head: str) -> tuple[str, int]:
    """The commit from which `head` left `base`, and how many commits it has beside those of the base.

    Its history is walked commit by commit, as far as the base, so that no size of a commit and no number of them is
    the author's choice.
    """
    ours = set(git(repository, "rev-list", base, most=None).decode().split())
    waiting, beside, left = [head], set[str](), set[str]()
    while waiting:
        one = waiting.pop()
        if one in ours:
            left.add(one)
        elif one not in beside:
            beside.add(one)
            if max(len(beside), len(left)) > MOST_COMMITS:
                raise _apart(repository, f"it has more than {MOST_COMMITS} commits that the base lacks: rebase it")
            with _bounded(f"its commit {one}"):
                waiting += _parents(repository, one)
    if not left:
        raise _apart(repository, "it shares no commit with the base")
    if len(left) > 1:
        left = set(git(repository, "merge-base", "--independent", *sorted(left)).decode().split())
    if len(left) != 1:
        raise RefusedError([f"shape: it left the base at {len(left)} commits, expected one: rebase it"])
    return left.pop(), len(beside)


def _parents(repository: FilePath, commit: str) -> list[str]:
    try:
        return parents(repository, commit)
    except MissingError as error:
        if _is_cut_off(repository):
            raise CannotCheckError(_CUT_OFF) from error
        raise


def _apart(repository: FilePath, reason: str) -> StrataError:
    """The error on a history that does not fit the base: a refusal, unless a part of it may not be here."""
    return CannotCheckError(_CUT_OFF) if _is_cut_off(repository) else RefusedError([f"shape: {reason}"])


def _is_cut_off(repository: FilePath) -> bool:
    return git(repository, "rev-parse", "--is-shallow-repository").strip() == b"true"


def _compare(repository: FilePath, fork: str, head: str) -> tuple[list[str], list[Entry]]:
    """Reasons against the change, and the records it adds. Trees are read that lead to the records, and no other."""
    reasons: list[str] = []
    records: list[Entry] = []
    old, place = root_tree(repository, fork), ""
    with _bounded(f"its commit {head}"):
        new = root_tree(repository, head)
    for step in (*FOLDER.split("/"), None):
        before = listed(repository, old)
        with _bounded(f"the directory {place or 'at the top'}"):
            after = listed(repository, new)
        follow = None
        for name in sorted(before.keys() | after.keys()):
            was, now = before.get(name, []), after.get(name, [])
            if was == now:
                continue
            if name == step and _is_directory(was) and _is_directory(now):
                follow = was[0].oid, now[0].oid
            elif step is None and not was and _is_record(now):
                records += now
            else:
                reasons.append(_reason(place + name, was, now))
        if follow is None:
            break
        (old, new), place = follow, f"{place}{step}/"
    return reasons, records


def _records(repository: FilePath, commit: str) -> Tree:
    """The entries of the folder of records of a commit; none where it has no such folder."""
    tree = listed(repository, root_tree(repository, commit))
    for step in FOLDER.split("/"):
        found = tree.get(step, [])
        if not _is_directory(found):
            return {}
        tree = listed(repository, found[0].oid)
    return tree


@contextmanager
def _bounded(what: str) -> Iterator[None]:
    """What the pull request holds is refused where it is larger than what is read."""
    try:
        yield
    except TooLargeError as error:
        raise RefusedError([f"size: {what} has {error}"]) from error


def _is_directory(entries: Sequence[Entry]) -> bool:
    return [(entry.mode, entry.kind) for entry in entries] == [(DIRECTORY, "tree")]


def _is_record(entries: Sequence[Entry]) -> bool:
    return [(entry.mode, entry.kind) for entry in entries] == [(PLAIN_FILE, "blob")] and (
        _NAME.fullmatch(entries[0].name) is not None
    )


def _reason(path: str, old: Sequence[Entry], new: Sequence[Entry]) -> str:
    where = shown(path)
    if not new:
        return f"shape: it removes {where}"
    if len(new) > 1:
        return f"shape: it names {where} {len(new)} times"
    what = _KINDS.get(new[0].mode, "the file")
    if not old:
        return f"shape: it adds {what} {where}, expected one plain file {FOLDER}/<sha256>.json"
    if [entry.oid for entry in old] == [new[0].oid]:
        return f"shape: it changes the mode of {where}"
    if new[0].mode == DIRECTORY:
        return f"shape: it changes the directory {where}, expected one new file in {FOLDER}"
    return f"shape: it changes {where}"
