"""NVRTC by ctypes: CUDA C++ text in, a cubin or PTX out. Works without a driver, a card or CuPy.

CuPy's own compile path is not used: it appends `-ftz=true` after the caller's options, drops the
last byte of a cubin, and its cache does not see an edited header.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from strata.executors.base import BuildError, ExecutorUnavailable
from strata.forks import in_child
from strata.imports import folders, said

#: The releases that this project's figures (registers, spills) belong to; another one works, with other figures.
PINNED = ("13.0", "12.9")
#: NVRTC_ERROR_INVALID_OPTION and NVRTC_ERROR_COMPILATION: what a source and its options are answered with.
_OF_SOURCE = (5, 6)


@dataclass(frozen=True)
class Compiled:
    """What NVRTC made of a source.

    Parameters
    ----------
    code
        The bytes of a cubin (target `sm_NN`) or of PTX text (`compute_NN`).
    log
        What the compiler said.
    """

    code: bytes
    log: str


class Nvrtc:
    """One loaded NVRTC.

    Its attributes are `version`, such as "13.0.88", `release`, such as "13.0", and `archs`, the compute capabilities,
    times ten, that it compiles for.

    Parameters
    ----------
    file
        The shared library.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._library = ctypes.CDLL(str(file))
        self._compiling: list[str] = []  # names of sources, by every thread
        self._stuck = ""
        in_child(self._forked)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        self.release = f"{major.value}.{minor.value}"
        # NVRTC opens its builtins by bare name, which the loader finds only once they are in the process.
        self._builtins = _load_builtins(file, major.value, minor.value)
        self.archs = self._supported()
        # The library tells only major.minor; the PTX it writes tells the build, which decides the machine code.
        banner = self.compile(b"__global__ void k() {}", "version.cu", [f"-arch=compute_{self.archs[0]}"]).code
        found = re.search(rb"V(\d+\.\d+\.\d+)", banner)
        self.version = found.group(1).decode() if found else self.release

    @property
    def pinned(self) -> bool:
        """Whether this is one of the releases that the project measured its register figures with."""
        return self.release in PINNED

    def compile(self, source: bytes, name: str, options: Sequence[str]) -> Compiled:
        """Compile one source.

        Parameters
        ----------
        source
            The bytes of the source.
        name
            What messages call the source, and the path whose directory `#include "..."` starts from.
        options
            What the compiler is told, one `-arch=` among it.

        Raises
        ------
        BuildError
            With the compiler's first error line and its whole log.
        ExecutorUnavailable
            When it fails for another reason than the source or the options, such as memory, and in a child that was
            forked during a compilation: the compiler's own locks are held there for ever.
        """
        if self._stuck:
            raise ExecutorUnavailable(
                f"NVRTC was compiling {self._stuck} in another thread when this process was forked, and answers no"
                " more here: start child processes by spawn"
            )
        self._compiling.append(name)
        try:
            return self._compile(source, name, options)
        finally:
            self._compiling.remove(name)

    def _forked(self) -> None:
        self._stuck = next(iter(self._compiling), "")

    def _compile(self, source: bytes, name: str, options: Sequence[str]) -> Compiled:
        library = self._library
        program = ctypes.c_void_p()
        self._check(library.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 0, None, None))
        try:
            words = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
            status = library.nvrtcCompileProgram(program, len(options), words)
            log = self._fetch("ProgramLog", program).rstrip(b"\0").decode(errors="replace")
            if status in _OF_SOURCE:
                raise BuildError(_first_error(log) or self._text(status), log)
            self._check(status)
            cubin = any(option.startswith("-arch=sm_") for option in options)
            # PTX is text and comes with a NUL that is no part of it.
            code = self._fetch("CUBIN", program) if cubin else self._fetch("PTX", program).rstrip(b"\0")
            return Compiled(code, log)
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))

    def _supported(self) -> tuple[int, ...]:
        count = ctypes.c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        archs = (ctypes.c_int * count.value)()
        self._check(self._library.nvrtcGetSupportedArchs(archs))
        return tuple(sorted(archs))

    def _fetch(self, what: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        text = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, text))
        return text.raw

    def _text(self, status: int) -> str:
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return str(self._library.nvrtcGetErrorString(status).decode())

    def _check(self, status: int) -> None:
        """Of anything but a source: the compiler is damaged, or the machine short of something."""
        if status != 0:
            raise ExecutorUnavailable(f"NVRTC ({self.file}): {self._text(status)}")


@cache
def load_nvrtc(majors: tuple[int, ...] = (13, 12)) -> Nvrtc:
    """The NVRTC of this environment: this environment's wheel, else a CUDA toolkit, else what the system's loader
    finds.

    Parameters
    ----------
    majors
        CUDA majors, of which the first that is there is taken.

    Raises
    ------
    ExecutorUnavailable
        When there is none that loads; the message tells what to install.
    """
    refused = []
    for major in majors:
        for file in _candidates(major):
            try:
                return Nvrtc(file)
            except Exception as error:  # a file of that name may be anything; what it said is said below
                refused.append(said(error))
    damaged = f" ({len(refused)} found, none loads: {refused[0]})" if refused else ""
    extra = f"cuda{majors[0]}x"
    raise ExecutorUnavailable(
        f"no NVRTC {' or '.join(map(str, majors))} to compile kernels with{damaged}: "
        f"in the checkout, python -m pip install -e '.[{extra}]', or install a CUDA toolkit"
    )


def _candidates(major: int) -> Iterator[Path]:
    windows = sys.platform == "win32"
    name = f"nvrtc64_{major}0_0.dll" if windows else f"libnvrtc.so.{major}"
    for folder in (*_wheel_folders(major), *_toolkit_folders(major)):
        if (folder / name).is_file():
            yield folder / name
    if _system_loads(name):
        yield Path(name)


def _system_loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _wheel_folders(major: int) -> Iterator[Path]:
    for root in folders("nvidia"):
        for package in (f"cu{major}", "cuda_nvrtc"):
            for inner in ("lib", "bin", "bin/x86_64", "bin/x64"):
                yield root / package / inner


def _toolkit_folders(major: int) -> Iterator[Path]:
    named = [os.environ.get(name, "") for name in ("CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX")]
    roots = [Path(name) for name in named if name]
    if sys.platform == "win32":
        program_files = os.environ.get("PROGRAMFILES", "C:/Program Files")
        roots += sorted(Path(program_files).glob(f"NVIDIA GPU Computing Toolkit/CUDA/v{major}.*"), reverse=True)
    else:
        versions = sorted(Path("/usr/local").glob(f"cuda-{major}*"), reverse=True)
        roots += [Path("/usr/local/cuda"), *versions, Path("/opt/cuda")]
    for root in roots:
        for inner in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "bin/x64", "bin"):
            yield root / inner


def _load_builtins(file: Path, major: int, minor: int) -> ctypes.CDLL | None:
    windows = sys.platform == "win32"
    name = f"nvrtc-builtins64_{major}{minor}.dll" if windows else f"libnvrtc-builtins.so.{major}.{minor}"
    # A toolkit's libnvrtc.so.13 is a link; the builtins lie beside the link or beside the file.
    for folder in (file.parent, file.resolve().parent):
        if (folder / name).is_file():
            return ctypes.CDLL(str(folder / name))
    return None


def _first_error(log: str) -> str:
    lines = (line.strip() for line in log.splitlines())
    return next((line for line in lines if re.search(r"\berror\b", line)), "")
