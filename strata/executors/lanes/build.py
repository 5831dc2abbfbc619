"""Builds a kernel source as host C++: finds a compiler, compiles, keeps the result by content."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from strata.executors.base import BuildError, ExecutorUnavailable, Kernel, iter_include, system_reason
from strata.executors.cache import content_key, entry
from strata.executors.lanes import advice, blame, machine, precompiled

RUNTIME = Path(__file__).resolve().parent / "runtime"
_COPY = "source"
_UNIT = f"{_COPY}/unit.cpp"
_INCLUDES = (f"-I{_COPY}", f"-I{_COPY}/runtime")

#: What each flavor adds. `fast` runs whole parity cases; `checked` watches every memory access;
#: `sanitize` is a program of its own with the compiler's address and undefined-behaviour checks.
FLAVOR_FLAGS: dict[str, tuple[str, ...]] = {
    "fast": ("-O3",),
    "checked": ("-O1", "-DSTRATA_CHECKED"),
    # Nothing is left out or merged before it is checked, and of debugging information the lines of reports are there:
    # with -O1 and variables a build takes three times as long.
    "sanitize": (
        "-O0",
        "-g1",
        "-fno-omit-frame-pointer",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-DSTRATA_PROGRAM",
    ),
}

#: What every flavor is compiled with. -ffp-contract=off: a*b+c keeps its two roundings, as --fmad=false does on the
#: device.
FLAGS = (
    "-std=c++20",
    "-march=native",
    "-ffp-contract=off",
    "-fno-fast-math",
    "-fno-strict-aliasing",
    "-fvisibility=hidden",
    "-fPIC",
    "-pthread",
    "-w",
    "-DSTRATA_LANES",
)


#: What the checked build of a kernel from outside of this package is compiled with besides, by GCC from 12 on: what a
#: card computes otherwise than a processor is an error that names its line (runtime/undefined.hpp), and a local
#: variable begins with a pattern, in the fast build with zeros. `check` compares the bits of the two.
_UNDEFINED = ("shift", "signed-integer-overflow", "integer-divide-by-zero", "float-cast-overflow", "bounds", "return")
STRANGERS_FLAGS: dict[str, tuple[str, ...]] = {
    "fast": ("-ftrivial-auto-var-init=zero",),
    "checked": (
        "-ftrivial-auto-var-init=pattern",
        # These two take a variable that nobody wrote for the value of a branch that was not taken.
        "-fno-tree-ccp",
        "-fno-tree-fre",
        f"-fsanitize={','.join(_UNDEFINED)}",
        "-fno-sanitize-recover=all",
        "-fsanitize-recover=signed-integer-overflow",  # which the vocabulary's own instructions may have
        "-DSTRATA_UNDEFINED",
    ),
    "sanitize": (),
}
#: The libraries of such a build, without the sanitizer's own, whose part lanes take.
_WITHOUT_SANITIZER = ("-nodefaultlibs", "-lstdc++", "-lm", "-lgcc_s", "-lgcc", "-lc")
_GCC_WITH_BOTH = 12


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler.

    Parameters
    ----------
    command
        The words that start it.
    version
        The first line of what it says of its version.
    """

    command: tuple[str, ...]
    version: str


@cache
def _version(command: tuple[str, ...]) -> str | None:
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def _candidates() -> Iterable[tuple[str, ...]]:
    named = os.environ.get("CXX")
    if named:
        try:
            yield tuple(shlex.split(named))
        except ValueError as error:
            raise ExecutorUnavailable(f"no C++ compiler: CXX={named!r} is no command: {error}") from None
        return
    for name in ("g++", "clang++", "c++"):
        if shutil.which(name):
            yield (name,)
    if importlib.util.find_spec("ziglang") is not None:
        yield (sys.executable, "-m", "ziglang", "c++")


def find_compiler() -> Compiler:
    """The compiler that `CXX` names, else g++, clang++ or c++ of the system, else the ziglang wheel.

    Raises
    ------
    ExecutorUnavailable
        When there is none that answers, and on a system or a processor that lanes do not run on.
    """
    machine = platform.machine().lower()
    if not sys.platform.startswith("linux") or machine not in ("x86_64", "amd64", "aarch64", "arm64"):
        raise ExecutorUnavailable(
            f"the lanes executor runs on Linux, x86-64 or 64-bit Arm; this is {sys.platform} on {machine}"
        )
    for command in _candidates():
        version = _version(command)
        if version is not None:
            return Compiler(command, version)
    named = os.environ.get("CXX")
    if named:
        raise ExecutorUnavailable(f"no C++ compiler: CXX={named!r} does not answer to --version")
    raise ExecutorUnavailable(
        "no C++ compiler: install g++ or clang++, or the wheel with `python -m pip install ziglang`"
    )


