"""What people type: numbers, sizes, shares and names, in options, case texts, lines and switches. One set of parsers.

Digits are the ten of ASCII, without sign, separator or blank: `int` alone would take `1_0`, ` 7` and the digits of
every script, and answer for a number that nobody wrote. Each parser takes the text and raises `BadValueError`, whose
message begins with that text; argparse puts the option's name before it, `of` does elsewhere.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from strata.executors.base import StrataError

#: Characters of a text that a message shows.
SHOWN = 40
#: The largest number without a range of its own: what a seed may be.
LARGEST = (1 << 64) - 1
#: Processes or threads that anybody may ask for at once.
MOST_JOBS = 1024
#: A size without a unit is bytes; below this it was meant in another unit.
LEAST_PLAIN = 1024
#: Sizes are below this, bytes.
SIZES = 1 << 50

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
    "t": 1 << 40,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}

T = TypeVar("T")


class BadValueError(StrataError, argparse.ArgumentTypeError):
    """A text that says nothing where it stands; the message names it and what was expected."""


def shown(text: str) -> str:
    """A text as one short line of ASCII, in quotes."""
    return ascii(text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}...")


def of(name: str, parse: Callable[[str], T], text: str) -> T:
    """What a parser makes of a text, with the name of what was typed before a refusal.

    Parameters
    ----------
    name
        What was typed, for the message.
    parse
        A parser of this module, or one that refuses as these do.
    text
        What was typed.

    Raises
    ------
    BadValueError
        Where `parse` refuses the text.
    """
    try:
        return parse(text)
    except BadValueError as error:
        raise BadValueError(f"{name} {error}") from None


def whole(least: int = 0, most: int = LARGEST) -> Callable[[str], int]:
    """A parser of whole numbers in decimal digits.

    Parameters
    ----------
    least, most
        The range, both ends included.
    """
    return lambda text: _number(text, text, 1, least, most)


def thousands(least: int, most: int) -> Callable[[str], int]:
    """A parser of whole numbers in decimal digits, also in thousands of 1,024, such as `64k`.

    Parameters
    ----------
    least, most
        The range of the number, both ends included.
    """

    def parse(text: str) -> int:
        digits = text[:-1] if text[-1:] in ("k", "K") else text
        return _number(text, digits, 1024 if digits != text else 1, least, most)

    return parse


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers between commas, at least one. Raises BadValueError."""
    try:
        return tuple(whole()(part) for part in text.split(","))
    except BadValueError:
        raise BadValueError(f"{shown(text)}: expected whole numbers with commas between, e.g. 0,5,11,17") from None


def seconds(text: str) -> float:
    """A time above 0 in decimal digits, such as `2.5`. Raises BadValueError."""
    value = float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) else 0.0
    if value <= 0:
        raise BadValueError(f"{shown(text)}: expected seconds above 0, e.g. 2.5")
    return value


def share(text: str) -> float:
    """A number of 0 to 1. Raises BadValueError."""
    if re.fullmatch(r"[01](\.[0-9]{1,9})?", text) is None or float(text) > 1:
        raise BadValueError(f"{shown(text)}: expected 0 to 1, e.g. 0.9")
    return float(text)


def decimal(text: str) -> float:
    """A number of 0 or more in decimal digits, such as `0.7`. Raises BadValueError."""
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) is None:
        raise BadValueError(f"{shown(text)}: expected a number of 0 or more, e.g. 0.7")
    return float(text)


def capability(text: str) -> int:
    """Ten times a compute capability as people write it, `7.5`. Raises BadValueError."""
    match = re.fullmatch(r"([0-9]{1,2})\.([0-9])", text)
    if match is None:
        raise BadValueError(f"{shown(text)}: expected major.minor, e.g. 7.5")
    return 10 * int(match[1]) + int(match[2])


def size(text: str) -> int:
    """Bytes of `8GiB`, `512MiB`, `1.5 GB` or a plain number; part of a byte is cut. Raises BadValueError."""
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]{0,3})", text)
    unit = None if match is None else _UNITS.get(match[2].lower())
    if match is None or unit is None:
        raise BadValueError(f"{shown(text)}: expected a size, e.g. 8GiB, 512MiB or 700000000")
    nbytes = Decimal(match[1]) * unit
    if not match[2] and 0 < nbytes < LEAST_PLAIN:
        raise BadValueError(f"{shown(text)}: that is in bytes, expected a unit, e.g. {match[1]}GiB")
    if nbytes >= SIZES:
        raise BadValueError(f"{shown(text)}: expected less than 1 PiB")
    return int(nbytes)


def whole_mib(text: str) -> int:
    """Whole MiB of a size. Raises BadValueError for a part of one."""
    nbytes = size(text)
    if nbytes % (1 << 20):
        raise BadValueError(f"{shown(text)}: expected whole MiB")
    return nbytes >> 20


def word(text: str) -> str:
    """A text that is not empty. Raises BadValueError."""
    if not text.strip():
        raise BadValueError(f"{shown(text)}: expected a name")
    return text


def file(text: str) -> Path:
    """The name of a file or directory; an empty one would be the directory that the command runs in. Raises
    BadValueError."""
    if not text.strip() or "\0" in text:
        raise BadValueError(f"{shown(text)}: expected the name of a file or directory")
    return Path(text)


def _number(text: str, digits: str, unit: int, least: int, most: int) -> int:
    """The number of `digits` times `unit`; `text` is what a refusal shows."""
    known = re.fullmatch(r"0*([0-9]+)", digits)
    # A number of thousands of digits is beyond every range, and `int` does not read it.
    beyond = known is not None and len(known[1]) > len(str(most))
    value = most + 1 if beyond else least - 1 if known is None else int(known[1]) * unit
    if not least <= value <= most:
        range_ = f"of {least} or more" if most == LARGEST and value < least else f"of {least} to {most}"
        raise BadValueError(f"{shown(text)}: expected a whole number {range_}")
    return value
