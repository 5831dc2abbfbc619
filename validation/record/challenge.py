"""Which rows of which cases a record must show: decided by a hash of all outputs, so nobody can choose them.

A row is one query and one query head: 256 float32, little endian. Its leaf also holds the case and its place, so a
row cannot stand for another. `seed` is the root over all cases; changing any output changes every choice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

#: Rows shown of each case. A run that is wrong in a share s of its rows is found with 1 - (1 - s)**rows.
ROWS = 2
#: Rows shown of a case of at least this many rows: one whose size was published.
LARGE, LARGE_ROWS = 4096, 8


def row_bytes(path: str, case: str, row: int, values: np.ndarray) -> bytes:
    """What a leaf is made of. values: float32 [256], the outputs of query row // n_head, head row % n_head."""
    head = f"{path}\n{case}\n{row}\n".encode()
    return head + np.ascontiguousarray(values, dtype="<f4").tobytes()


def chosen(seed: str, index: int, rows: int) -> list[int]:
    """The rows of case `index` that must be shown, ascending, each once. seed: 64 hex digits."""
    count = min(rows, LARGE_ROWS if rows >= LARGE else ROWS)
    found: set[int] = set()
    for number in _numbers(seed, index):
        if len(found) == count:
            break
        found.add(number % rows)  # rows is below 2**32 and numbers are of 64 bits: even to 2**-32
    return sorted(found)


def chosen_rows(seed: str, rows: Sequence[int]) -> list[tuple[int, int]]:
    """(case, row) of every row that must be shown. rows: how many each case has."""
    return [(index, row) for index, count in enumerate(rows) for row in chosen(seed, index, count)]


def _numbers(seed: str, index: int) -> Iterator[int]:
    count = 0
    while True:
        digest = hashlib.sha256(f"strata challenge\n{seed}\n{index}\n{count}\n".encode()).digest()
        yield int.from_bytes(digest[:8], "big")
        count += 1
