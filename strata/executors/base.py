"""What an executor is: where a kernel source runs, and the proof that it ran.

Two executors exist. `cuda` compiles a source with NVRTC and runs it on a card through CuPy.
`lanes` compiles the same source as host C++ and runs every CUDA thread as a coroutine. Code above
this module never asks which one it holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path as FilePath
from typing import Any, Protocol

import numpy as np

KERNELS = FilePath(__file__).resolve().parent.parent / "kernels"

#: Bytes put before and after every buffer, filled with `GUARD_BYTE` and compared after the run.
GUARD_BYTES = 512
GUARD_BYTE = 0xA5
#: Two float32 NaN payloads. Outputs start as the first, workspaces as the second; a result that
#: still holds either was never written.
POISON_OUTPUT = 0x7FC0DEAD
POISON_WORKSPACE = 0x7FC0BEEF


class StrataError(Exception):
    """An error whose message is one clear line for the person at the terminal."""


def system_reason(error: OSError) -> str:
    """What the system says of a failed call, such as "No space left on device", in one line."""
    # Python's own file functions raise some without a number and its text.
    return " ".join((error.strerror or str(error) or type(error).__name__).split())


class ExecutorUnavailable(StrataError):  # noqa: N818 - a state of the machine more than a fault
    """This machine cannot provide the executor (no compiler, no CuPy, no device, wrong driver)."""


class BuildError(StrataError):
    """A kernel source did not compile.

    Parameters
    ----------
    message
        The compiler's first complaint, in one line.
    log
        All that the compiler said; the attribute `log` keeps it.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class LaunchError(StrataError):
    """A kernel broke a rule of the machine while it ran; the message names kernel, block and lane."""


class LaunchLimitError(LaunchError):
    """A launch took longer than it may: its kernel may never end."""


class ArgumentsError(LaunchError):
    """A launch gave a kernel another number of arguments than it takes, or one of another size: its caller's fault."""


class ContextLostError(LaunchError):
    """A kernel faulted and took the card's context along: nothing runs in this process any more, whatever it is."""


@dataclass(frozen=True)
class Kernel:
    """One `__global__` function of one source with its compile-time parameters.

    Parameters
    ----------
    source
        The stem of a file in `strata/kernels`, such as "prompt_attention".
    entry
        The `extern "C"` name of the function.
    block
        Threads of a block.
    shared_bytes
        Dynamic shared memory of a block, in bytes.
    defines
        Names and values of macros passed by -D, the only way in which a number reaches a source.
    directory
        Where the source lies when that is not `strata/kernels` (a test's own kernel, a stranger's), whose headers it
        includes all the same.
    """

    source: str
    entry: str
    block: int
    shared_bytes: int = 0
    defines: tuple[tuple[str, int], ...] = ()
    directory: str | None = None

    @property
    def label(self) -> str:
        """A short name for messages, e.g. `prompt_attention[MODE=3 TIER=80]`."""
        inside = " ".join(f"{name}={value}" for name, value in self.defines)
        return f"{self.entry}[{inside}]" if inside else self.entry

    @property
    def path(self) -> FilePath:
        """The file of its source."""
        return (FilePath(self.directory) if self.directory else KERNELS) / f"{self.source}.cu"

    @property
    def headers(self) -> list[FilePath]:
        """Headers beside a source that does not lie in `strata/kernels`, which it includes by their names alone."""
        return sorted(FilePath(self.directory).glob("*.cuh")) if self.directory else []


