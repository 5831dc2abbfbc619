"""Git objects, read within limits: what a pull request holds does not decide how much is read of it.

Nothing is checked out or run, and no object is opened before its kind and size are known. A tree is read by itself,
never with what is below it.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import IO

from strata.executors.base import StrataError
from strata.shown import shown

#: Seconds for one git command.
GIT_SECONDS = 120
#: Bytes that a git command may print about a pull request.
MOST_SAID = 4 << 20
#: Bytes of a commit and of a tree: some thousand parents or files, a hundred times what this project has.
LARGEST_COMMIT = 64 << 10
LARGEST_TREE = 256 << 10
_SAID_OF_ERRORS = 64 << 10

_OID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
#: What git resolves before any reference of the same name.
_PSEUDO = ("HEAD", "FETCH_HEAD")


class CannotCheckError(StrataError):
    """Nobody can say whether the change is a submission; the message says what is missing."""


class MissingError(CannotCheckError):
    """An object that is not there, as behind the end of a history that is cut off."""


class TooLargeError(StrataError):
    """An object of more bytes than are read. size, most: in bytes."""

    def __init__(self, size: int, most: int) -> None:
        self.size, self.most = size, most
        super().__init__(f"{size:,} bytes, expected at most {most:,}")


@dataclass(frozen=True)
class Entry:
    """One line of a tree. name: as git has it, undecodable bytes as surrogates."""

    name: str
    mode: str
    kind: str
    oid: str


def git(repository: FilePath, *words: str, said: bytes = b"", most: int | None = MOST_SAID) -> bytes:
    """What a git command that only reads prints.

    said: its standard input; most: bytes that it may print, None for what the base alone decides. Raises
    CannotCheckError when it fails, prints more, or takes too long.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # Objects as they are: no replacement that was fetched, none fetched later, no refreshed index, no question.
    environment |= {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1"}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        with subprocess.Popen(
            ["git", "-C", str(repository), *words],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            late = threading.Timer(GIT_SECONDS, process.kill)
            late.start()
            errors = _Head(process.stderr, _SAID_OF_ERRORS)
            try:
                process.stdin.write(said)
                process.stdin.close()
                out = process.stdout.read(-1 if most is None else most + 1)
                if most is not None and len(out) > most:
                    process.kill()
                    raise CannotCheckError(f"git {words[0]} prints more than {most:,} bytes")
                process.wait()
            finally:
                late.cancel()
                errors.join()
    except OSError as error:
        raise CannotCheckError(f"git {words[0]}: {error}") from error
    if process.returncode != 0:
        told = errors.kept.decode(errors="replace").strip().splitlines() or [f"status {process.returncode}"]
        raise CannotCheckError(f"git {words[0]}: {shown(told[-1], 300)}")
    return out


def commit(repository: FilePath, reference: str) -> str:
    """The full name of a commit: of 40 digits, `HEAD`, `FETCH_HEAD`, a whole name such as `refs/heads/main`, or the
    short name of one branch or tag.

    Raises CannotCheckError for anything else. A tag called `main` goes before the branch, and tags come along when a
    fork is fetched: the fork's verifier would be taken for the main branch's.
    """
    kinds = [f"refs/{kind}/{reference}" for kind in ("tags", "heads", "remotes")]
    names = [reference] if reference.startswith("refs/") else kinds
    listed = git(repository, "for-each-ref", "--format=%(refname) %(objectname)", *names).decode().splitlines()
    same = {name: oid for name, _, oid in (line.partition(" ") for line in listed) if name in names}
    if reference in _PSEUDO:
        same[reference] = ""
    if len(same) > 1:
        raise CannotCheckError(f"{reference!a} means {' and '.join(sorted(same))}: expected the whole name of one")
    if _OID.fullmatch(reference):
        found = reference
    elif same:
        ((name, found),) = same.items()
        found = found or git(repository, "rev-parse", "--verify", "--end-of-options", name).decode().strip()
    else:
        raise CannotCheckError(
            f"{reference!a} is no commit of {repository}: expected all of its digits, or a name such as refs/heads/main"
        )
    kind, _ = header(repository, found)
    if kind != "commit":
        raise CannotCheckError(f"{reference!a} is no commit of {repository}: it is a {kind}")
    return found


def header(repository: FilePath, oid: str) -> tuple[str, int]:
    """Kind and size in bytes of an object, which is not opened. Raises MissingError where there is none."""
    told = git(repository, "cat-file", "--batch-check", said=f"{oid}\n".encode()).decode().split()
    if len(told) != 3:
        raise MissingError(f"the object {oid} is not in {repository}")
    return told[1], int(told[2])


def checked(repository: FilePath, oid: str, kind: str, most: int) -> int:
    """The size of an object. Raises TooLargeError when it is larger, CannotCheckError when it is of another kind."""
    found, size = header(repository, oid)
    if found != kind:
        raise CannotCheckError(f"the object {oid} is a {found}, expected a {kind}")
    if size > most:
        raise TooLargeError(size, most)
    return size


def read(repository: FilePath, oid: str, kind: str, most: int) -> bytes:
    """The bytes of an object, which is opened after its size is known. Raises as `checked` does."""
    size = checked(repository, oid, kind, most)
    return git(repository, "cat-file", kind, oid, most=size)


def parents(repository: FilePath, oid: str) -> list[str]:
    """The parents of a commit. Raises TooLargeError, and MissingError where the history is cut off."""
    head, _, _ = read(repository, oid, "commit", LARGEST_COMMIT).partition(b"\n\n")
    lines = (line.partition(b" ") for line in head.split(b"\n"))
    return [value.decode() for key, _, value in lines if key == b"parent"]


def root_tree(repository: FilePath, commit: str) -> str:
    """The name of a commit's tree. Raises TooLargeError."""
    first, _, _ = read(repository, commit, "commit", LARGEST_COMMIT).partition(b"\n")
    return first.removeprefix(b"tree ").decode()


def listed(repository: FilePath, tree: str) -> dict[str, list[Entry]]:
    """The entries of one tree by name, without what is below them; several of one name only in a tree that no honest
    git wrote. Raises TooLargeError."""
    checked(repository, tree, "tree", LARGEST_TREE)
    found: dict[str, list[Entry]] = {}
    for line in git(repository, "ls-tree", "-z", "--full-tree", tree).split(b"\0")[:-1]:
        words, _, name = line.partition(b"\t")
        mode, kind, oid = words.decode().split()
        entry = Entry(os.fsdecode(name), mode, kind, oid)
        found.setdefault(entry.name, []).append(entry)
    return found


class _Head(threading.Thread):
    """Reads a pipe to its end and keeps its first bytes."""

    def __init__(self, pipe: IO[bytes], most: int) -> None:
        super().__init__(daemon=True)
        self.kept = b""
        self._pipe, self._most = pipe, most
        self.start()

    def run(self) -> None:
        while data := self._pipe.read(self._most):
            self.kept = self.kept or data
