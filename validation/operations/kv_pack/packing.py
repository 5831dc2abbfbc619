"""The packing kernels as they are called: one seam, so that a test can put others there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from strata.executors.base import Executor
from strata.kernels import kv_pack
from strata.kernels.kv_pack import Packed
from strata.kernels.pool import Pool
from validation.core.handed import handed

#: Modes whose K, and whose V, are stored rotated.
ROTATED = {"fp16": (False, False), "int8": (False, False), "k8v4": (False, True), "q4_0": (True, True)}


@dataclass(frozen=True)
class Packing:
    """The packing kernels under test, each of which is handed copies.

    Parameters
    ----------
    pack
        A whole pool.
    append
        Rows appended to one.
    hadamard
        The rotation alone.
    """

    pack: Callable[..., Packed] = kv_pack.pack
    append: Callable[..., Packed] = kv_pack.append
    hadamard: Callable[[Executor, np.ndarray], np.ndarray] = kv_pack.hadamard

    def __post_init__(self) -> None:
        for name in ("pack", "append", "hadamard"):
            object.__setattr__(self, name, handed(getattr(self, name)))


def pack(
    executor: Executor, mode: str, k: np.ndarray, v: np.ndarray, page_size: int, table: np.ndarray, pages: int
) -> Pool:
    """The pool that the kernel under test makes.

    Parameters
    ----------
    k, v
        float32 [cells, kv, 256], not rotated.
    table
        int32 [logical pages], physical pages below `pages`, or -1.
    """
    made: Packed = Packing().pack(executor, mode, k, v, page_size=page_size, table=table, pages=pages)
    return made.pool