@cache
def _native(command: tuple[str, ...]) -> bytes:
    """What -march=native means here: the same source built for another processor is another entry.

    Raises ExecutorUnavailable when the compiler does not start, or does not end.
    """
    words = [*command, "-march=native", "-dM", "-E", "-x", "c++", os.devnull]
    try:
        return subprocess.run(words, capture_output=True, timeout=60, check=False).stdout
    except OSError as error:
        raise blame.not_started(command, error) from error
    except subprocess.TimeoutExpired:
        raise ExecutorUnavailable(f"the C++ compiler `{' '.join(command)}` lists no macros in 60 s") from None


def _gcc(compiler: Compiler) -> int:
    """The major version of a compiler that is GCC; 0 of others."""
    native = _native(compiler.command)
    found = re.search(rb"#define __GNUC__ (\d+)", native)
    return int(found[1]) if found and b"#define __clang__ " not in native else 0


def finds_undefined(compiler: Compiler) -> bool:
    """Whether the checked build of a kernel from outside stops at what C++ leaves undefined, and two builds differ in
    how a local variable begins: GCC's do, from version 12 on."""
    return _gcc(compiler) >= _GCC_WITH_BOTH


@dataclass(frozen=True)
class Built:
    """A compiled kernel on disk.

    Parameters
    ----------
    path
        The library, or the program of the sanitize flavor.
    options
        The words that the compiler was given.
    compiler
        What compiled it.
    """

    path: Path
    options: tuple[str, ...]
    compiler: Compiler


#: What did not compile in this process, by content key: a run asks for one image in many cases.
_refused: dict[str, BuildError] = {}


def build(kernel: Kernel, flavor: str, compiler: Compiler) -> Built:
    """Compile a kernel, or take it from the cache, where it is kept under a digest of the source, every header, the
    options, the compiler and the processor.

    Parameters
    ----------
    kernel
        What to compile.
    flavor
        `fast`, `checked` or `sanitize`.
    compiler
        What compiles it.

    Raises
    ------
    BuildError
        When the source is wrong; the error has the compiler's log.
    ExecutorUnavailable
        Without a cache or room in it, and when the compiler cannot compile.
    """
    apart = _is_gcc(compiler)
    files = _snapshot(kernel, apart)
    defines = tuple(f"-D{name}={value}" for name, value in kernel.defines)
    strangers = STRANGERS_FLAGS[flavor] if kernel.directory is not None and finds_undefined(compiler) else ()
    libraries = _WITHOUT_SANITIZER if "-DSTRATA_UNDEFINED" in strangers else ()
    options = (*FLAGS, *FLAVOR_FLAGS[flavor], *strangers, *defines)
    parts: list[str | bytes] = []
    for file, content in files.items():
        parts += [file, content]
    parts += [*options, compiler.version, " ".join(compiler.command), _native(compiler.command)]
    name = "kernel" if flavor == "sanitize" else "kernel.so"

    def make(directory: Path) -> None:
        # Compiled from a copy of the very bytes that are in the key, so that a header edited meanwhile
        # cannot slip in, and paths of this machine stay out of the image.
        copy = directory / _COPY
        for file, content in files.items():
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            (copy / file).write_bytes(content)
        shape = () if flavor == "sanitize" else ("-shared",)
        ahead, units = _made_before(flavor, compiler, files) if apart else ((), ())
        done = _compile(compiler, [*options, *shape], ahead, (*units, _UNIT), name, directory, libraries)
        if done.returncode != 0 and ahead:  # what it says must be about the source
            done = _compile(compiler, [*options, *shape], (), (*units, _UNIT), name, directory, libraries)
        if done.returncode != 0:
            raise _failure(kernel, flavor, compiler, [*options, *shape], done, directory)
        image = directory / name
        if not image.is_file() or not image.stat().st_size:
            raise ExecutorUnavailable(
                f"`{' '.join(compiler.command)}` reports no error and compiles nothing: "
                "CXX must name a C++ compiler, such as g++ or clang++"
            )
        shutil.rmtree(copy)

    key = content_key(parts, f"lanes-{flavor}")
    if key in _refused:  # these very bytes: they will not compile the next time either
        raise _refused[key]
    try:
        return Built(entry(key, make, (name,)) / name, options, compiler)
    except BuildError as error:
        _refused[key] = error
        raise


