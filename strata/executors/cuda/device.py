"""The cuda executor: images built by NVRTC, loaded and launched through CuPy.

CuPy compiles nothing here: it loads finished images, copies memory and records events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from strata.executors.base import (
    POISON_OUTPUT,
    Argument,
    Buffer,
    ExecutorUnavailable,
    Image,
    Kernel,
    LaunchError,
    StrataError,
    Witness,
)
from strata.executors.cuda import images
from strata.executors.cuda.buffer import CudaBuffer
from strata.executors.cuda.card import Card
from strata.executors.cuda.driver import find_driver
from strata.executors.cuda.environment import import_cupy
from strata.executors.cuda.nvrtc import load_nvrtc
from strata.executors.cuda.recording import Call, Recording
from strata.executors.cuda.target import confirm, plan
from strata.executors.cuda.timing import time_queued

#: Shared memory of a block that every card gives without being asked.
DEFAULT_SHARED_BYTES = 48 * 1024

_HOLD = Kernel("hold", "hold", block=1)
_HOLD_SOURCE = Path(__file__).with_name("hold.cu")


@dataclass(frozen=True)
class _Loaded:
    image: Image
    function: Any  # cupy.RawKernel
    arch: str  # what the loaded function says it is


class CudaExecutor:
    """Runs kernels on one card.

    Parameters
    ----------
    target
        None for the card's own cubin, or `sm_NN` / `compute_NN`, see `target.plan`.
    device
        The number of the card, counted from 0.

    Raises
    ------
    ExecutorUnavailable
        When this machine has no usable card, CuPy or NVRTC; the message tells what to do.
    """

    name = "cuda"

    def __init__(self, target: str | None = None, device: int = 0) -> None:
        self._driver = find_driver()
        cupy = import_cupy(self._driver)
        if not 0 <= device < self._driver.devices:
            raise ExecutorUnavailable(f"device {device}: this machine has {self._driver.devices}, counted from 0")
        # An older driver cannot load what a newer major release of NVRTC writes.
        self._nvrtc = load_nvrtc((12,) if self._driver.extra == "cuda12x" else (13, 12))
        self._card = Card(cupy, device)
        self.arch = plan(target, self._card.capability, self._nvrtc.archs, f"NVRTC {self._nvrtc.version}")
        self.capability: int | None = self._card.capability
        self._loaded: dict[Kernel, _Loaded] = {}
        self._waits = True  # False inside `time_launches` and `queue`: a launch then only joins the queue
        self._recorded: list[Call] | None = None  # inside `record`, what has been launched so far

    def build(self, kernel: Kernel) -> Image:
        """Compile `kernel` and load it; figures named `loaded_*` are the loaded function's own."""
        return self._load(kernel).image

    def array(self, host: np.ndarray, name: str = "", *, written: bool = False) -> CudaBuffer:
        """A buffer on the card that holds a copy of an array.

        Parameters
        ----------
        host
            The array.
        name
            What messages call the buffer.
        written
            Whether kernels may write to it, which a card does not check: it stops no kernel that writes to an input.
        """
        buffer = CudaBuffer(self._card, host.shape, host.dtype, name)
        buffer.write(host)
        return buffer

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = POISON_OUTPUT, name: str = "") -> CudaBuffer:
        """A buffer on the card filled with a pattern.

        Parameters
        ----------
        shape, dtype
            The shape and the dtype of the array.
        poison
            The pattern, 32 bits.
        name
            What messages call the buffer.
        """
        buffer = CudaBuffer(self._card, shape, dtype, name)
        buffer.fill(poison)
        return buffer

    def launch(
        self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument], reached: Sequence[Buffer] = ()
    ) -> Witness:
        """Run a kernel to its end.

        Parameters
        ----------
        kernel
            What to run; it is built and loaded first where it has not been.
        grid
            Blocks along x, y and z, each at least 1.
        args
            What the kernel takes, in the order of its parameters.
        reached
            Buffers that the kernel finds by addresses in other buffers; a card does not look at them.

        Raises
        ------
        LaunchError
            When the card refuses or faults, and for a grid that is none.
        TypeError
            For an argument that is no buffer of this executor, None or NumPy scalar.
        """
        if len(grid) != 3 or min(grid) < 1:
            raise LaunchError(f"{kernel.label}: grid {grid} must be three numbers of 1 or more")
        loaded = self._load(kernel)
        values = tuple(self._value(kernel, index, argument) for index, argument in enumerate(args))
        if self._recorded is not None:
            call = Call(loaded.function, grid, kernel.block, values, kernel.shared_bytes, (*args, *reached))
            self._recorded.append(call)
        else:
            with self._card.using(f"running {kernel.label}"), self._card.cupy.cuda.Stream.null:
                loaded.function(grid, (kernel.block, 1, 1), values, shared_mem=kernel.shared_bytes)
                if self._waits:
                    self._card.runtime.deviceSynchronize()
        return Witness(
            executor=self.name,
            entry=kernel.entry,
            arch=loaded.arch,
            image=loaded.image.digest,
            grid=grid,
            block=kernel.block,
            shared_bytes=kernel.shared_bytes,
            blocks_run=0 if self._recorded is not None else math.prod(grid),
        )

    @contextmanager
    def queue(self) -> Iterator[None]:
        """Inside, launches join the card's queue, and the host does not wait; see `base.QueueingExecutor`."""
        before, self._waits = self._waits, False
        try:
            yield
        finally:
            self._waits = before
            if before:
                with self._card.using("ending what was queued"):
                    self._card.runtime.deviceSynchronize()

    def record(self, fn: Callable[[], object]) -> Recording:
        """Record the launches of a function as one graph of the card; see `base.QueueingExecutor`."""
        if self._recorded is not None:
            raise StrataError("a recording inside of another one, expected one at a time")
        self._recorded = []
        try:
            fn()
            calls = tuple(self._recorded)
        finally:
            self._recorded = None
        if not calls:
            raise StrataError("a recording of no launch, expected a function that launches kernels")
        return Recording(self._card, calls, lambda: self._waits)

    def attributes(self, kernel: Kernel) -> dict[str, int]:
        """What the card and its driver say of a loaded kernel.

        Parameters
        ----------
        kernel
            The kernel, which is built and loaded first where it has not been.

        Returns
        -------
        dict of str to int
            `capability`, times ten; `threads`, the most of a block; `local_bytes` of a thread; `shared_limit` of a
            block, in bytes; `resident`, the blocks of a multiprocessor.
        """
        function = self._load(kernel).function
        occupancy = self._card.cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
        with self._card.using(f"counting resident blocks of {kernel.label}"):
            resident = occupancy(function.kernel.ptr, kernel.block, kernel.shared_bytes)
        return {
            "capability": self._card.capability,
            "threads": int(function.max_threads_per_block),
            "local_bytes": int(function.local_size_bytes),
            "shared_limit": self._card.shared_limit,
            "resident": int(resident),
        }

    def time_launches(self, fn: Callable[[], object], reps: int) -> list[float]:
        """Device time of calls of a function, by CUDA events.

        Parameters
        ----------
        fn
            A function that launches kernels through this executor and does nothing that waits for the card. It is
            called more often than `reps` times; faults in it surface here.
        reps
            How many calls are timed, at least 1.

        Returns
        -------
        list of float
            Milliseconds of each call.

        Raises
        ------
        LaunchError
            For a fault of a kernel.
        StrataError
            When `fn` waits for the card.
        ValueError
            For `reps` below 1.
        """
        if reps < 1:
            raise ValueError(f"reps is {reps}: expected 1 or more")
        hold = self._load(_HOLD).function
        self._waits = False
        try:
            return time_queued(self._card, hold, fn, reps)
        finally:
            self._waits = True

    def describe(self) -> dict[str, Any]:
        """The card, the driver and the versions that decide what runs on it."""
        facts = self._card.facts
        return {
            "executor": self.name,
            "arch": self.arch,
            "device": self._card.title,
            "capability": f"{facts['major']}.{facts['minor']}",
            "multiprocessors": int(facts["multiProcessorCount"]),
            "memory_bytes": int(facts["totalGlobalMem"]),
            "l2_bytes": int(facts["l2CacheSize"]),
            "clock_khz": self._card.clock_khz,
            "shared_bytes_per_block": self._card.shared_limit,
            "driver": self._driver.release,
            "driver_cuda": ".".join(map(str, self._driver.cuda or ())),
            "cuda_runtime": _version(self._card.runtime.runtimeGetVersion()),
            "cupy": str(self._card.cupy.__version__),
            "nvrtc": self._nvrtc.version,
            "nvrtc_pinned": self._nvrtc.pinned,
            "options": list(images.FLAGS),
        }

    def _load(self, kernel: Kernel) -> _Loaded:
        loaded = self._loaded.get(kernel)
        if loaded is None:
            built = images.build(kernel, self.arch, self._nvrtc, _HOLD_SOURCE if kernel == _HOLD else None)
            try:
                with self._card.using(f"loading {kernel.label}"):
                    # An image's path is its content's key, so CuPy's memo of modules by path cannot be stale.
                    function = self._card.cupy.RawModule(path=str(built.file)).get_function(kernel.entry)
                    loaded = self._examine(kernel, built.image, function)
            except LaunchError as error:
                if "UNSUPPORTED_PTX_VERSION" not in str(error):
                    raise
                raise ExecutorUnavailable(
                    f"{self._driver.title} does not understand PTX of NVRTC {self._nvrtc.version}: "
                    "update the driver, or use this card's own target"
                ) from error
            self._loaded[kernel] = loaded
        return loaded

    def _examine(self, kernel: Kernel, image: Image, function: Any) -> _Loaded:
        """Read the loaded function's attributes and prepare it; refuse what cannot or should not run."""
        label, limit = kernel.label, self._card.shared_limit
        arch = confirm(self.arch, function.binary_version, function.ptx_version, self._card.capability, label)
        if kernel.block > function.max_threads_per_block:
            raise LaunchError(
                f"{label}: {kernel.block} threads a block, but with {function.num_regs} registers this card runs "
                f"{function.max_threads_per_block}"
            )
        total = kernel.shared_bytes + function.shared_size_bytes
        if total > limit:
            raise LaunchError(f"{label}: {total} bytes of shared memory a block, this card gives {limit}")
        # Kernels of other sizes may share the function: only ever raise its allowance.
        if total > DEFAULT_SHARED_BYTES and kernel.shared_bytes > function.max_dynamic_shared_size_bytes:
            function.max_dynamic_shared_size_bytes = kernel.shared_bytes
        figures = {
            "loaded_registers": int(function.num_regs),
            "loaded_local_bytes": int(function.local_size_bytes),
            "loaded_shared_bytes": int(function.shared_size_bytes),
        }
        return _Loaded(replace(image, figures={**image.figures, **figures}), function, arch)

    def _value(self, kernel: Kernel, index: int, argument: Argument) -> np.generic:
        """The argument as the scalar whose bytes the kernel gets; pointers are 64-bit addresses."""
        if argument is None:
            return np.uint64(0)
        if isinstance(argument, CudaBuffer) and argument.card is self._card:
            return np.uint64(argument.address)
        if isinstance(argument, np.generic) and argument.dtype.kind in "biuf" and argument.dtype.itemsize <= 8:
            # CuPy takes no half scalars; a kernel sees the same two bytes either way.
            return argument.view(np.uint16) if argument.dtype == np.float16 else argument
        raise TypeError(
            f"{kernel.label}: argument {index} is {type(argument).__name__}; expected a buffer of this executor, "
            "None or a NumPy scalar of at most 8 bytes"
        )


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
