"""The bytes of a record: canonical JSON (RFC 8785) without floats, and a reader that trusts nothing.

Numbers are whole and below 2**53; a float that matters is the hex digits of its bits. So one value has one spelling,
and a record is named by the SHA-256 of its bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from pathlib import Path as FilePath
from typing import Any, NoReturn

import rfc8785

from strata.executors.base import StrataError

#: Bytes a record may have: a standard one is below 4 MiB.
LARGEST = 16 << 20
#: Brackets and braces that may be open at once; the schema needs 7.
DEEPEST = 12
#: Digits of a number: all below 2**53 have at most 16.
DIGITS = 16
LARGEST_NUMBER = (1 << 53) - 1
#: Values a record may hold, lists and objects among them: one of the full profile over all paths has below 200,000.
MOST_VALUES = 400_000
#: A whole string, so that brackets in it do not count, or a bracket. Possessive, and content with a string that never
#: ends: a search that began anew at each quote in it would take the square of its length.
_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?|[\[\]{}]', re.DOTALL)


class RecordError(StrataError):
    """Bytes that are no record.

    Parameters
    ----------
    rule
        The short name of what they break.
    message
        One line.
    """

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


def encode(value: Any) -> bytes:
    """The canonical bytes of a value.

    Parameters
    ----------
    value
        What JSON has, without floats.

    Raises
    ------
    RecordError
        For floats and for what JSON does not have.

    References
    ----------
    RFC 8785, JSON Canonicalization Scheme (JCS), 2020.
    """
    _whole(value)
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise RecordError("canonical", f"the record cannot be written: {error}") from error


def name_of(data: bytes) -> str:
    """SHA-256 of a record's bytes, 64 hex digits: its name."""
    return hashlib.sha256(data).hexdigest()


def read(file: FilePath) -> bytes:
    """The bytes of a file.

    A link is not followed, and a pipe or device, which could keep a reader waiting, is not read.

    Parameters
    ----------
    file
        The file.

    Raises
    ------
    RecordError
        Of rule `file` when there is no such plain file, of rule `size` when it is too large.
    """
    shown = ascii(file.name)[1:-1][:80]
    flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))
    try:
        with os.fdopen(os.open(file, flags), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise RecordError("file", f"{shown} is not a plain file")
            # One byte past the limit tells; a claim of more is never read.
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise RecordError("file", f"{shown} cannot be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise RecordError("size", f"{shown} has more than {LARGEST:,} bytes, which no record has")
    return data


def decode(data: bytes) -> dict[str, Any]:
    """The value of canonical bytes.

    Checked before anything is built from the text: length, number of values, nesting, encoding. While it is built:
    duplicate keys, numbers that are not whole or too long, NaN and infinities. Afterwards: that writing it again gives
    these bytes.

    Parameters
    ----------
    data
        The bytes.

    Raises
    ------
    RecordError
        Of rule `size`, `json` or `canonical`.

    References
    ----------
    RFC 8785, JSON Canonicalization Scheme (JCS), 2020.
    """
    if len(data) > LARGEST:
        raise RecordError("size", f"{len(data):,} bytes, expected at most {LARGEST:,}")
    # Each value but the first of its list or object has a comma before it, and text holds few; each bracket ends and
    # each key and text has two quotes. Counting bytes takes no time, and bounds that of all that follows.
    counts = {mark: data.count(mark) for mark in (b",", b"[", b"{", b"]", b"}", b'"')}
    values = counts[b","] + counts[b"["] + counts[b"{"]
    if values > MOST_VALUES or counts[b'"'] > 4 * MOST_VALUES or counts[b"]"] + counts[b"}"] > MOST_VALUES:
        raise RecordError("size", f"it holds more than {MOST_VALUES:,} values, which no record does")
    _shallow(data)
    try:
        value = json.loads(
            data.decode("utf-8", errors="strict"),
            object_pairs_hook=_unique,
            parse_int=_number,
            parse_float=_no_float,
            parse_constant=_no_float,
        )
    except RecordError:
        raise
    except UnicodeDecodeError as error:
        raise RecordError("json", f"not UTF-8: {error.reason} at byte {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError("json", f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise RecordError("json", f"the top is {type(value).__name__}, expected an object")
    _printable(value)
    if encode(value) != data:
        raise RecordError("canonical", "the bytes are not the canonical form (RFC 8785) of their value")
    return value


def _shallow(data: bytes) -> None:
    """Raises RecordError when brackets outside of strings nest too deep."""
    depth = 0
    for found in _BRACKETS.finditer(data):
        mark = found[0]
        depth += 1 if mark in b"[{" else -1 if mark in b"]}" else 0
        if depth > DEEPEST:
            raise RecordError("json", f"nested deeper than {DEEPEST}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise RecordError("json", f"the key {twice[:80]!a} occurs twice")
    return found


def _number(text: str) -> int:
    if len(text.lstrip("-")) > DIGITS or abs(int(text)) > LARGEST_NUMBER:
        raise RecordError("json", f"the number {text[:24]} is beyond 2**53 - 1")
    return int(text)


def _no_float(text: str) -> NoReturn:
    raise RecordError("json", f"{text[:24]} is not a whole number")


def _printable(value: Any) -> None:
    """Raises RecordError for text with anything but printable ASCII: no look-alikes, no line ends."""
    if isinstance(value, str) and not (value.isascii() and value.isprintable()):
        raise RecordError("text", f"{value[:40]!a} holds more than printable ASCII")
    if isinstance(value, dict):
        for key, inner in value.items():
            _printable(key)
            _printable(inner)
    elif isinstance(value, list):
        for inner in value:
            _printable(inner)


def _whole(value: Any) -> None:
    """Raises RecordError for a float, or a whole number that JSON readers disagree on."""
    if isinstance(value, float) or (isinstance(value, int) and abs(value) > LARGEST_NUMBER):
        raise RecordError("canonical", f"the record holds {value!r}, expected whole numbers below 2**53")
    if isinstance(value, dict):
        for inner in value.values():
            _whole(inner)
    elif isinstance(value, list):
        for inner in value:
            _whole(inner)
