"""Packing K and V rows into a paged pool, and the rotation that Q4_0 rows go through first.

INT8: per 64 dims, s = fp16(max|x| / 127); code = clamp(rint(x / s), -127, 127), to nearest even and
against the stored s; all codes are 0 when s is.

Q4_0: per 32 dims, m the element of largest magnitude, the first one when several have it (the rule of
ggml and the gguf package; so +a before -a gives d = -a/8, and the other order +a/8), d = m / -8,
code = clamp(trunc(x (1/d) + 8.5), 0, 15), each operation rounded to FP32 and d not yet to fp16; stored
d = fp16(d). m gets code 0. These are the bytes of the gguf package from 0.18 on.

Rotation: the orthonormal 256-point Hadamard transform H x / 16 in Sylvester order, its own inverse.
Q4_0 rotates K, V and q and turns the output back; K8V4 rotates V alone.

FP16: x to nearest even.

Every value that is not finite, and every value of a group whose scale overflows binary16, is counted in `lost`; a
caller that gets lost > 0 must not use the rows. Their bytes are specified all the same: INT8 and Q4_0 pack a value
that is not finite as they pack +0, so the rest of its group keeps its bytes; an overflowed scale is stored as
infinity, with the codes of the formulas above, where x / infinity is 0; FP16 stores an infinity as it is and every
NaN as 7fff. The rotation spreads such a value over its row, which is then stored as zeros and counted whole.

Below 2^-125 the 1/d of Q4_0 is infinite: such a block has codes 15, 0 and, where x is 0 as well, 0 again (0 times
infinity is a NaN, which converts to 0); gguf's bytes differ there. Its stored scale is 0, so every code means zero.

References
----------
Q4_0 is ggml's, `ggml-quants.c` and the `gguf` package of https://github.com/ggml-org.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from strata.executors.base import POISON_OUTPUT, Buffer, Executor, Kernel, StrataError, Witness
from strata.kernels.descriptor import Descriptor
from strata.kernels.limits import without_matrix
from strata.kernels.path import Path
from strata.kernels.pool import HEAD_DIM, MODE_FORMATS, MODES, Pool, mode_formats

THREADS = 128  # 4 rows a block
_ROWS = THREADS // 32
_DEFINES = (("TIER", 60),)


class Packed(NamedTuple):
    """A pool with rows in it.

    Parameters
    ----------
    pool
        The pool.
    lost
        How many values no format could hold: those that are not finite, or beyond their scale.
    witnesses
        One for each launch.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    pool: Pool
    lost: int
    witnesses: list[Witness]
    guards_ok: bool


def kernel(entry: str) -> Kernel:
    """One of the entries of kv_pack.cu: `kv_pack_fp16`, `kv_pack_int8`, `kv_pack_q4_0`, `hadamard_256`."""
    return Kernel("kv_pack", entry, THREADS, 0, _DEFINES)


def kernels(path: Path) -> list[Kernel]:
    """What a run of the path launches: packing in each format of its mode, and the rotation where a plane has it."""
    entries = sorted({f"kv_pack_{form}" for form in MODE_FORMATS[path.mode]})
    return [kernel(entry) for entry in (*entries, *["hadamard_256"] * any(rotated_planes(path.mode)))]


def rotated_planes(mode: str) -> tuple[bool, bool]:
    """Whether K (and so q) and V (and so the output) of a mode live in the rotated domain."""
    return {"q4_0": (True, True), "k8v4": (False, True)}.get(mode, (False, False))


