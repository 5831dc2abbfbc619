"""A stand-in for the part of CuPy that the cuda executor calls, with host memory as the card's.

It runs no kernel: a test gives a Python function for each entry, which gets the raw scalars of the launch. So it
proves addresses, guards, argument bytes, refusals and error texts, and nothing about CUDA. Everything it offers
is checked against the real CuPy by `test_the_names_used_exist_in_cupy`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

Body = Callable[..., None]


class CUDARuntimeError(RuntimeError):
    pass


class CUDADriverError(RuntimeError):
    pass


class Memory:
    """A host allocation at a 256-byte boundary, holding rubbish as fresh device memory does."""

    def __init__(self, card: FakeCard, size: int) -> None:
        if size > card.free:
            raise CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
        self._store = np.full(size + 256, 0x5C, np.uint8)
        self.ptr = (self._store.ctypes.data + 255) // 256 * 256


class Function:
    """A loaded kernel with the attributes of `cupy.RawKernel`."""

    def __init__(self, card: FakeCard, path: Path, name: str) -> None:
        self.card, self.path, self.name = card, path, name
        self.binary_version = card.capability if path.suffix == ".ptx" else int(path.parent.name.split("-")[1][3:])
        self.ptx_version = 75 if path.suffix == ".ptx" else self.binary_version
        self.max_threads_per_block = 1024
        self.num_regs = 40
        self.local_size_bytes = 0
        self.shared_size_bytes = 64
        self.max_dynamic_shared_size_bytes = 48 * 1024 - 64
        self.kernel = SimpleNamespace(ptr=id(self))
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, grid: Any, block: Any, args: tuple[Any, ...], *, shared_mem: int = 0) -> None:
        if shared_mem > self.max_dynamic_shared_size_bytes:
            raise CUDADriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")
        if self.card.captured is not None:
            self.card.captured.append(lambda: self._run(grid, block, args, shared_mem))
        else:
            self._run(grid, block, args, shared_mem)

    def _run(self, grid: Any, block: Any, args: tuple[Any, ...], shared_mem: int) -> None:
        self.calls.append((grid, block, args, shared_mem))
        self.card.pending = True
        if self.name in self.card.bodies:
            self.card.bodies[self.name](*args)


class Event:
    """Still to come whenever it is asked, but for the `FakeCard.late_starts` times when the host was too slow."""

    def __init__(self, card: FakeCard) -> None:
        self.card = card
        self.number = 0

    @property
    def done(self) -> bool:
        if self.card.late_starts > 0:
            self.card.late_starts -= 1
            return True
        return False

    def record(self) -> None:
        self.card.events += 1
        self.number = self.card.events

    def synchronize(self) -> None:
        self.card.synchronise()


class Graph:
    """Launches that were captured."""

    def __init__(self, card: FakeCard, launches: list[Callable[[], None]]) -> None:
        self.card, self.launches = card, launches

    def launch(self, stream: Any = None) -> None:
        assert stream is self.card.null, "a graph on a stream that nothing else here waits for"
        for launch in self.launches:
            launch()


class Stream:
    """A stream other than the null one, which can be captured."""

    def __init__(self, card: FakeCard, non_blocking: bool = False) -> None:
        assert non_blocking, "a stream that waits for the null stream cannot be captured beside it"
        self.card = card

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def begin_capture(self) -> None:
        self.card.captured = []

    def end_capture(self) -> Graph:
        launches, self.card.captured = self.card.captured, None
        assert launches is not None
        return Graph(self.card, launches)


class _Streams:
    """The class `Stream` of a fake module, with its null stream."""

    def __init__(self, card: FakeCard) -> None:
        self.card, self.null = card, card.null

    def __call__(self, **options: Any) -> Stream:
        return Stream(self.card, **options)


def _unchanged(function: Function) -> None:
    """Loads a function as it is."""


class FakeCard:
    """The state behind the fake module: memory left, faults to come, the functions that were loaded."""

    def __init__(self, capability: int = 90) -> None:
        self.capability = capability
        self.free = 1 << 30
        self.bodies: dict[str, Body] = {}
        self.functions: list[Function] = []
        self.adjust: Callable[[Function], None] = _unchanged
        self.fault = ""
        self.pending = False
        self.late_starts = 0
        self.events = 0
        self.null = nullcontext()
        self.captured: list[Callable[[], None]] | None = None
        self.module = self._module()

    def synchronise(self) -> None:
        if self.fault and self.pending:
            raise CUDARuntimeError(self.fault)

    def get_function(self, path: Path, name: str) -> Function:
        if not path.is_file():
            raise CUDADriverError("CUDA_ERROR_FILE_NOT_FOUND: file not found")
        function = Function(self, path, name)
        self.adjust(function)
        self.functions.append(function)
        return function

    def _module(self) -> Any:
        def memcpy(target: int, source: int, size: int, kind: int) -> None:
            self.synchronise()
            ctypes.memmove(target, source, size)

        attributes = {"limit": 227 * 1024, "clock": 1_980_000}
        runtime = SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            cudaDevAttrMaxSharedMemoryPerBlockOptin="limit",
            cudaDevAttrClockRate="clock",
            deviceGetAttribute=lambda name, device: attributes[name],
            deviceSynchronize=self.synchronise,
            getDeviceProperties=lambda device: {
                "name": b"Fake card",
                "major": self.capability // 10,
                "minor": self.capability % 10,
                "multiProcessorCount": 132,
                "totalGlobalMem": 1 << 37,
                "l2CacheSize": 50 << 20,
            },
            memGetInfo=lambda: (self.free, 1 << 37),
            memcpy=memcpy,
            memcpyHostToDevice=1,
            memcpyDeviceToHost=2,
            memcpyDeviceToDevice=3,
            runtimeGetVersion=lambda: 13000,
        )
        cuda = SimpleNamespace(
            Device=lambda device: nullcontext(),
            Event=lambda: Event(self),
            Memory=lambda size: Memory(self, size),
            Stream=_Streams(self),
            driver=SimpleNamespace(
                CUDADriverError=CUDADriverError,
                occupancyMaxActiveBlocksPerMultiprocessor=lambda function, block, shared: 2048 // block,
            ),
            get_elapsed_time=lambda start, stop: float(stop.number - start.number),
            runtime=runtime,
        )

        def raw_module(*, path: str) -> Any:
            return SimpleNamespace(get_function=lambda name: self.get_function(Path(path), name))

        return SimpleNamespace(__version__="14.2.0", RawModule=raw_module, cuda=cuda)
