"""What the author's objects refuse: one line that names the value and what was expected.

Everything of the author's file that can be refused is refused when the object is made, so that the line of the file
which made it can be named.
"""

from __future__ import annotations

import re
from typing import Any

from strata.executors.base import StrataError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def refuse(what: str, value: object, expected: str) -> StrataError:
    """The error for a value that cannot be used.

    Parameters
    ----------
    what : str
        What the value stands for, such as ``Size.least``.
    value : object
        The value, shown as Python writes it, shortened.
    expected : str
        What would have been right.

    Returns
    -------
    StrataError
        To be raised by the caller.
    """
    text = " ".join(repr(value).split())
    return StrataError(f"{what} is {text if len(text) <= 80 else text[:77] + '...'}, expected {expected}")


def whole(what: str, value: Any, least: int, most: int | None = None) -> int:
    """`value` as an int, which must be a whole number of `least` to `most`. Raises StrataError."""
    range_ = f"a whole number of {least} to {most}" if most is not None else f"a whole number of {least} or more"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise refuse(what, value, range_)
    number = int(value.__index__())
    if number < least or (most is not None and number > most):
        raise refuse(what, value, range_)
    return number


def name(what: str, value: Any) -> str:
    """`value`, which must be a name as Python and C write them. Raises StrataError."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise refuse(what, value, "a name of letters, digits and _ that begins with no digit")
    return value


def text(what: str, value: Any) -> str:
    """`value`, which must be a text with a word in it. Raises StrataError."""
    if not isinstance(value, str) or not value.strip():
        raise refuse(what, value, "a text that is not empty")
    return value


def callable_(what: str, value: Any, takes: str) -> None:
    """Raises StrataError unless `value` can be called. takes: what it is called with, for the message."""
    if not callable(value):
        raise refuse(what, value, f"a function of {takes}")
