"""The lanes executor: buffers in host memory, kernels built by the system's C++ compiler."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.cpus import usable
from strata.executors.base import (
    GUARD_BYTE,
    GUARD_BYTES,
    POISON_OUTPUT,
    Argument,
    Buffer,
    Image,
    Kernel,
    LaunchError,
    StrataError,
    Witness,
    poisoned,
)
from strata.executors.lanes import library, program
from strata.executors.lanes.build import FLAVOR_FLAGS, Built, build, find_compiler
from strata.executors.lanes.rules import Rule, parse_rule

FLAVORS = tuple(FLAVOR_FLAGS)
_MOST_THREADS = 1024  # of a block, as on a device
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
_ALIGN = 256  # of a buffer's first byte, as the CUDA allocator gives


class HostBuffer:
    """Host memory between two guards; see `base.Buffer`.

    Parameters
    ----------
    shape, dtype
        The shape and the dtype of the array that it holds.
    name
        What messages call it.
    written
        Whether kernels may write to it.
    """

    written = True
    _touched: np.ndarray | None = None

    def __init__(self, shape: Sequence[int], dtype: Any, name: str, written: bool = True) -> None:
        self.shape = tuple(int(n) for n in shape)
        self.dtype = np.dtype(dtype)
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        self.name = name or "a buffer"
        self.written = written
        self._raw = np.full(self.nbytes + 2 * GUARD_BYTES + _ALIGN, GUARD_BYTE, dtype=np.uint8)
        self._first = GUARD_BYTES + (-(self._raw.ctypes.data + GUARD_BYTES)) % _ALIGN
        self.bytes = self._raw[self._first : self._first + self.nbytes]

    @property
    def address(self) -> int:
        """The address of the first byte, a multiple of the alignment that `Buffer` promises."""
        return int(self._raw.ctypes.data) + self._first

    def host(self) -> np.ndarray:
        """A copy of the contents."""
        copy: np.ndarray = self.bytes.copy().view(self.dtype).reshape(self.shape)
        return copy

    def write(self, host: np.ndarray) -> None:
        """Replace the contents. Raises StrataError when shape or dtype differ."""
        if host.shape != self.shape or host.dtype != self.dtype:
            raise StrataError(f"{self.name}: expected {self.dtype} {self.shape}, got {host.dtype} {host.shape}")
        self.bytes[:] = np.ascontiguousarray(host).reshape(-1).view(np.uint8)

    def watch(self, filled: bool) -> None:
        """Have the checked build watch who touches which element from now on: it stops a thread that reads what nobody
        wrote, or what another thread writes with no barrier between, and names its line. It takes 33 bytes for a byte.

        filled: whether the host has written it.
        """
        self._touched = np.full(self.nbytes, filled, dtype=np.uint8)

    @property
    def region(self) -> library.Region:
        """What a launch is told of it."""
        written = None if self._touched is None else int(self._touched.ctypes.data)
        return library.Region(self.address, self.nbytes, self.name, self.written, written, max(self.dtype.itemsize, 1))

    def guards_intact(self) -> bool:
        """False when a byte before or after the buffer is no longer what was put there."""
        before, after = self._raw[: self._first], self._raw[self._first + self.nbytes :]
        return bool((before == GUARD_BYTE).all() and (after == GUARD_BYTE).all())


@dataclass(frozen=True)
class _Launch:
    """What a launch was called with."""

    kernel: Kernel
    grid: tuple[int, int, int]
    args: tuple[Argument, ...]
    reached: tuple[Buffer, ...]
    first: int


class Recording:
    """Launches of one lanes executor; see `base.Replay`.

    Parameters
    ----------
    executor
        Where they run.
    launches
        What each was called with, in order.
    """

    def __init__(self, executor: LanesExecutor, launches: Sequence[_Launch]) -> None:
        self.launches = len(launches)
        self._executor, self._recorded = executor, launches

    def replay(self) -> None:
        """Run them in their order."""
        for one in self._recorded:
            self._executor.again(one)


class LanesExecutor:
    """Runs kernels on the CPU.

    Parameters
    ----------
    rule
        The tensor core's arithmetic, see `parse_rule`.
    flavor
        `fast`, `checked` or `sanitize`.
    seed
        A seed that permutes the order of lanes and blocks; None keeps the order.
    threads
        Worker threads, at least 1; None for as many as there are processors that this process may use.
    progress
        Called with the number of blocks finished, every tenth of a second.
    limit_s
        Seconds after which a launch is stopped, and is a LaunchLimitError; None for no limit.

    Raises
    ------
    StrataError
        For a rule, a flavor or a number of threads that does not exist.
    ExecutorUnavailable
        Without a C++ compiler, and on a system or a processor that lanes do not run on.
    """

    name = "lanes"
    capability: int | None = None

    def __init__(
        self,
        rule: str | tuple[int, int] = "sm_90",
        flavor: str = "fast",
        seed: int | None = None,
        threads: int | None = None,
        progress: Callable[[int], None] | None = None,
        limit_s: float | None = None,
    ) -> None:
        if flavor not in FLAVOR_FLAGS:
            raise StrataError(f"flavor {flavor!r}: expected one of {', '.join(FLAVORS)}")
        if threads is not None and threads < 1:
            raise StrataError(f"threads {threads}: expected at least 1")
        self.rule: Rule = parse_rule(rule)
        self.flavor = flavor
        self.seed = seed
        self.threads = threads or usable()
        self.progress = progress
        self.limit_s = limit_s
        #: Why this executor was taken although a card was looked for; empty when it was asked for.
        self.instead_of_cuda = ""
        self.compiler = find_compiler()
        self.arch = f"lanes-{platform.machine().lower()}"
        self._built: dict[Kernel, Built] = {}
        self._digests: dict[Built, str] = {}
        self._recorded: list[_Launch] | None = None  # inside `record`, what has been launched so far

    def build(self, kernel: Kernel) -> Image:
        """Compile a kernel, or take it from the cache. Raises BuildError and ExecutorUnavailable as `build.build`
        does."""
        built = self._build(kernel)
        return Image(kernel, self.arch, self._digest(built), built.options, built.compiler.version)

    def _build(self, kernel: Kernel) -> Built:
        """A kernel of this package is looked up once, as on a card: to read and hash its sources takes longer than many
        a launch. One from elsewhere is looked up each time, for its author may be at work on it."""
        if kernel in self._built:
            return self._built[kernel]
        built = build(kernel, self.flavor, self.compiler)
        if kernel.directory is None:
            self._built[kernel] = built
        return built

    def _digest(self, built: Built) -> str:
        if built not in self._digests:
            self._digests[built] = hashlib.sha256(built.path.read_bytes()).hexdigest()
        return self._digests[built]

    def array(self, host: np.ndarray, name: str = "", *, written: bool = False) -> HostBuffer:
        """A buffer that holds a copy of an array.

        Parameters
        ----------
        host
            The array.
        name
            What messages call the buffer.
        written
            Whether kernels may write to it. The checked flavor stops a lane that writes to another one, and names its
            line.
        """
        buffer = HostBuffer(host.shape, host.dtype, name, written)
        buffer.write(host)
        return buffer

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = POISON_OUTPUT, name: str = "") -> HostBuffer:
        """A buffer filled with the 32-bit pattern `poison`; see `Executor.empty`."""
        buffer = HostBuffer(shape, dtype, name)
        buffer.bytes[:] = poisoned(buffer.nbytes, poison)
        return buffer

    def launch(
        self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument], reached: Sequence[Buffer] = ()
    ) -> Witness:
        """Run a kernel to its end.

        Parameters
        ----------
        kernel
            What to run; it is built first where it has not been.
        grid
            Blocks along x, y and z, each at least 1.
        args
            What the kernel takes, in the order of its parameters.
        reached
            Buffers that the kernel finds by addresses in other buffers.

        Raises
        ------
        LaunchError
            When a lane breaks a rule; for a grid, a block or an argument that is none; and when there are `reached`
            buffers and the flavor is `sanitize`, which moves buffers.
        BuildError, ExecutorUnavailable
            As `build`.
        """
        return self._launch(kernel, grid, args, reached, 0)

    @contextmanager
    def queue(self) -> Iterator[None]:
        """Inside, launches would join a queue on a card; here each ends before `launch` returns, as ever."""
        yield

    def record(self, fn: Callable[[], object]) -> Recording:
        """Record the launches of a function instead of running them; see `base.QueueingExecutor`."""
        if self._recorded is not None:
            raise StrataError("a recording inside of another one, expected one at a time")
        self._recorded = []
        try:
            fn()
            launches = tuple(self._recorded)
        finally:
            self._recorded = None
        if not launches:
            raise StrataError("a recording of no launch, expected a function that launches kernels")
        return Recording(self, launches)

    def again(self, launch: _Launch) -> Witness:
        """Run a launch of a recording."""
        return self._launch(launch.kernel, launch.grid, launch.args, launch.reached, launch.first)

    def launch_end(self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument], first: int) -> Witness:
        """Run the end of a grid whose whole would take days.

        Parameters
        ----------
        kernel
            What to run.
        grid
            Blocks along x, y and z.
        args
            What the kernel takes, in the order of its parameters.
        first
            The block to begin with, of all blocks in the order in which x counts fastest, which they keep whatever the
            seed.

        Raises
        ------
        LaunchError
            As `launch`, and in the flavor `sanitize`, which runs whole grids.
        """
        return self._launch(kernel, grid, args, (), first)

    def _launch(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        args: Sequence[Argument],
        reached: Sequence[Buffer],
        first: int,
    ) -> Witness:
        if any(not 1 <= n <= most for n, most in zip(grid, _MOST_BLOCKS, strict=True)):
            raise LaunchError(f"{kernel.label}: grid {grid}, expected 1 to {_MOST_BLOCKS} blocks")
        if not 1 <= kernel.block <= _MOST_THREADS or kernel.shared_bytes < 0:
            raise LaunchError(
                f"{kernel.label}: blocks of {kernel.block} threads and {kernel.shared_bytes} bytes,"
                f" expected 1 to {_MOST_THREADS} threads"
            )
        built = self._build(kernel)
        values: list[bytes] = []
        regions: list[library.Region] = []
        for i, argument in enumerate(args):
            if argument is None:
                values.append(bytes(8))
            elif isinstance(argument, HostBuffer):
                values.append(argument.address.to_bytes(8, "little"))
                regions.append(argument.region)
            elif isinstance(argument, np.generic):
                values.append(library.scalar_bytes(argument))
            else:
                raise LaunchError(
                    f"{kernel.label}: argument {i} is a {type(argument).__name__},"
                    " expected a buffer of this executor, None or a NumPy scalar"
                )
        if reached and self.flavor == "sanitize":
            raise LaunchError(f"{kernel.label}: buffers found by address keep no place in the sanitize flavor")
        blocks = grid[0] * grid[1] * grid[2]
        if not 0 <= first < blocks or (first and self.flavor == "sanitize"):
            raise LaunchError(f"{kernel.label}: from block {first} on, expected 0 to {blocks - 1}, or 0 to sanitize")
        for buffer in reached:
            if not isinstance(buffer, HostBuffer):
                raise LaunchError(
                    f"{kernel.label}: reaches a {type(buffer).__name__}, expected buffers of this executor"
                )
            regions.append(buffer.region)
        request = library.Request(
            entry=kernel.entry,
            grid=grid,
            block=kernel.block,
            shared_bytes=kernel.shared_bytes,
            values=tuple(values),
            regions=tuple(regions),
            rule=self.rule,
            seed=0 if self.seed is None or first else (self.seed * 2 + 1),
            workers=min(self.threads, blocks - first),
            first=first,
        )
        if self._recorded is not None:
            self._recorded.append(_Launch(kernel, grid, tuple(args), tuple(reached), first))
            finished = 0
        elif self.flavor == "sanitize":
            finished = program.launch(built.path, request, self.limit_s)
        else:
            finished = library.launch(built.path, request, self.progress, self.limit_s)
        return Witness(
            self.name, kernel.entry, self.arch, self._digest(built), grid, kernel.block, kernel.shared_bytes, finished
        )

    def describe(self) -> dict[str, Any]:
        """The compiler, the flavor, the rule and the schedule that decide what runs."""
        return {
            "executor": self.name,
            "arch": self.arch,
            "compiler": self.compiler.version,
            "flavor": self.flavor,
            "rule": str(self.rule),
            "schedule_seed": self.seed,
            "threads": self.threads,
            **({"instead_of_cuda": self.instead_of_cuda} if self.instead_of_cuda else {}),
        }
