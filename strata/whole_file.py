"""Writes files that are there whole or not at all: a full disk leaves what was there before, and nothing beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path as FilePath
from typing import IO

from strata.executors.base import StrataError, system_reason


@contextmanager
def replacing(file: FilePath) -> Iterator[IO[bytes]]:
    """An open file that takes the place of `file` when the block ends, and is gone when it raises. A device, such as
    /dev/stdout, is written as it is.

    Raises StrataError with the system's reason when it cannot be written.
    """
    try:
        if file.exists() and not file.is_file():
            with file.open("wb") as opened:
                yield opened
            return
        target = file.resolve()  # a link stays one
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with draft.open("wb") as opened:
                yield opened
                opened.flush()
                os.fsync(opened.fileno())
            os.replace(draft, target)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise
    except OSError as error:
        raise _cannot(file, error) from error


def write(file: FilePath, data: str | bytes) -> None:
    """Replace `file` by `data`, text as UTF-8; directories on the way are made. Raises StrataError with the system's
    reason when it cannot be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot(file, error) from error
    with replacing(file) as opened:
        opened.write(data.encode() if isinstance(data, str) else data)


def _cannot(file: FilePath, error: OSError) -> StrataError:
    return StrataError(f"cannot write {str(file)!r}: {system_reason(error)}")
