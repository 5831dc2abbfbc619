"""The paged KV pool of one layer, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from strata.executors.base import Buffer, Executor, StrataError

#: Dims of a head, the one size every attention kernel is written for.
HEAD_DIM = 256
#: Query heads that share a KV head, the geometries the kernels are built for.
GROUPS = (4, 8, 12)


class Format(NamedTuple):
    """How one row, a cell of one KV head, is kept.

    Parameters
    ----------
    code
        The number in include/kv_format.cuh.
    row
        Elements of an array row.
    dtype
        The dtype of the elements.
    scales
        binary16 scales beside the row.
    """

    code: int
    row: int
    dtype: str
    scales: int


FORMATS = {
    "fp16": Format(0, HEAD_DIM, "float16", 0),
    "int8": Format(1, HEAD_DIM, "int8", 4),
    "q4_0": Format(2, 144, "uint8", 0),
}
#: Formats of K and of V by mode.
MODE_FORMATS = {
    "fp16": ("fp16", "fp16"),
    "int8": ("int8", "int8"),
    "k8v4": ("int8", "q4_0"),
    "q4_0": ("q4_0", "q4_0"),
}
#: Modes of attention and of packing in the order in which the project lists them.
MODES = tuple(MODE_FORMATS)


def mode_formats(mode: str) -> tuple[Format, Format]:
    """The formats of K and of V. Raises StrataError for an unknown mode."""
    try:
        k, v = MODE_FORMATS[mode]
    except KeyError:
        raise StrataError(f"mode {mode!r}: expected one of {', '.join(MODE_FORMATS)}") from None
    return FORMATS[k], FORMATS[v]


@dataclass(frozen=True)
class Pool:
    """Paged KV storage of one layer.

    The physical row of cell c and KV head j is `(table[c // page_size] * n_head_kv + j) * page_size + c % page_size`.

    Parameters
    ----------
    mode
        A key of `MODE_FORMATS`.
    page_size
        Cells of a page.
    n_head_kv
        KV heads.
    k, v
        [pages, n_head_kv, page_size, 256] float16 or int8, or [..., 144] uint8 for q4_0 (8 blocks of 18 bytes).
    k_scale, v_scale
        float16 [pages, n_head_kv, page_size, 4], one for 64 dims, of int8 planes; None for others.
    table
        int32 [logical pages], the physical page, or -1 when it is not resident.
    """

    mode: str
    page_size: int
    n_head_kv: int
    k: np.ndarray
    v: np.ndarray
    k_scale: np.ndarray | None
    v_scale: np.ndarray | None
    table: np.ndarray

    def check(self) -> None:
        """Refuse arrays that are not what the mode needs.

        Raises
        ------
        StrataError
            For the first such array, which the message names, for sizes below 1, for 2^31 rows or more, and for a table
            that names a page that does not exist.
        """
        if self.page_size < 1 or self.n_head_kv < 1:
            raise StrataError(f"pool: page_size {self.page_size} and n_head_kv {self.n_head_kv} must be at least 1")
        k_format, v_format = mode_formats(self.mode)
        pages = self.k.shape[0]
        for name, plane, scale, fmt in (("k", self.k, self.k_scale, k_format), ("v", self.v, self.v_scale, v_format)):
            shape = (pages, self.n_head_kv, self.page_size, fmt.row)
            if plane.shape != shape or plane.dtype != fmt.dtype:
                raise StrataError(
                    f"pool {self.mode}: {name} is {plane.dtype} {plane.shape}, expected {fmt.dtype} {shape}"
                )
            if fmt.scales == 0:
                if scale is not None:
                    raise StrataError(f"pool {self.mode}: {name}_scale given, expected none")
            elif scale is None or scale.shape != (*shape[:3], fmt.scales) or scale.dtype != np.float16:
                got = "nothing" if scale is None else f"{scale.dtype} {scale.shape}"
                raise StrataError(
                    f"pool {self.mode}: {name}_scale is {got}, expected float16 {(*shape[:3], fmt.scales)}"
                )
        rows = pages * self.n_head_kv * self.page_size
        if rows >= 1 << 31:
            raise StrataError(f"pool: {rows} rows, expected fewer than 2^31")
        if self.table.ndim != 1 or self.table.dtype != np.int32:
            raise StrataError(f"pool: table is {self.table.dtype} {self.table.shape}, expected int32 [logical pages]")
        if self.table.size and not -1 <= int(self.table.min()) <= int(self.table.max()) < pages:
            lowest, highest = int(self.table.min()), int(self.table.max())
            raise StrataError(f"pool: table names pages {lowest} to {highest}, expected -1 to {pages - 1}")


class PoolBuffers(NamedTuple):
    """A pool's arrays as kernel arguments, in the order in which the attention kernels take them.

    Parameters
    ----------
    k
        The plane of keys.
    k_scale
        Its scales, None where its format has none.
    v
        The plane of values.
    v_scale
        Its scales, None where its format has none.
    table
        The page table.
    """

    k: Buffer
    k_scale: Buffer | None
    v: Buffer
    v_scale: Buffer | None
    table: Buffer


def to_executor(executor: Executor, pool: Pool) -> PoolBuffers:
    """Copy a pool into buffers of an executor.

    Parameters
    ----------
    executor
        Where the buffers are made.
    pool
        The pool.
    """
    return PoolBuffers(
        executor.array(pool.k, "k pool"),
        None if pool.k_scale is None else executor.array(pool.k_scale, "k scales"),
        executor.array(pool.v, "v pool"),
        None if pool.v_scale is None else executor.array(pool.v_scale, "v scales"),
        executor.array(pool.table, "page table"),
    )
