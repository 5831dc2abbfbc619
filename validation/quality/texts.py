"""Real text for prompts and losses: it ships with Python, so that every machine has it and nothing is fetched.

First a document of the `email` package, which is hardly ever edited, then the topics of `help()`, by name: the text
that `validation.captured` runs its model over. The digest of the tokens tells which text a run had.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from strata.executors.base import StrataError, system_reason
from validation.captured.capture import source_text

Int64 = NDArray[np.int64]


class Tokenizer(Protocol):
    """What cuts text: the engine's tokenizer."""

    def encode(self, text: str) -> Iterator[int]:
        """Token ids of a text, the first one the model's first token; lazily."""
        ...


def text_of(file: FilePath | None) -> str:
    """The text of a file in UTF-8, or without one that which ships with this Python.

    Raises
    ------
    StrataError
        When the file cannot be read.
    """
    if file is None:
        return source_text()[0]
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = system_reason(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise StrataError(f"--text {str(file)!r} cannot be read: {reason}") from error


def tokens(tokenizer: Tokenizer, text: str, count: int) -> Int64:
    """The first tokens of a text, the model's first token included. Raises StrataError when it has fewer."""
    found = np.fromiter(itertools.islice(tokenizer.encode(text), count), np.int64)
    if len(found) < count:
        raise StrataError(f"tokens: {count}, expected at most {len(found)}, the length of the text")
    return found


def prompts(tokenizer: Tokenizer, text: str, count: int, length: int) -> list[Int64]:
    """Prompts of one length from places all over a text, none twice.

    Each begins with the model's first token; the text is cut into `count` equal parts by its characters, and a prompt
    is the start of its part, from the first line that begins there.

    Parameters
    ----------
    tokenizer
        What cuts the text.
    text
        The text.
    count, length
        How many prompts, and tokens of each.

    Raises
    ------
    StrataError
        When a part is too short for a prompt.
    """
    found = []
    for index in range(count):
        start = len(text) * index // count
        line = text.find("\n", start) + 1 if index else 0
        part = text[line : len(text) * (index + 1) // count]
        one = np.fromiter(itertools.islice(tokenizer.encode(part), length), np.int64)
        if len(one) < length:
            raise StrataError(f"prompts: {count} of {length} tokens, expected at most {len(one)} in part {index}")
        found.append(one)
    return found


def digest(many: list[Int64]) -> str:
    """SHA-256 of lists of tokens, as little-endian 64-bit numbers behind their counts."""
    whole = hashlib.sha256()
    for one in many:
        whole.update(np.int64(len(one)).astype("<i8").tobytes() + one.astype("<i8").tobytes())
    return whole.hexdigest()
