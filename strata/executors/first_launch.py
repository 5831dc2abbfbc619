"""Whether kernels run on an executor: a tiny one is built anew, loaded and launched, and its output compared.

That a compiler answers, or that a directory can be written, does not say so: the compiler may build for another
machine, and the directory may not hold programs.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import numpy as np

from strata.executors import cache
from strata.executors.base import Executor, Kernel, LaunchError, Witness

_BLOCKS, _THREADS = 3, 64
#: A number that no kernel built before can know: below it there is room for the threads.
_NUMBERS = 2**31 - _BLOCKS * _THREADS


def first_launch(executor: Executor) -> Witness:
    """Build, load and launch the kernel; nothing of it is kept in the cache.

    Raises
    ------
    ExecutorUnavailable, BuildError
        When the kernel cannot be built or loaded.
    LaunchError
        When it cannot be run, or stores something else than it must.
    """
    number = secrets.randbelow(_NUMBERS)
    place = str(Path(__file__).resolve().parent)
    kernel = Kernel("first_launch", "first_launch", _THREADS, 0, (("NUMBER", number),), place)
    with cache.apart():
        # (1 + 2^-12)^2 rounds to 1 + 2^-11; with one rounding in all, 2^-24 would be left.
        x = executor.array(np.array([1 + 2.0**-12, 1 + 2.0**-12, -(1 + 2.0**-11)], np.float32), "x")
        out = executor.empty((_BLOCKS * _THREADS, 2), np.uint32, name="out")
        witness = executor.launch(kernel, (_BLOCKS, 1, 1), [x, out])
    expected = np.zeros((_BLOCKS * _THREADS, 2), np.uint32)
    expected[:, 0] = number + np.arange(_BLOCKS * _THREADS)
    if not np.array_equal(out.host(), expected) or not out.guards_intact():
        raise LaunchError(f"a kernel that was built, loaded and launched stored wrong numbers ({executor.arch})")
    return witness
