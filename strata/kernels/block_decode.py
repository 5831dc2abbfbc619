"""Rows of a block format decoded on the device, by the functions with which kernels read experts.

It proves include/expert_formats.cuh on a machine and an architecture: the codes, scales and values it gives must be
those of `strata.formats`, bit for bit, since nothing in them is rounded (but the difference of Q5_K, once).
A NaN, of a scale that is one or of an infinite scale times 0, is stored as 7fffffff.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import POISON_OUTPUT, Executor, Kernel, StrataError, Witness
from strata.formats import block_format, device_table
from strata.formats.blocks import PART

THREADS = 128
#: Of the largest codebook, 1,024 entries of eight bytes.
GRID_BYTES = 8 * 1024
#: The formats of include/expert_formats.cuh.
DECODED = (
    "q4_0", "q8_0", "q5_k", "iq2_xxs", "iq2_xs", "iq3_xxs", "iq4_nl", "iq3_s", "iq2_s", "iq4_xs", "q2_0",
)  # fmt: skip
#: What lies before and between rows.
_FILL = 0xA5


class Decoded(NamedTuple):
    """values: float32 [rows, k], None when not asked for; codes: int8 [rows, k], of Q5_K 0..31; scales: float32
    [rows, k / 32 * scales of the format]."""

    values: np.ndarray | None
    codes: np.ndarray | None
    scales: np.ndarray
    witness: Witness
    guards_ok: bool


def kernel() -> Kernel:
    """The one kernel, for all formats."""
    return Kernel("block_decode", "block_decode", THREADS, GRID_BYTES, (("THREADS", THREADS),))


def decode(
    executor: Executor, name: str, rows: np.ndarray, *, first: int = 0, gap: int = 0, scales_only: bool = False
) -> Decoded:
    """Decode rows, uint8 [n, bytes of whole blocks], of the format `name`.

    first: the byte of a buffer, aligned to 256, where the first row begins; gap: bytes between rows. The buffer ends
    with the last row. Raises StrataError for a format that is none of `DECODED`, for rows that are no whole blocks, and
    for a `first` or `gap` that is negative or odd.
    """
    if name not in DECODED:
        raise StrataError(f"format {name!r} of expert weights: expected one of {', '.join(DECODED)}")
    form = block_format(name)
    if rows.dtype != np.uint8 or rows.ndim != 2 or rows.size == 0 or rows.shape[1] % form.nbytes:
        raise StrataError(
            f"rows are {rows.dtype} {rows.shape}, expected uint8 [rows, a multiple of {form.nbytes}, a block of {name}]"
        )
    for what, number in (("first", first), ("gap", gap)):
        if number < 0 or number % 2:
            raise StrataError(f"{what} is {number}, expected an even number of bytes, 0 or more")
    n, row_bytes = rows.shape
    k = row_bytes // form.nbytes * form.values
    parts = k // PART
    stride = row_bytes + gap
    laid = np.full(first + n * stride, _FILL, np.uint8)
    laid[first:].reshape(n, stride)[:, :row_bytes] = rows
    data = executor.array(laid[: len(laid) - gap], f"rows of {name}")
    words = device_table(name)
    table = executor.array(words, "codebook") if words.size else None
    scales = executor.empty((n, parts * form.scales), np.float32, poison=POISON_OUTPUT, name="scales")
    codes = values = None
    if not scales_only:
        codes = executor.empty((n, k // 4), np.uint32, poison=POISON_OUTPUT, name="codes")
        values = executor.empty((n, k), np.float32, poison=POISON_OUTPUT, name="values")
    numbers = (np.int64(first), np.int64(stride), np.int32(n), np.int32(parts), np.int32(form.ggml_type))
    witness = executor.launch(
        kernel(), (-(-n * parts // THREADS), 1, 1), (data, table, values, codes, scales, *numbers)
    )
    intact = all(buffer.guards_intact() for buffer in (data, table, scales, codes, values) if buffer is not None)
    return Decoded(
        None if values is None else values.host(),
        None if codes is None else codes.host().view(np.int8),
        scales.host(),
        witness,
        intact,
    )
