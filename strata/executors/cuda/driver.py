"""Which NVIDIA driver this machine has, asked of the driver itself, without CuPy.

A library on disk proves little: containers carry libcuda without a card, toolkits ship a stub of it.
So the driver is initialised and its devices counted. Standard library only, because `noxfile.py` runs this
file as a script, before anything is installed, to choose the CuPy extra; it then prints one JSON object.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

#: The oldest CUDA version that a supported CuPy runs on, and the one from which extra `cuda13x` fits.
OLDEST_CUDA = (12, 0)
CUDA_13 = (13, 0)

_LIBRARIES = {"win32": ("nvcuda.dll",)}
_LINUX = ("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1")
_MANAGEMENT = {"win32": ("nvml.dll",)}
_MANAGEMENT_LINUX = ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1")

_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_STUB = 34  # CUDA_ERROR_STUB_LIBRARY
_NOT_INITIALIZED = (
    3  # CUDA_ERROR_NOT_INITIALIZED, of cuInit itself: only in a forked child of a process that had called it
)


@dataclass(frozen=True)
class Driver:
    """What was found of an NVIDIA driver.

    Parameters
    ----------
    problem
        Why no card can be used, "" when one can.
    cuda
        The newest CUDA version that the driver runs, (major, minor); None when it is not known.
    release
        The driver's own version, such as "580.95.05"; "" when it is not known.
    devices
        How many devices it has.
    """

    problem: str
    cuda: tuple[int, int] | None = None
    release: str = ""
    devices: int = 0

    @property
    def extra(self) -> str | None:
        """The extra of this package that fits: `cuda13x`, `cuda12x`, or None without a usable card."""
        if self.problem or self.cuda is None:
            return None
        return "cuda13x" if self.cuda >= CUDA_13 else "cuda12x"

    @property
    def title(self) -> str:
        """A few words for messages, e.g. `driver 580.95.05 (CUDA 13.0)`."""
        name = f"driver {self.release}" if self.release else "the NVIDIA driver"
        return f"{name} (CUDA {self.cuda[0]}.{self.cuda[1]})" if self.cuda else name


def find_driver(load: Callable[[str], ctypes.CDLL] = ctypes.CDLL) -> Driver:
    """Initialise the driver and count its devices.

    Nothing is raised: what is wrong stands in the answer.

    Parameters
    ----------
    load
        How a shared library is opened; a test passes its own.
    """
    names = _LIBRARIES.get(sys.platform, _LINUX)
    library = _first(names, load)
    if library is None:
        return Driver(f"no NVIDIA driver here ({names[0]} cannot be loaded)")
    try:
        return _ask(library, _release(load))
    except AttributeError as error:  # a function is missing
        return Driver(f"{names[0]} is not a usable NVIDIA driver: {error}")


def _ask(library: ctypes.CDLL, release: str) -> Driver:
    cuda = _cuda_version(library)
    found = Driver("", cuda, release)
    status = library.cuInit(0)
    if status == _STUB:
        return Driver("the libcuda found is a toolkit's stub, not a driver: install the NVIDIA driver")
    if status == _NOT_INITIALIZED:
        return Driver(
            f"{found.title} answers no process that was forked from one that uses it: start children by spawn",
            cuda,
            release,
        )
    if status != 0 and status != _NO_DEVICE:
        return Driver(f"{found.title} does not work: {_text(library, status)}", cuda, release)
    count = ctypes.c_int(0)
    if status == 0:
        status = library.cuDeviceGetCount(ctypes.byref(count))
    if status != 0 or count.value == 0:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = f" (CUDA_VISIBLE_DEVICES is {hidden!r})" if hidden is not None else ""
        return Driver(f"{found.title} sees no device{why}", cuda, release)
    if cuda is None or cuda < OLDEST_CUDA:
        return Driver(
            f"{found.title} is too old: CUDA 12.0 (driver 525) or newer is needed", cuda, release, count.value
        )
    return Driver("", cuda, release, count.value)


def _first(names: tuple[str, ...], load: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL | None:
    for name in names:
        try:
            return load(name)
        except OSError:
            continue
    return None


def _cuda_version(library: ctypes.CDLL) -> tuple[int, int] | None:
    """The one call that works before cuInit, and when cuInit fails."""
    number = ctypes.c_int(0)
    if library.cuDriverGetVersion(ctypes.byref(number)) != 0 or number.value <= 0:
        return None
    return number.value // 1000, number.value % 1000 // 10


def _text(library: ctypes.CDLL, status: int) -> str:
    text = ctypes.c_char_p()
    if library.cuGetErrorString(status, ctypes.byref(text)) == 0 and text.value:
        return f"{text.value.decode(errors='replace')} (CUDA error {status})"
    return f"CUDA error {status}"


def _release(load: Callable[[str], ctypes.CDLL]) -> str:
    """The driver's release from NVML, for people to read; "" when NVML is absent."""
    management = _first(_MANAGEMENT.get(sys.platform, _MANAGEMENT_LINUX), load)
    if management is None:
        return ""
    text = ctypes.create_string_buffer(96)
    try:
        if management.nvmlInit_v2() != 0:
            return ""
        status = management.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text)))
        management.nvmlShutdown()
    except AttributeError:  # a function is missing: the release is for people alone
        return ""
    return text.value.decode(errors="replace") if status == 0 else ""


if __name__ == "__main__":
    driver = find_driver()
    print(json.dumps({**asdict(driver), "extra": driver.extra, "title": driver.title}))
