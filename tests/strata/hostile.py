"""Texts that a terminal obeys, and what is to be found of them in an output."""

from __future__ import annotations

import unicodedata

#: What a terminal, a browser or a reader's eye obeys: controls, marks of direction, line ends, lone surrogates.
OBEYED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
#: Escape sequences in 7 and 8 bits, an overwritten line, a turned one, one that begins a line of its own.
SENT = (
    "\x1b[2J",
    "\x9b2J",
    "ok\rREFUSED",
    "a\x08\x08b",
    "\u202eDETPECCA",
    "x\nACCEPTED",
    "x\u2028y",
    "\ud800",
    "\x7f",
    "\u200b",
)


def obeyed(text: str, kept: str = "") -> list[str]:
    """The characters of a text that are obeyed, but for those that its program has put there."""
    return [char for char in text if char not in kept and unicodedata.category(char) in OBEYED]


def texts(value: object) -> list[str]:
    """Every text in a value of objects and lists, keys among them."""
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in texts(part)]
    return [text for part in value for text in texts(part)] if isinstance(value, list | tuple) else [str(value)]
