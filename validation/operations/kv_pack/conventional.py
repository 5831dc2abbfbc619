"""Checks in common use on packing: K and V uniform in [-1, 1], cells in order, every page resident.

The comparison is of the values that are packed, as such checks do it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from strata.executors.base import Executor
from strata.kernels import kv_pack
from strata.kernels.paths import Path
from strata.kernels.pool import HEAD_DIM, MODE_FORMATS, Pool
from validation.core.conventional import Conventional, judge, stream_of, uniform
from validation.core.random_streams import Stream
from validation.operations.kv_pack import planes
from validation.operations.kv_pack.packing import ROTATED
from validation.operations.kv_pack.pages import page_table, place
from validation.operations.kv_pack.pool_values import values
from validation.operations.kv_pack.recipes import Pages
from validation.operations.kv_pack.reference import hadamard32

CELLS, PAGE, KV_HEADS = 256, 16, 2


class Friendly(NamedTuple):
    """k, v: float32 [cells, heads, dim]; table, pages: of the pool, as kernels take them."""

    k: np.ndarray
    v: np.ndarray
    table: np.ndarray
    pages: int


def friendly(stream: Stream) -> Friendly:
    """Cells in order, on pages that are all resident."""
    k, v = (uniform(stream.child(name), (CELLS, KV_HEADS, HEAD_DIM)) for name in "kv")
    return Friendly(k, v, *page_table(stream.child("pages"), Pages.IN_ORDER, CELLS, PAGE))


def pool(data: Friendly, mode: str, rotated: tuple[bool, bool] = (False, False)) -> Pool:
    """The pool of the data by the reference. rotated: whether rows of K and of V are rotated first."""
    stored = [hadamard32(x) if turn else x for x, turn in zip((data.k, data.v), rotated, strict=True)]
    keys, rows = (planes.pack(x, form) for x, form in zip(stored, MODE_FORMATS[mode], strict=True))
    return place(keys, rows, mode, data.table, data.pages, PAGE)


def _run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    data = friendly(stream_of(seed))
    due = pool(data, path.mode, ROTATED[path.mode])
    made = kv_pack.pack(executor, path.mode, data.k, data.v, page_size=PAGE, table=data.table, pages=data.pages).pool
    return judge(_flat(made), _flat(due))


def _flat(pool: Pool) -> np.ndarray:
    """float64: the values of every cell of a pool."""
    with np.errstate(all="ignore"):
        return np.stack(values(pool, np.arange(CELLS)))


CHECKS = Conventional(_run)