def _failure(
    kernel: Kernel,
    flavor: str,
    compiler: Compiler,
    options: Sequence[str],
    done: subprocess.CompletedProcess[str],
    directory: Path,
) -> BuildError | ExecutorUnavailable:
    """What a failed compilation is: an error of the kernel, or one of the machine or of the compiler, which a source
    without a fault tells apart where the log does not."""
    stopped = blame.machine(compiler.command, done)
    if stopped is not None:
        return stopped
    log = done.stderr or done.stdout
    if not blame.of_source(log, _COPY):
        (directory / _COPY / "unit.cpp").write_text(blame.PROBE)
        probed = _compile(compiler, options, (), (_UNIT,), "probe", directory)
        stopped = blame.machine(compiler.command, probed)
        if stopped is not None:
            return stopped
        if probed.returncode != 0:
            said = blame.first_error(probed.stderr or probed.stdout).replace(f"{_COPY}/", "")
            return ExecutorUnavailable(
                f"`{' '.join(compiler.command)}` cannot compile for this machine: {said}; set CXX to another compiler"
            )
    log = log.replace(f"{_COPY}/", "")
    said = blame.first_error(log)
    return BuildError(f"{kernel.label} does not compile for lanes ({flavor}): {said}{advice.of(said)}", log)


def _is_gcc(compiler: Compiler) -> bool:
    """Whether it is GCC: of others a kernel is one translation unit, and nothing is compiled ahead of it."""
    return _gcc(compiler) > 0


def _made_before(
    flavor: str, compiler: Compiler, files: Mapping[str, bytes]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What all kernels share, compiled once: the option by which GCC finds the standard headers, if there are any, and
    the machine to link, which is its source where there is no object file."""
    identity: list[str | bytes] = [compiler.version, " ".join(compiler.command), _native(compiler.command)]
    options = (*FLAGS, *FLAVOR_FLAGS[flavor])
    shared = machine.compiled(compiler.command, identity, options, _INCLUDES, files, _COPY)
    found = ""
    if flavor != "sanitize":  # whose programs name the files that they are made of
        found = precompiled.folder(compiler.command, identity, options, files[f"runtime/{precompiled.NAME}"])
    return ((f"-I{found}",) if found else ()), (shared or f"{_COPY}/{machine.SOURCE}",)


def _compile(
    compiler: Compiler,
    options: Sequence[str],
    ahead: Sequence[str],
    units: Sequence[str],
    name: str,
    directory: Path,
    libraries: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run the compiler on the copy of the sources in `directory`. ahead: where it finds headers compiled before;
    units: what it compiles and links;
    libraries: in place of those that it links unasked."""
    words = [*options, *ahead, *_INCLUDES, *units, *libraries, "-o", name]
    return blame.compiled(compiler.command, words, directory, directory / _COPY)


def _snapshot(kernel: Kernel, apart: bool) -> dict[str, bytes]:
    """What is compiled, by the name it is included as. apart: the machine is a translation unit of its own. Raises
    BuildError for a source that is not there."""
    headers = (precompiled.NAME, f"{kernel.source}.cu", *(() if apart else (machine.HEADER,)), "entry.hpp")
    unit = "".join(f'#include "{header}"\n' for header in headers) + f"STRATA_KERNEL({kernel.entry})\n"
    try:
        files = {"unit.cpp": unit.encode(), f"{kernel.source}.cu": kernel.path.read_bytes()}
        if apart:
            files[machine.SOURCE] = f'#include "{machine.HEADER}"\n'.encode()
        files |= {header.name: header.read_bytes() for header in kernel.headers}
        files |= {f"include/{header.name}": header.read_bytes() for header in iter_include()}
        files |= {f"runtime/{header.name}": header.read_bytes() for header in sorted(RUNTIME.glob("*.hpp"))}
    except OSError as error:
        raise BuildError(f"{kernel.label}: cannot read {error.filename}: {system_reason(error)}") from error
    return files
