"""The records that the gate may read: the accepted ones of this package, and this machine's own.

Only what the gate needs is taken from a file. Accepted files went through the verifier before they were committed; a
file of this machine is its owner's, and one that another user could have put there is not read. So nothing is proved
here: a file that is damaged, too large or misnamed is left out with a line that says why.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath

from strata import ownership
from strata.gates.record import LARGEST, Record, RecordProblem, parse

ACCEPTED = FilePath(__file__).resolve().parent / "records"
#: Names the directory that holds `records/` with this machine's own; unset means the platform's place for state.
VARIABLE = "STRATA_STATE_DIR"
#: Files a directory may have, and bytes read of one directory.
MOST = 256
TOTAL = 256 << 20

_NAME = re.compile(r"([0-9a-f]{64})\.json")


@dataclass(frozen=True)
class Store:
    """The records of an installation.

    Parameters
    ----------
    records
        In order of their names, accepted ones first.
    problems
        One line for each file that was left out.
    """

    records: tuple[Record, ...] = ()
    problems: tuple[str, ...] = ()


def load(environ: Mapping[str, str] = os.environ, accepted: FilePath = ACCEPTED) -> Store:
    """Every usable record of the package and of this machine.

    Nothing is raised for what lies in the directories.

    Parameters
    ----------
    environ
        The variables that the directory of this machine's records is read from.
    accepted
        The directory of the records that everybody has.
    """
    found: list[Record] = []
    problems: list[str] = []
    for folder, local in ((accepted, False), (directory(environ), True)):
        if folder is not None:
            for item in _scan(folder, local):
                (found if isinstance(item, Record) else problems).append(item)  # type: ignore[arg-type]
    return Store(tuple(found), tuple(problems))


def directory(environ: Mapping[str, str] = os.environ) -> FilePath | None:
    """Where records of this machine lie; not created here. None when no home directory is known."""
    named = environ.get(VARIABLE)
    try:
        if named:
            return FilePath(named).expanduser().absolute() / "records"
        return _platform_directory(environ) / "strata" / "records"
    except RuntimeError:
        return None


def _age(file: FilePath) -> float:
    """Smaller for a newer file; the oldest of all when it cannot be asked."""
    try:
        return -file.lstat().st_mtime
    except OSError:
        return 0.0


def _scan(folder: FilePath, local: bool) -> Iterator[Record | str]:
    """The records of a directory, and a line for each file left out: those of this machine newest first, so that the
    limit on what is read leaves out the oldest; accepted ones in order of their names."""
    why = ownership.stranger(folder, private=True) if local else ""
    if why:
        yield f"records of this machine are not read: {why}, who could put records there"
        return
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix == ".json")
        if local:
            files.sort(key=_age)
    except FileNotFoundError:
        return
    except OSError as error:
        yield f"{folder} cannot be listed: {error.strerror}"
        return
    left = TOTAL
    for index, file in enumerate(files):
        shown = ascii(file.name)[1:-1][:80]
        if index == MOST or left <= 0:
            yield f"{folder}: only the first {index} records are read, at most {MOST} files and {TOTAL:,} bytes"
            return
        try:
            named = _NAME.fullmatch(file.name)
            if named is None:
                raise RecordProblem("expected a name of 64 hex digits and .json")
            data = _read(file, local)
            left -= len(data)
            yield parse(data, named[1], local)
        except RecordProblem as problem:
            yield f"record {shown} is left out: {problem}"


def _read(file: FilePath, local: bool) -> bytes:
    try:
        if not file.is_file():  # a pipe would be waited for, without end
            raise RecordProblem("not a plain file")
        with file.open("rb") as opened:
            why = ownership.of_file(file, os.fstat(opened.fileno()), private=True) if local else ""
            if why:
                raise RecordProblem(f"{why}, who could have written it")
            return opened.read(LARGEST + 1)  # one byte past the limit tells
    except OSError as error:
        raise RecordProblem(f"cannot be read: {error.strerror}") from error


def _platform_directory(environ: Mapping[str, str]) -> FilePath:
    if sys.platform == "win32":
        local = environ.get("LOCALAPPDATA")
        return FilePath(local) if local else FilePath.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return FilePath.home() / "Library" / "Application Support"
    xdg = environ.get("XDG_STATE_HOME", "")
    # The XDG specification: a relative path is invalid and to be ignored.
    return FilePath(xdg) if os.path.isabs(xdg) else FilePath.home() / ".local" / "state"