@cache
def source_digests() -> dict[str, str]:
    """SHA-256 of every kernel source and header, by path relative to `strata/kernels`."""
    files = sorted([*KERNELS.glob("*.cu"), *(KERNELS / "include").glob("*.cuh")])
    return {file.relative_to(KERNELS).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@dataclass(frozen=True)
class Image:
    """A compiled kernel.

    Parameters
    ----------
    kernel
        What was compiled.
    arch
        What it was compiled for: `sm_90`, `compute_75`, or `lanes-x86_64`.
    digest
        SHA-256 of the image file, in hexadecimal digits.
    options
        The words that the compiler was given.
    compiler
        The compiler's version.
    figures
        Registers, spills and the like, by name.
    """

    kernel: Kernel
    arch: str
    digest: str
    options: tuple[str, ...]
    compiler: str
    figures: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Witness:
    """Proof of one launch, taken from the loaded image and not from the request.

    Parameters
    ----------
    executor
        `cuda` or `lanes`.
    entry
        The name of the function that ran.
    arch
        What the loaded image says that it is.
    image
        SHA-256 of the image that ran, in hexadecimal digits.
    grid
        Blocks along x, y and z.
    block
        Threads of a block.
    shared_bytes
        Dynamic shared memory of a block, in bytes.
    blocks_run
        Blocks that ran: lanes count them, on a card they are the blocks of the grid.
    """

    executor: str
    entry: str
    arch: str
    image: str  # SHA-256 of the image that ran
    grid: tuple[int, int, int]
    block: int
    shared_bytes: int
    blocks_run: int  # counted by lanes; on a card the blocks of the grid


class Buffer(Protocol):
    """Memory of an executor with guards before and after it.

    Attributes
    ----------
    shape
        The shape of the array.
    dtype
        The dtype of its elements.
    nbytes
        Bytes of the array, without the guards.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int

    @property
    def address(self) -> int:
        """Of the first byte, a multiple of 256: what a table of addresses holds."""
        ...

    def host(self) -> np.ndarray:
        """A copy of the contents as a NumPy array."""
        ...

    def write(self, host: np.ndarray) -> None:
        """Replace the contents; shape and dtype must match."""
        ...

    def guards_intact(self) -> bool:
        """False when a byte just before or after the buffer was overwritten."""
        ...


#: What a kernel takes: a buffer, a NULL pointer, or a scalar with an explicit NumPy dtype.
Argument = Buffer | None | np.generic


class Executor(Protocol):
    """Where kernels run.

    Attributes
    ----------
    name
        `cuda` or `lanes`.
    arch
        What images are compiled for.
    capability
        The compute capability of the card, times ten; None without one.
    """

    name: str  # "cuda" or "lanes"
    arch: str  # what images are compiled for
    capability: int | None  # of the card, times ten; None without one

    def build(self, kernel: Kernel) -> Image:
        """Compile (or take from the cache). Raises BuildError."""
        ...

    def array(self, host: np.ndarray, name: str = "", *, written: bool = False) -> Buffer:
        """A buffer that holds a copy of an array.

        Parameters
        ----------
        host
            The array, of any shape and dtype.
        name
            What messages call the buffer.
        written
            Whether kernels may write to it, as to a count that begins at zero. Any other is an input, and to write to
            an input is a fault.
        """
        ...

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = POISON_OUTPUT, name: str = "") -> Buffer:
        """A buffer filled with a pattern.

        Parameters
        ----------
        shape, dtype
            The shape and the dtype of the array.
        poison
            The pattern, 32 bits.
        name
            What messages call the buffer.
        """
        ...

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
            Buffers that the kernel finds by addresses in other buffers, for the executor that watches accesses.

        Raises
        ------
        LaunchError
            When the kernel faults.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What ran this, for the report: compiler or device, versions, options."""
        ...


class Replay(Protocol):
    """Launches that were recorded once and can be run again and again.

    Attributes
    ----------
    launches
        How many there are.
    """

    launches: int

    def replay(self) -> None:
        """Run them in their order, with the addresses and the scalars that they were recorded with.

        Raises
        ------
        LaunchError
            When one of them faults; inside `queue` that surfaces at its end.
        """
        ...


class QueueingExecutor(Executor, Protocol):
    """An executor that an engine runs on: launches may join a queue, and may be recorded."""

    def queue(self) -> AbstractContextManager[None]:
        """Inside, launches need not have ended when `launch` returns; they end in their order, and all before the block
        is left and before a buffer is read or written.

        Raises
        ------
        LaunchError
            When the block is left, for a launch inside that faulted.
        """
        ...

    def record(self, fn: Callable[[], object]) -> Replay:
        """Record the launches of a function.

        Parameters
        ----------
        fn
            It is called once. Its launches are built, checked and recorded, and not run, so it must not read what they
            would write. What it writes to buffers itself is written now and is no part of the recording.

        Raises
        ------
        BuildError, LaunchError
            As `launch`.
        StrataError
            For a function that launches nothing, and inside another recording.
        """
        ...


def poisoned(nbytes: int, pattern: int) -> np.ndarray:
    """Bytes that repeat a pattern.

    Parameters
    ----------
    nbytes
        How many bytes.
    pattern
        32 bits, of which the lowest byte comes first.

    Returns
    -------
    uint8 array [nbytes]
    """
    words = np.full(-(-nbytes // 4), pattern, dtype="<u4")
    return words.view(np.uint8)[:nbytes]


def iter_include() -> Iterator[FilePath]:
    """Every header that a kernel source may include."""
    yield from sorted((KERNELS / "include").glob("*.cuh"))
