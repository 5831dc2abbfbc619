"""Calls a built kernel: the C interface of `runtime/entry.hpp` through ctypes."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from strata.executors.base import ArgumentsError, ExecutorUnavailable, LaunchError, LaunchLimitError
from strata.executors.lanes.loading import hint
from strata.executors.lanes.rules import Rule
from strata.forks import ForkLock, Home

_MESSAGE_BYTES = 1024
#: A launch uses every core, and handles faults of the whole process while it runs.
_ONE_AT_A_TIME = ForkLock()
#: Seconds between two looks at a launch.
_LOOK_S = 0.1
#: Workers whose stacks are kept for the next launch, for each size of a block.
_MOST_SPARE = 32
#: What stops a launch that takes too long, mirrored in runtime/machine.hpp.
_TOO_LONG = 2
_FORKED = "this process was forked during the launch, which goes on in its parent alone"


class _Extent(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("writable", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("written", ctypes.c_void_p),
        ("item", ctypes.c_uint64),
    ]


class _Request(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("dim", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("rule_block", ctypes.c_int),
        ("rule_frac", ctypes.c_int),
        ("workers", ctypes.c_int),
        ("n_args", ctypes.c_int),
        ("n_extents", ctypes.c_int),
        ("args", ctypes.POINTER(ctypes.c_void_p)),
        ("extents", ctypes.POINTER(_Extent)),
        ("next", ctypes.c_uint64),
        ("finished", ctypes.c_uint64),
        ("stop", ctypes.c_int),
        ("faulted", ctypes.c_int),
        ("message", ctypes.c_char * _MESSAGE_BYTES),
        ("spare", ctypes.POINTER(ctypes.c_void_p)),
        ("n_spare", ctypes.c_int),
    ]


@dataclass(frozen=True)
class Region:
    """Memory that a launch may touch.

    Parameters
    ----------
    address
        The address of the first byte.
    nbytes
        How many bytes.
    name
        What messages call it.
    writable
        Whether lanes may write there.
    written
        The address of one byte for each of its own, which says whether somebody wrote it; None where nobody watches
        who touches it.
    item
        Bytes of an element.
    """

    address: int
    nbytes: int
    name: str
    writable: bool
    written: int | None = None
    item: int = 1


@dataclass(frozen=True)
class Request:
    """One launch.

    Parameters
    ----------
    entry
        The name of the function.
    grid
        Blocks along x, y and z.
    block
        Threads of a block.
    shared_bytes
        Dynamic shared memory of a block, in bytes.
    values
        Each argument as the bytes that the kernel's parameter holds.
    regions
        Memory that the launch may touch.
    rule
        The tensor core's arithmetic.
    seed
        Permutes the order of lanes and blocks; 64 bits of it count.
    workers
        Threads that run blocks.
    first
        The block that it begins with, in the order in which x counts fastest.
    """

    entry: str
    grid: tuple[int, int, int]
    block: int
    shared_bytes: int
    values: tuple[bytes, ...]
    regions: tuple[Region, ...]
    rule: Rule
    seed: int
    workers: int
    first: int = 0


@cache
def _load(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise ExecutorUnavailable(
            f"a compiled kernel cannot be loaded from {path.parent}: {reason}{hint(reason)}"
        ) from None
    library.strata_launch.argtypes = [ctypes.POINTER(_Request)]
    library.strata_launch.restype = ctypes.c_int
    return library


@cache
def _spare(block: int) -> ctypes.Array[ctypes.c_void_p]:
    """Places where launches of so many threads a block leave stacks for the next one."""
    return (ctypes.c_void_p * _MOST_SPARE)()


def parameter_sizes(path: Path) -> tuple[int, ...]:
    """Bytes of each parameter of the kernel in the library `path`."""
    library = _load(path)
    out = (ctypes.c_int * library.strata_arity())()
    library.strata_sizes(out)
    return tuple(out)


def check_values(entry: str, sizes: Sequence[int], values: Sequence[bytes]) -> None:
    """Refuse arguments that are not those of a kernel.

    Parameters
    ----------
    entry
        The name of the function, for the message.
    sizes
        Bytes of each parameter of the kernel.
    values
        The bytes of each argument.

    Raises
    ------
    ArgumentsError
        Unless there are as many arguments as parameters, each of its parameter's size.
    """
    if len(sizes) != len(values):
        raise ArgumentsError(f"{entry} takes {len(sizes)} arguments, {len(values)} given")
    for i, (size, value) in enumerate(zip(sizes, values, strict=True)):
        if size != len(value):
            raise ArgumentsError(f"{entry}: argument {i} has {len(value)} bytes, its parameter {size}")


def launch(
    path: Path,
    request: Request,
    progress: Callable[[int], None] | None = None,
    limit_s: float | None = None,
) -> int:
    """Run a kernel of a library.

    The work happens on other threads, so that Ctrl-C stops it at the next barrier or between two blocks.

    Parameters
    ----------
    path
        The library.
    request
        What to run, and on what.
    progress
        Called with the number of blocks finished, every now and then.
    limit_s
        Seconds after which it is stopped, wherever its lanes are.

    Returns
    -------
    int
        How many blocks finished.

    Raises
    ------
    ArgumentsError
        For arguments that are not those of the kernel.
    LaunchError
        With the message of the first lane that broke a rule, and in a child that was forked meanwhile, where the other
        threads are not.
    LaunchLimitError
        When it takes longer than `limit_s`.
    """
    library = _load(path)
    check_values(request.entry, parameter_sizes(path), request.values)
    cells = [ctypes.create_string_buffer(value, len(value)) for value in request.values]
    args = (ctypes.c_void_p * len(cells))(*[ctypes.addressof(cell) for cell in cells])
    extents = (_Extent * len(request.regions))(
        *[_Extent(r.address, r.nbytes, int(r.writable), r.name.encode(), r.written, r.item) for r in request.regions]
    )
    c = _Request(
        grid=request.grid,
        dim=(request.block, 1, 1),
        shared_bytes=request.shared_bytes,
        seed=request.seed & (2**64 - 1),
        rule_block=request.rule.block,
        rule_frac=request.rule.frac,
        workers=request.workers,
        n_args=len(cells),
        n_extents=len(request.regions),
        args=args,
        extents=extents,
        next=request.first,
        spare=_spare(request.block),
        n_spare=_MOST_SPARE,
    )
    status: list[int] = []
    # A plain lock, released at the end: whoever waits for it in a forked child gets its time limit, and no more locks.
    done, home = threading.Lock(), Home()
    done.acquire()

    began: list[float] = []

    def work() -> None:
        with _ONE_AT_A_TIME:
            began.append(time.monotonic())
            status.append(library.strata_launch(ctypes.byref(c)))
        done.release()

    thread = threading.Thread(target=work)
    try:
        thread.start()
        while not status:
            done.acquire(timeout=_LOOK_S)
            if home.left:
                raise LaunchError(f"{request.entry}: {_FORKED}")
            if progress is not None and not status:
                progress(int(c.finished))
            if limit_s is not None and began and not status and time.monotonic() - began[0] > limit_s:
                c.stop = _TOO_LONG
    except BaseException:
        c.stop = 1
        while thread.ident is not None and not status and not home.left:
            # It uses the caller's memory, whatever is pressed meanwhile. Not Thread.join: before Python 3.13 an
            # interrupted join takes a running thread for a finished one.
            with suppress(KeyboardInterrupt):
                done.acquire(timeout=_LOOK_S)
        raise
    if progress is not None:
        progress(int(c.finished))
    if c.stop == _TOO_LONG:
        where = c.message.decode(errors="replace") or request.entry
        raise LaunchLimitError(f"{where}: the launch takes longer than {limit_s:g} s")
    if status != [0]:
        raise LaunchError(c.message.decode(errors="replace") or f"{request.entry}: the launch ended with {status}")
    return int(c.finished)


def scalar_bytes(value: np.generic) -> bytes:
    """The bytes of a NumPy scalar as the host's C++ compiler lays it out."""
    return np.asarray(value).tobytes()
