"""Reads fields of a file that anybody may have written: what is expected, or nothing, or an error that names it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from strata.executors.base import StrataError

LONGEST_LIST = 100_000


def number(value: Any) -> float | None:
    """A float, also of the texts that stand for what JSON has no number for."""
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def whole(value: Any) -> int | None:
    """A whole number of moderate size, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def text_of(value: Mapping[str, Any], key: str) -> str:
    """A text in an object, empty where there is none.

    Parameters
    ----------
    value
        The object.
    key
        Where in it.
    """
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def count_of(value: Mapping[str, Any], key: str, name: str) -> int:
    """A whole number in an object.

    Parameters
    ----------
    value
        The object.
    key
        Where in it.
    name
        The name of the file, for the message.

    Raises
    ------
    StrataError
        Where there is none.
    """
    found = whole(value.get(key))
    if found is None:
        raise StrataError(f"{name}: {key} is {value.get(key)!r:.60}, expected a whole number")
    return found


def object_of(value: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
    """An object in an object.

    Parameters
    ----------
    value
        The outer one.
    key
        Where in it.
    name
        The name of the file, for the message.

    Raises
    ------
    StrataError
        Where there is none.
    """
    found = value.get(key)
    if not isinstance(found, dict):
        raise StrataError(f"{name}: {key} is a {type(found).__name__}, expected an object")
    return found


def list_of(value: Mapping[str, Any], key: str, name: str) -> list[Any]:
    """A list in an object, which is not too long.

    Parameters
    ----------
    value
        The object.
    key
        Where in it.
    name
        The name of the file, for the message.

    Raises
    ------
    StrataError
        Where there is none.
    """
    found = value.get(key)
    if not isinstance(found, list) or len(found) > LONGEST_LIST:
        raise StrataError(f"{name}: {key} is a {type(found).__name__}, expected a list of at most {LONGEST_LIST:,}")
    return found


def digests_of(value: Any) -> dict[str, str]:
    """Texts by name, whatever else stands there."""
    return {key: item for key, item in value.items() if isinstance(item, str)} if isinstance(value, dict) else {}


def capability_of(value: Any) -> int | None:
    """`9.0` as 90."""
    if not isinstance(value, str):
        return None
    major, dot, minor = value.partition(".")
    known = dot and major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit() and len(value) < 6
    return int(major) * 10 + int(minor) if known else None
