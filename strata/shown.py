"""Text that somebody else chose, made such that it can be shown: a file's, a program's, a command line's.

A terminal obeys what it is sent. A record, a run or the name of a file can hold escape sequences that colour, move the
cursor back over a verdict or set the title, marks that turn the direction of text, and line ends that begin a line of
their own. All of these are shown as escapes, of ASCII letters, and nothing of them is sent.
"""

from __future__ import annotations

import re
import sys
from typing import Any

#: What does not print: controls (C0, DEL, C1), marks of direction and of width, surrogates, line ends of Unicode.
_MUTE = re.compile("[^ -~]")
#: Of a program's own lines.
_LAYOUT = "\n\t"


def shown(value: object, longest: int = sys.maxsize) -> str:
    r"""A value as one line of text, in which characters that do not print are escapes such as `\u001b`.

    Parameters
    ----------
    value
        Any object; its `str` is shown.
    longest
        Characters of the text that are shown before it is cut and ends in `...`.
    """
    text = value if isinstance(value, str) else str(value)
    return _escaped(text[:longest]) + ("..." if len(text) > longest else "")


def printable(text: str) -> str:
    """A text in which every line is as `shown` gives it, with line ends and tabs kept: for text that a program has put
    together."""
    return text if text.isprintable() else _escaped(text, _LAYOUT)


def _escaped(text: str, kept: str = "") -> str:
    return _MUTE.sub(lambda found: _escape(found[0], kept), text)


def _escape(char: str, kept: str) -> str:
    if char.isprintable() or char in kept:
        return char
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"


def shown_throughout(value: Any) -> Any:
    """A value of JSON whose every text, keys among them, is `shown`: so that nobody further on has to remember."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {shown(key): shown_throughout(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shown_throughout(item) for item in value]
    return value