def empty_pool(mode: str, pages: int, page_size: int, n_head_kv: int, table: np.ndarray) -> Pool:
    """A pool of poison: NaN scales and values.

    Parameters
    ----------
    mode
        A key of `pool.MODE_FORMATS`.
    pages
        Physical pages.
    page_size
        Cells of a page.
    n_head_kv
        KV heads.
    table
        int32 [logical pages], entries below `pages` or -1.

    Raises
    ------
    StrataError
        For an unknown mode.
    """
    planes: list[np.ndarray] = []
    scales: list[np.ndarray | None] = []
    for fmt in mode_formats(mode):
        shape = (pages, n_head_kv, page_size)
        planes.append(np.full((*shape, fmt.row * np.dtype(fmt.dtype).itemsize), 0xFF, np.uint8).view(fmt.dtype))
        scales.append(np.full((*shape, fmt.scales), np.nan, np.float16) if fmt.scales else None)
    return Pool(mode, page_size, n_head_kv, planes[0], planes[1], scales[0], scales[1], table)


def append(
    executor: Executor,
    pool: Pool,
    k: np.ndarray,
    v: np.ndarray,
    cells: int | Sequence[int] | np.ndarray,
) -> Packed:
    """Write rows into a pool, rotated where the mode asks for it, and return the new pool.

    Rows on pages that are not resident are left out.

    Parameters
    ----------
    executor
        Where it runs.
    pool
        The pool, which is not changed.
    k, v
        float32 [n, n_head_kv, 256], not rotated.
    cells
        The logical cell of the first row, the rest following it (a prompt, or one cell), or n cells, one a row (a batch
        of steps).

    Raises
    ------
    StrataError
        For shapes, dtypes and cells that do not fit.
    """
    pool.check()
    shape = (k.shape[0] if k.ndim else 0, pool.n_head_kv, HEAD_DIM)
    for name, x in (("k", k), ("v", v)):
        if x.shape != shape or x.dtype != np.float32 or shape[0] < 1:
            raise StrataError(f"{name} is {x.dtype} {x.shape}, expected float32 [rows, {pool.n_head_kv}, {HEAD_DIM}]")
    n = shape[0]
    listed = None if isinstance(cells, int | np.integer) else np.asarray(cells)
    if listed is None:
        first = int(cells)  # type: ignore[arg-type]
        last = first + n - 1
    else:
        if listed.shape != (n,) or listed.dtype.kind not in "iu":
            raise StrataError(f"cells are {listed.dtype} {listed.shape}, expected {n} whole numbers, one a row")
        if len(np.unique(listed)) != n:
            raise StrataError("cells: one is named twice, and the order of two writes is open")
        first, last = int(listed.min()), int(listed.max())
    limit = pool.table.size * pool.page_size
    if first < 0 or last >= limit:
        raise StrataError(f"cells from {first} to {last}, expected 0 to {limit - 1}, the cells of the page table")
    _check_rows(pool, np.arange(first, last + 1) if listed is None else listed)

    steps: Buffer | None = None
    if listed is not None:
        records = np.zeros((n, 4), np.int32)
        records[:, 0] = listed
        steps = executor.array(records, "steps")
    table = executor.array(pool.table, "page table")
    lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
    rows = n * pool.n_head_kv
    grid = (-(-rows // _ROWS), 1, 1)
    tail = (
        np.int32(rows),
        np.int32(pool.n_head_kv),
        np.int32(0 if listed is not None else first),
        np.int32(pool.page_size),
    )
    witnesses: list[Witness] = []
    buffers: list[Buffer] = [table, lost]
    planes: list[np.ndarray] = []
    scales: list[np.ndarray | None] = []
    formats = MODE_FORMATS[pool.mode]
    old = ((pool.k, pool.k_scale), (pool.v, pool.v_scale))
    for name, fmt, x, (plane, scale), turned in zip(
        ("k", "v"), formats, (k, v), old, rotated_planes(pool.mode), strict=True
    ):
        source: Buffer = executor.array(x.reshape(rows, HEAD_DIM), name)
        if turned:
            buffers.append(source)
            given, source = source, executor.empty((rows, HEAD_DIM), np.float32, name=f"rotated {name}")
            witnesses.append(_rotate(executor, given, source, rows))
        target = executor.array(plane, f"{name} pool", written=True)
        scale_buffer = None if scale is None else executor.array(scale, f"{name} scales", written=True)
        pointers = (source, steps, table, target, *(() if scale_buffer is None else (scale_buffer,)), lost)
        witnesses.append(executor.launch(kernel(f"kv_pack_{fmt}"), grid, (*pointers, *tail)))
        planes.append(target.host())
        scales.append(None if scale_buffer is None else scale_buffer.host())
        buffers += [source, target, *(() if scale_buffer is None else (scale_buffer,))]
    made = Pool(pool.mode, pool.page_size, pool.n_head_kv, planes[0], planes[1], scales[0], scales[1], pool.table)
    intact = all(buffer.guards_intact() for buffer in buffers)
    return Packed(made, int(lost.host()[0]), witnesses, intact)


def _check_rows(pool: Pool, cells: np.ndarray) -> None:
    """Raises StrataError when two cells lie in one row, because two logical pages share a physical one."""
    pages = pool.table[cells // pool.page_size].astype(np.int64)
    here = pages >= 0
    rows, first, count = np.unique(
        pages[here] * pool.page_size + cells[here] % pool.page_size, return_index=True, return_counts=True
    )
    if (count > 1).any():
        doubled = int(np.argmax(count > 1))
        cell, page = int(cells[here][first[doubled]]), int(rows[doubled]) // pool.page_size
        raise StrataError(
            f"cell {cell} shares its row of page {page} with another one, and the order of two writes is open"
        )


def pack(
    executor: Executor, mode: str, k: np.ndarray, v: np.ndarray, *, page_size: int, table: np.ndarray, pages: int
) -> Packed:
    """A new pool that holds rows as cells 0..n-1.

    Parameters
    ----------
    executor
        Where it runs.
    mode
        A key of `pool.MODE_FORMATS`.
    k, v
        float32 [n, n_head_kv, 256], not rotated.
    page_size
        Cells of a page.
    table
        int32 [logical pages], entries below `pages` or -1.
    pages
        Physical pages.

    Raises
    ------
    StrataError
        As `append`, and for an unknown mode.
    """
    return append(executor, empty_pool(mode, pages, page_size, k.shape[1], table), k, v, 0)


def _rotate(executor: Executor, x: Buffer, out: Buffer, rows: int) -> Witness:
    return executor.launch(kernel("hadamard_256"), (-(-rows // _ROWS), 1, 1), (x, out, np.int32(rows)))


def hadamard(executor: Executor, x: np.ndarray) -> np.ndarray:
    """H x / 16 along the last axis, where H is the 256-point Hadamard matrix in Sylvester order.

    Parameters
    ----------
    executor
        Where it runs.
    x
        float32 [..., 256].

    Returns
    -------
    float32 array
        Of the shape of x.

    Raises
    ------
    StrataError
        For another dtype or shape, and for a kernel that wrote beside its buffers.

    References
    ----------
    J. J. Sylvester, "Thoughts on inverse orthogonal matrices", Philosophical Magazine 34, 1867.
    """
    if x.dtype != np.float32 or x.ndim < 1 or x.shape[-1] != HEAD_DIM or x.size == 0:
        raise StrataError(f"x is {x.dtype} {x.shape}, expected float32 [..., {HEAD_DIM}]")
    rows = x.size // HEAD_DIM
    source = executor.array(np.ascontiguousarray(x).reshape(rows, HEAD_DIM), "x")
    out = executor.empty((rows, HEAD_DIM), np.float32, poison=POISON_OUTPUT, name="out")
    _rotate(executor, source, out, rows)
    if not (source.guards_intact() and out.guards_intact()):
        raise StrataError("hadamard_256 wrote beside its buffers")
    return out.host().reshape(x.shape)


DESCRIPTOR = Descriptor(
    name="kv_pack",
    takes="kv_pack",
    modes=MODES,
    tiers=("simt",),
    kernels=kernels,
    limits=lambda path, entry, arch: without_matrix(),
)
