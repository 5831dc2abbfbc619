"""Reads JSON that anybody may have written, and says in its own words why a text is none that this project wrote."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path as FilePath
from typing import Any, NoReturn

from strata.executors.base import StrataError, system_reason

#: Bytes that a file may have: a run of the full profile over all paths has below 20 MiB.
LARGEST = 64 << 20
#: Lists and objects that may be open at once: a run needs 9.
DEEPEST = 64
#: Digits of a whole number: seeds have 20.
DIGITS = 32


class JsonError(StrataError):
    """A text that is no JSON, or that holds what no file of this project holds."""


def read(file: FilePath, what: str) -> Any:
    """The value of a file. what: names it in a message. Raises StrataError when it cannot be read, or is no JSON. A
    pipe or a device, which could keep a reader waiting, is not read."""
    try:
        with open(
            os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb"
        ) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise StrataError(f"{what} {str(file)!r} cannot be read: it is no plain file")
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise StrataError(f"{what} {str(file)!r} cannot be read: {system_reason(error)}") from error
    try:
        return parse(data)
    except JsonError as error:
        raise StrataError(f"{what} {str(file)!r} cannot be read: {error}") from error


def parse(text: str | bytes) -> Any:
    """The value of a text, in UTF-8 when it is bytes. Raises JsonError."""
    if len(text) > LARGEST:
        raise JsonError(f"it has more than {LARGEST:,} bytes")
    try:
        text = text.decode() if isinstance(text, bytes) else text
        value = json.loads(text, parse_int=_number, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise JsonError(f"it is not UTF-8: {error.reason} at byte {error.start}") from error
    except RecursionError:
        raise JsonError(_DEEP) from None
    except ValueError as error:
        raise JsonError(f"it is not JSON: {error}") from error
    _shallow(value)
    return value


_DEEP = f"it nests deeper than {DEEPEST} lists and objects"


def _shallow(value: Any) -> None:
    """Raises JsonError for what whoever goes through it, level by level, would fall over."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(DEEPEST):
        level = [
            item
            for one in level
            for item in (one.values() if isinstance(one, dict) else one)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return
    raise JsonError(_DEEP)


def _number(digits: str) -> int:
    if len(digits) > DIGITS:
        raise JsonError(f"it holds a number of {len(digits):,} digits, expected at most {DIGITS}")
    return int(digits)


def _no_number(name: str) -> NoReturn:
    raise JsonError(f"it holds {name}, which is not JSON")
