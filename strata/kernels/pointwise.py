"""Kernels that take arrays element by element: their blocks, and runs of them on host arrays.

A thread takes four elements, the last one what is left, so the grid follows from the count alone. It reads what it
writes itself, and before it writes it: the output may lie over any of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from strata.executors.base import Buffer, Executor, StrataError, Witness

THREADS = 256
#: Elements of a thread.
VECTOR = 4


class Made(NamedTuple):
    """What a kernel of elements has made.

    Parameters
    ----------
    out
        float32, of the shape of the inputs.
    witnesses
        The witness of the one launch.
    guards_ok
        Whether no byte beside any buffer changed.
    """

    out: np.ndarray
    witnesses: list[Witness]
    guards_ok: bool


def grid(count: int) -> tuple[int, int, int]:
    """Blocks for so many elements."""
    return (-(-count // (VECTOR * THREADS)), 1, 1)


def run(
    executor: Executor,
    arrays: Mapping[str, np.ndarray],
    over: str | None,
    launch: Callable[[Mapping[str, Buffer], Buffer, int], Witness],
) -> Made:
    """Launch a kernel of elements on host arrays.

    Parameters
    ----------
    executor
        Where it runs.
    arrays
        The inputs by name, float32 of one shape with at least one element.
    over
        The input over whose buffer the output is written, None for a buffer of its own.
    launch
        Queues the kernel: it is given the inputs' buffers, the output's and the count of elements.

    Raises
    ------
    StrataError
        For shapes and dtypes that do not fit, and for `over` that names no input.
    """
    names = list(arrays)
    shape = arrays[names[0]].shape
    for name, x in arrays.items():
        if x.dtype != np.float32 or x.size < 1:
            raise StrataError(f"{name} is {x.dtype} {x.shape}, expected float32 with at least one element")
        if x.shape != shape:
            raise StrataError(f"{name} is float32 {x.shape}, expected {shape} as {names[0]} is")
    if over is not None and over not in arrays:
        raise StrataError(f"the output lies over {over!r}, expected None or one of {', '.join(names)}")
    buffers = {name: executor.array(x, name, written=name == over) for name, x in arrays.items()}
    out = executor.empty(shape, np.float32, name="out") if over is None else buffers[over]
    witness = launch(buffers, out, arrays[names[0]].size)
    intact = all(buffer.guards_intact() for buffer in (*buffers.values(), out))
    return Made(out.host(), [witness], intact)
