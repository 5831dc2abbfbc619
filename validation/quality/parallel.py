"""Work that NumPy does outside of Python's lock, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from strata.cpus import usable

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def each(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """What `work` makes of each item, in order. How many cores there are changes no result."""
    known = list(items)
    if len(known) < 2:  # no thread is worth it
        return [work(item) for item in known]
    with ThreadPoolExecutor(usable()) as pool:
        return list(pool.map(work, known))


def parts(total: int, rows: int) -> Iterator[slice]:
    """0..total in slices of `rows`, the last one shorter."""
    for first in range(0, total, rows):
        yield slice(first, min(first + rows, total))
