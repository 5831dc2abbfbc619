"""Which rows of which cases a record must show: decided by a hash of all outputs, so nobody can choose them.

A row is what its operation says: words of 32 bits, little endian. Its leaf also holds the case and its place, so a row
cannot stand for another. `seed` is the root over all cases; changing any output changes every choice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from validation.core.row_words import words

#: Rows shown of each case. A run that is wrong in a share s of its rows is found with 1 - (1 - s)**rows.
ROWS = 2
#: Rows shown of a case of at least this many rows: one whose size was published.
LARGE, LARGE_ROWS = 4096, 8


def row_bytes(path: str, case: str, row: int, values: np.ndarray) -> bytes:
    """What a leaf is made of. values: float32 or int32, the row."""
    head = f"{path}\n{case}\n{row}\n".encode()
    return head + words(values).tobytes()


def chosen(seed: str, index: int, rows: int) -> list[int]:
    """The rows of case `index` that must be shown, ascending, each once. seed: 64 hex digits."""
    count = min(rows, LARGE_ROWS if rows >= LARGE else ROWS)
    found: set[int] = set()
    for number in _numbers(f"{seed}\n{index}"):
        if len(found) == count:
            break
        found.add(number % rows)  # rows is below 2**32 and numbers are of 64 bits: even to 2**-32
    return sorted(found)


def one_of(rows: np.ndarray, seed: str, index: int, group: int) -> int:
    """One of these rows, which are a group of case `index` that must not go unasked."""
    return int(rows[next(_numbers(f"{seed}\n{index}\ngroup {group}")) % len(rows)])


def _numbers(subject: str) -> Iterator[int]:
    count = 0
    while True:
        digest = hashlib.sha256(f"strata challenge\n{subject}\n{count}\n".encode()).digest()
        yield int.from_bytes(digest[:8], "big")
        count += 1
