"""Comparing device memory with host bytes at copy speed: two lanes, each a stream with a staging buffer on the card.

A piece of the host's bytes is copied to a lane's buffer and compared there by a kernel; meanwhile the other lane
copies. So a comparison takes about as long as one copy of the same bytes. Host memory that is not page-locked goes
through a page-locked buffer of the lane first, which takes the CPU's own copying time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.executors.base import Kernel
from strata.executors.cuda import images
from strata.executors.cuda.nvrtc import load_nvrtc
from strata.executors.cuda.target import plan
from strata.kernels import compare_bytes
from strata.memory.driver.bindings import Bindings
from strata.memory.driver.driver import Compared, host_address

#: Bytes of a piece, and of each lane's staging buffers (an expert of the sizes in use is one piece).
PIECE = 4 << 20
#: Staging keeps the address modulo this, so that the kernel can load 16 bytes at a time.
_ALIGN = 16
#: Pieces whose results are collected by one wait; two 64-bit words each.
_ROUND = 4096
_WORDS = 2


@dataclass(frozen=True)
class _Loaded:
    """A kernel on the card."""

    name: str
    function: Any
    block: int
    shared_bytes: int


@dataclass
class _Lane:
    stream: int
    device: int
    host: int
    bytes: np.ndarray  # the page-locked buffer at `host`


class Comparer:
    """The lanes of one driver, which take 2 x `PIECE` bytes on the card and on the host from its opening on.

    Parameters
    ----------
    bindings
        The driver's functions.
    is_page_locked
        Whether host memory (address, bytes) is page-locked.
    """

    def __init__(self, bindings: Bindings, is_page_locked: Callable[[int, int], bool]) -> None:
        self._bindings = bindings
        self._cuda = cuda = bindings.cuda
        self._call = call = bindings.call
        self._is_page_locked = is_page_locked
        self._modules: list[Any] = []
        self._compare = self._load("compare_bytes", bindings)
        self._copy = self._load("copy_bytes", bindings)
        self._results = int(call("open", cuda.cuMemAlloc, _ROUND * _WORDS * 8))
        self._lanes = [self._lane() for _ in range(2)]

    def compare(self, ranges: Sequence[tuple[int, np.ndarray]]) -> Compared:
        """See `Driver.compare_all`."""
        hosts = [host_address("compare", host) for _, host in ranges]
        compared, first = 0, Compared(0)
        pieces = list(_pieces(ranges))
        with self._bindings.current("compare"):
            for start in range(0, len(pieces), _ROUND):
                part = pieces[start : start + _ROUND]
                found = self._round(ranges, hosts, part)
                compared += int(found[:, 1].sum())
                differing = np.flatnonzero(found[:, 0])
                if first.index is None and differing.size:
                    index, at, _ = part[differing[0]]
                    difference = compare_bytes.difference(int(found[differing[0], 0]))
                    assert difference is not None
                    first = Compared(0, index, at + difference.offset, difference.expected, difference.got)
        return Compared(compared, first.index, first.offset, first.expected, first.got)

    def launch_copy(self, va: int, out: int, out_at: int, n: int, stream: int) -> None:
        """Queue the kernel that copies bytes with its own loads.

        Parameters
        ----------
        va
            Where the bytes are.
        out, out_at
            Where they go: an address, and an offset from it.
        n
            How many bytes.
        stream
            The stream that it is queued on.
        """
        self._launch(self._copy, n, stream, (va, 0, out, out_at, n))

    def close(self) -> None:
        """Free the lanes and unload the kernels."""
        for lane in self._lanes:
            self._cuda.cuStreamDestroy(lane.stream)
            self._cuda.cuMemFree(lane.device)
            lane.bytes = np.empty(0, np.uint8)
            self._cuda.cuMemFreeHost(lane.host)
        self._cuda.cuMemFree(self._results)
        for module in self._modules:
            self._cuda.cuModuleUnload(module)

    def _round(
        self, ranges: Sequence[tuple[int, np.ndarray]], hosts: Sequence[int], part: Sequence[tuple[int, int, int]]
    ) -> np.ndarray:
        """Queue pieces on both lanes in turn, wait once, and return the results, uint64 [pieces, 2].

        hosts: where the host bytes of each range begin.
        """
        words, call, first = len(part) * _WORDS, self._bindings.call_current, self._lanes[0].stream
        call("compare", self._cuda.cuMemsetD8Async, self._results, 0, words * 8, first)
        call("compare", self._cuda.cuStreamSynchronize, first)
        # The parameters of every launch at once, and the driver's table of pointers to them; both live to the end.
        memory = np.array([ranges[index][0] + at for index, at, _ in part], np.uint64)
        staged = np.array([lane.device for lane in self._lanes], np.uint64)[np.arange(len(part)) % len(self._lanes)]
        parameters = np.zeros((len(part), 6), np.uint64)
        parameters[:, 0], parameters[:, 2] = memory, staged + memory % _ALIGN
        parameters[:, 4] = [n for _, _, n in part]
        parameters[:, 5] = self._results + np.arange(len(part)) * _WORDS * 8
        table = parameters.ctypes.data + 8 * np.arange(parameters.size, dtype=np.uint64)
        pointers, row = table.ctypes.data, 8 * parameters.shape[1]
        copy, launch, loaded = self._cuda.cuMemcpyHtoDAsync, self._cuda.cuLaunchKernel, self._compare
        for number, ((index, at, n), to) in enumerate(zip(part, parameters[:, 2].tolist(), strict=True)):
            lane = self._lanes[number % len(self._lanes)]
            stream, source = lane.stream, hosts[index] + at
            if not self._is_page_locked(source, n):
                call("compare", self._cuda.cuStreamSynchronize, stream)  # its last copy reads the buffer
                lane.bytes[:n] = ranges[index][1][at : at + n]
                source = lane.host
            call("compare", copy, to, source, n, stream)
            grid, block, values = compare_bytes.blocks(n), loaded.block, pointers + number * row
            call(loaded.name, launch, loaded.function, grid, 1, 1, block, 1, 1, loaded.shared_bytes, stream, values, 0)
        for lane in self._lanes:
            call("compare", self._cuda.cuStreamSynchronize, lane.stream)
        out = np.empty((len(part), _WORDS), np.uint64)
        call("compare", self._cuda.cuMemcpyDtoH, out.ctypes.data, self._results, words * 8)
        return out

    def _launch(self, loaded: _Loaded, n: int, stream: int, values: tuple[int, ...]) -> None:
        """Queue a kernel whose parameters are all 64 bits wide; the driver copies them before it returns."""
        parameters = np.array(values, np.uint64)
        first = parameters.ctypes.data
        pointers = np.array([first + 8 * i for i in range(len(values))], np.uint64)
        table = pointers.ctypes.data
        grid = (compare_bytes.blocks(n), 1, 1)
        launch, block = self._cuda.cuLaunchKernel, (loaded.block, 1, 1)
        self._call(loaded.name, launch, loaded.function, *grid, *block, loaded.shared_bytes, stream, table, 0)

    def _load(self, entry: str, bindings: Bindings) -> _Loaded:
        kernel = compare_bytes.kernel(entry)
        module = self._call("open", self._cuda.cuModuleLoadData, _image(kernel, bindings))
        self._modules.append(module)
        function = self._call("open", self._cuda.cuModuleGetFunction, module, entry.encode())
        return _Loaded(entry, function, kernel.block, kernel.shared_bytes)

    def _lane(self) -> _Lane:
        stream = int(
            self._call("open", self._cuda.cuStreamCreate, int(self._cuda.CUstream_flags.CU_STREAM_NON_BLOCKING))
        )
        device = int(self._call("open", self._cuda.cuMemAlloc, PIECE + _ALIGN))
        host = int(self._call("open", self._cuda.cuMemHostAlloc, PIECE, 0))
        return _Lane(
            stream, device, host, np.frombuffer(memoryview((ctypes.c_uint8 * PIECE).from_address(host)), np.uint8)
        )


def _image(kernel: Kernel, bindings: Bindings) -> bytes:
    """The kernel's machine code for this card."""
    nvrtc = load_nvrtc((12,) if bindings.extra == "cuda12x" else (13, 12))
    arch = plan(None, bindings.card.capability, nvrtc.archs, f"NVRTC {nvrtc.version}")
    return images.build(kernel, arch, nvrtc).file.read_bytes()


def _pieces(ranges: Sequence[tuple[int, np.ndarray]]) -> Iterator[tuple[int, int, int]]:
    """(range, offset in it, bytes) of every piece, in order."""
    for index, (_, host) in enumerate(ranges):
        for at in range(0, host.nbytes, PIECE):
            yield index, at, min(PIECE, host.nbytes - at)
