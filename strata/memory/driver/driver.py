"""What the memory code asks of a driver: address ranges, physical memory, mappings, copies, streams.

Two classes provide it: `real.RealDriver` (the CUDA driver's virtual memory calls) and `fake.FakeDriver` (handles that
hold bytes in host memory, with a plan of faults). Nothing above this module knows which one it holds.

The order in which memory is taken: reserve, create, map, set_access, write. The order in which it is given back:
stop its users, synchronize, unmap, release, address_free. An unmap does not wait for queued kernels.

Rules, which the fake enforces and the CUDA driver's text states: sizes and addresses of create, map and unmap are
multiples of the granularity; a map covers one whole handle and only addresses that are reserved and not mapped;
a mapping begins without access; an unmap covers one whole mapping, never a part; memory is free again when no mapping
and no handle refers to it, so `release` may come before or after `unmap`; a handle may be mapped at two addresses;
new memory holds anything. An access to unmapped memory loses the context: every later call answers ILLEGAL_ADDRESS.

Streams do not wait for one another, nor for the blocking calls, which have a queue of their own: bytes copied in on a
stream can be read after `wait` for an event recorded behind the copy, after `wait_stream`, or after `synchronize`.

Addresses are int, bytes are uint8 arrays of one dimension, contiguous. Every method but `supported` and `view` raises
DriverError when the driver refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

from strata.executors.base import StrataError
from strata.memory.driver.unreleased_handles import UnreleasedHandles


class Code(IntEnum):
    """Results of CUDA driver calls, by their names there without `CUDA_ERROR_`."""

    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    NOT_INITIALIZED = 3
    DEINITIALIZED = 4
    ECC_UNCORRECTABLE = 214
    NVLINK_UNCORRECTABLE = 220
    CONTAINED = 226
    ILLEGAL_ADDRESS = 700
    LAUNCH_TIMEOUT = 702
    CONTEXT_IS_DESTROYED = 709
    ASSERT = 710
    HARDWARE_STACK_ERROR = 714
    ILLEGAL_INSTRUCTION = 715
    MISALIGNED_ADDRESS = 716
    INVALID_ADDRESS_SPACE = 717
    INVALID_PC = 718
    LAUNCH_FAILED = 719
    TENSOR_MEMORY_LEAK = 721
    NOT_PERMITTED = 800
    NOT_SUPPORTED = 801
    MPS_CLIENT_TERMINATED = 810
    STREAM_CAPTURE_UNSUPPORTED = 900
    EXTERNAL_DEVICE = 911
    UNKNOWN = 999


#: After one of these the context answers nothing else: the process must end. They are those of which the driver's text
#: says that the process must be ended and started again, an uncorrectable memory error, and a context or a driver that
#: has gone already.
STICKY = frozenset(
    (
        Code.DEINITIALIZED,
        Code.ECC_UNCORRECTABLE,
        Code.NVLINK_UNCORRECTABLE,
        Code.CONTAINED,
        Code.ILLEGAL_ADDRESS,
        Code.LAUNCH_TIMEOUT,
        Code.CONTEXT_IS_DESTROYED,
        Code.ASSERT,
        Code.HARDWARE_STACK_ERROR,
        Code.ILLEGAL_INSTRUCTION,
        Code.MISALIGNED_ADDRESS,
        Code.INVALID_ADDRESS_SPACE,
        Code.INVALID_PC,
        Code.LAUNCH_FAILED,
        Code.TENSOR_MEMORY_LEAK,
        Code.MPS_CLIENT_TERMINATED,
        Code.EXTERNAL_DEVICE,
    )
)


class DriverError(StrataError):
    """A driver call was refused.

    Its attributes are `call` and `code`, as they were given, and `sticky`.

    Parameters
    ----------
    call
        The method's name.
    code
        The driver's number.
    detail
        What is known besides, for the message.
    """

    def __init__(self, call: str, code: int, detail: str = "") -> None:
        try:
            name = Code(code).name
        except ValueError:
            name = "another error"
        super().__init__(f"{call}: {name} ({int(code)})" + (f", {detail}" if detail else ""))
        self.call = call
        self.code = int(code)

    @property
    def sticky(self) -> bool:
        """Whether the context is lost, so that every later call is refused too."""
        return self.code in STICKY


@dataclass(frozen=True)
class Compared:
    """What `compare` found.

    Parameters
    ----------
    compared
        Bytes that were compared, counted where the comparison ran.
    index
        The index of the first range that differs, None when all are equal.
    offset
        The place in that range of the lowest byte that differs, -1 when all are equal.
    expected, got
        That byte on the host and on the device, -1 when all are equal.
    """

    compared: int
    index: int | None = None
    offset: int = -1
    expected: int = -1
    got: int = -1

    @property
    def equal(self) -> bool:
        """Whether all ranges are equal."""
        return self.index is None


#: A stream or an event: an opaque number of one driver.
Stream = int
Event = int


def host_address(call: str, host: np.ndarray) -> int:
    """Where the bytes of a host array begin.

    Parameters
    ----------
    call
        The method that asks, for the message.
    host
        uint8 of one dimension, contiguous.

    Raises
    ------
    TypeError
        For any other array.
    """
    if host.dtype != np.uint8 or host.ndim != 1 or not host.flags.c_contiguous:
        raise TypeError(f"{call}: {host.dtype} {host.shape}, expected contiguous uint8 of one dimension")
    return int(host.__array_interface__["data"][0])


class View(Protocol):
    """An array over mapped memory that knows when its mapping has gone.

    Attributes
    ----------
    nbytes
        Bytes of the array.
    """

    nbytes: int

    @property
    def address(self) -> int:
        """Its first address. Raises StaleView once a mapping below it has ended."""
        ...

    def array(self) -> Any:
        """The bytes as a uint8 array of the driver's kind. Raises StaleView once a mapping below it has ended.

        The array does not raise: it is for use at once, and whoever needs the bytes later asks the view again.
        """
        ...


class Graph(Protocol):
    """Captured work. It keeps the addresses it was captured with."""

    def launch(self) -> np.ndarray:
        """Run the captured work, wait for it and return what it read (uint8).

        Raises DriverError, ILLEGAL_ADDRESS when one of its addresses is not mapped: the context is then lost.
        """
        ...


class Driver(Protocol):
    """One card as one process sees it.

    Every method but `supported` and `view` raises DriverError when the driver refuses.

    Attributes
    ----------
    unreleased
        Handles whose release failed; `create` strikes out what it makes.
    """

    unreleased: UnreleasedHandles

    def supported(self) -> bool:
        """Whether the card has virtual memory calls. Never raises."""
        ...

    def granularity(self) -> int:
        """Bytes that sizes and addresses of physical memory are multiples of (2 MiB on the cards seen)."""
        ...

    def mem_info(self) -> tuple[int, int]:
        """Bytes (free, total) of the card as the driver reports them; under WDDM the first can be too high or 0."""
        ...

    def reserve(self, size: int, align: int = 0) -> int:
        """Reserve addresses, at which nothing is mapped, and return the first.

        Parameters
        ----------
        size
            How many, a multiple of the granularity.
        align
            What the first is a multiple of, a power of two; 0 for the granularity.
        """
        ...

    def address_free(self, va: int, size: int) -> None:
        """Give a range of addresses back; every mapping in it must have ended.

        Parameters
        ----------
        va, size
            The range, exactly as it was reserved.
        """
        ...

    def create(self, size: int) -> int:
        """Take `size` bytes of physical memory and return its handle. Contents are anything."""
        ...

    def release(self, handle: int) -> None:
        """Drop the handle; the memory is free when it is not mapped any more either."""
        ...

    def map(self, va: int, size: int, handle: int) -> None:
        """Map a whole handle at reserved, unmapped addresses; they cannot be accessed before `set_access`.

        Parameters
        ----------
        va
            The first address.
        size
            Bytes of the handle.
        handle
            A handle from `create`.
        """
        ...

    def unmap(self, va: int, size: int) -> None:
        """End one whole mapping.

        This does not wait for kernels or copies that use it.

        Parameters
        ----------
        va, size
            The range, exactly as it was mapped.
        """
        ...

    def set_access(self, va: int, size: int) -> None:
        """Allow reading and writing.

        Parameters
        ----------
        va, size
            A range that is mapped without a gap; it may span several mappings.
        """
        ...

    def synchronize(self) -> None:
        """Wait for everything queued on the card."""
        ...

    def copy_in(self, va: int, host: np.ndarray, stream: Stream | None = None) -> None:
        """Copy bytes to the card; without a stream the copy has landed on return.

        On a stream it is queued: `host` must not change before it has landed; the driver keeps it alive until then.

        Parameters
        ----------
        va
            The first address on the card.
        host
            uint8 of one dimension, contiguous.
        stream
            A stream of this driver, or None.
        """
        ...

    def copy_in_all(self, ranges: Iterable[tuple[int, np.ndarray]], stream: Stream) -> None:
        """`copy_in` on a stream for several ranges in turn; the first that is refused is the last.

        It is one `copy_in` after another, but with less done between them.

        Parameters
        ----------
        ranges
            (address, bytes) of each.
        stream
            A stream of this driver.
        """
        ...

    def copy_out(self, va: int, n: int) -> np.ndarray:
        """A copy of bytes on the card; it does not wait for streams.

        Parameters
        ----------
        va, n
            The first address, and how many bytes.

        Returns
        -------
        uint8 array [n]
        """
        ...

    def fill(self, va: int, byte: int, n: int) -> None:
        """Set bytes on the card; they have landed on return.

        Parameters
        ----------
        va
            The first address.
        byte
            The value of each, 0 to 255.
        n
            How many.
        """
        ...

    def compare(self, va: int, host: np.ndarray) -> Compared:
        """Compare bytes on the card with the host's, on the card; this does not wait for streams.

        Parameters
        ----------
        va
            The first address on the card.
        host
            uint8 of one dimension, contiguous.
        """
        ...

    def compare_all(self, ranges: Sequence[tuple[int, np.ndarray]]) -> Compared:
        """`compare` of many ranges at copy speed, with one wait in all.

        Every range is compared, whatever differs.

        Parameters
        ----------
        ranges
            (address, bytes) of each.
        """
        ...

    def stream(self) -> Stream:
        """A new stream that waits for no other; it lasts as long as the driver."""
        ...

    def record(self, stream: Stream) -> Event:
        """An event behind everything queued on the stream so far."""
        ...

    def reached(self, event: Event) -> bool:
        """Whether everything before the event has been done."""
        ...

    def wait(self, event: Event) -> None:
        """Wait until everything before the event has been done."""
        ...

    def wait_stream(self, stream: Stream) -> None:
        """Wait until everything queued on the stream has been done."""
        ...

    def page_locked(self, n: int) -> np.ndarray:
        """`n` bytes of host memory that the card copies at full speed; freed with the last array that uses it."""
        ...

    def view(self, va: int, n: int) -> View:
        """A view of mapped and accessible bytes.

        Parameters
        ----------
        va, n
            The first address, and how many bytes.

        Raises
        ------
        StaleView
            When they are not all mapped and accessible.
        """
        ...

    def close(self) -> None:
        """Free what the driver itself holds (streams, staging memory). Ranges and handles are their owners' to free."""
        ...
