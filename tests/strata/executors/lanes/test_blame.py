"""Whose fault it is that a kernel did not compile; only its own is remembered."""

from __future__ import annotations

import errno
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from strata.executors import cache
from strata.executors.base import BuildError, ExecutorUnavailable, Kernel
from strata.executors.lanes import LanesExecutor, blame

ROOT = Path(__file__).resolve().parents[4]
FULL = os.strerror(errno.ENOSPC)

#: Logs as GCC, binutils, Clang, its linker and Zig wrote them, with what the line must say.
OF_THE_MACHINE = [
    ("/usr/bin/ld: final link failed: No space left on device\ncollect2: error: ld returned 1 exit status", FULL),
    ("/tmp/cc.s: Fatal error: can't fill 256 bytes in section .data of /tmp/cc.o: 'No space left on device'", FULL),
    ("source/unit.cpp:5:21: fatal error: error writing to /tmp/cc.s: File too large\n  5 | int x;", "File too large"),
    ("g++: internal compiler error: File size limit exceeded signal terminated program as", "File size limit exceeded"),
    ("collect2: fatal error: ld terminated with signal 25 [File size limit exceeded], core dumped", "ulimit -f"),
    ("/usr/bin/ld: cannot open output file x.so: Read-only file system", "Read-only file system"),
    ("/usr/bin/ld: final link failed: Disk quota exceeded", "Disk quota exceeded"),
    ("cc1plus: fatal error: cannot create temporary file in /tmp/: Permission denied", "Permission denied"),
    ("virtual memory exhausted: Cannot allocate memory", "Cannot allocate memory"),
    ("cc1plus: out of memory allocating 65536 bytes after a total of 1 bytes", "Cannot allocate memory"),
    ("g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.", "was stopped: Killed"),
    ("g++: fatal error: Terminated signal terminated program cc1plus", "was stopped: Terminated"),
    ("clang++: error: unable to execute command: Killed", "was stopped: Killed"),
    ("LLVM ERROR: IO failure on output stream: No space left on device", FULL),
    ("error: unable to build compiler_rt: NoSpaceLeft", "NoSpaceLeft"),
]
OF_THE_SOURCE = [
    "source/broken.cu:3:40: error: 'missing_name' was not declared in this scope",
    "source/broken.cu:3:40: error: 'Killed' was not declared\n    3 |   Killed x;\n      |   ^~~~~~",
    "source/include/x.cuh:2:2: error: #error No space left on device for this tile",
    "source/broken.cu:3: fatal error: 'nothing.cuh' file not found",
]


def ended(log: str, status: int = 1) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(["cxx"], status, "", log)


@pytest.mark.parametrize(("log", "said"), OF_THE_MACHINE)
def test_a_log_of_the_machines_failure_is_known(log: str, said: str) -> None:
    error = blame.machine(("cxx",), ended(log))
    assert error is not None
    assert said in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("log", OF_THE_SOURCE)
def test_a_log_about_the_source_is_not_the_machines(log: str) -> None:
    assert blame.machine(("cxx",), ended(log)) is None
    assert blame.of_source(log, "source")


def test_a_compiler_that_was_killed_says_nothing_about_the_source() -> None:
    assert blame.machine(("cxx",), ended("", -9)) is not None
    assert blame.machine(("cxx",), ended("", -11)) is None  # it crashed of itself


@pytest.mark.parametrize(
    "log",
    [
        "source/runtime/standard.hpp:5:10: fatal error: 'atomic' file not found",
        "/usr/include/c++/12/string:38:10: fatal error: bits/c++config.h: No such file or directory",
        "g++: error: unrecognized command-line option '-std=c++20'",
    ],
)
def test_what_the_log_does_not_say_is_asked_with_a_source_without_a_fault(log: str) -> None:
    assert blame.machine(("cxx",), ended(log)) is None
    assert not blame.of_source(log, "source")


SOURCE = """
#include "include/vocabulary.cuh"
extern "C" __global__ void probe(u32* out) { store(out, 1u); }
"""
Compiler = Callable[[str], Kernel]


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    """Makes `CXX` a shell script, which is given to do once it is asked to compile; the kernel to build by it."""
    (tmp_path / "probe.cu").write_text(SOURCE)
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    script = tmp_path / "stand-in"
    monkeypatch.setenv("CXX", shlex.quote(str(script)))

    def does(what: str) -> Kernel:
        script.write_text(
            "#!/bin/sh\nfor last; do :; done\n"
            f'case "$*" in *--version) echo stand-in 1.0 ;; *unit.cpp*) {what} ;; *) : ;; esac\n'
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return Kernel("probe", "probe", 1, 0, (), str(tmp_path))

    return does


@pytest.mark.parametrize("log", [log.splitlines()[0] for log, _ in OF_THE_MACHINE[:6]])
def test_a_failure_of_the_machine_is_never_remembered(log: str, compiler: Compiler, tmp_path: Path) -> None:
    """In the same process the same kernel builds as soon as there is room."""
    kernel = compiler(f"echo {shlex.quote(log)} >&2; exit 1")
    for _ in range(2):
        with pytest.raises(ExecutorUnavailable):
            LanesExecutor().build(kernel)
    compiler('echo compiled > "$last"')
    LanesExecutor().build(kernel)
    assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.parametrize("what", [":", ': > "$last"', 'mkdir "$last"'])
def test_a_compiler_that_compiles_nothing_leaves_no_entry(what: str, compiler: Compiler, tmp_path: Path) -> None:
    kernel = compiler(what)
    with pytest.raises(ExecutorUnavailable, match=r"stand-in` reports no error and compiles nothing: CXX must name"):
        LanesExecutor().build(kernel)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_compiler_that_cannot_compile_anything_is_named(compiler: Compiler) -> None:
    kernel = compiler("echo 'cxx: error: no C++ library here' >&2; exit 1")
    with pytest.raises(ExecutorUnavailable, match="cannot compile for this machine: cxx: error: no C"):
        LanesExecutor().build(kernel)


def test_an_error_without_a_place_is_the_sources_when_another_source_compiles(compiler: Compiler) -> None:
    kernel = compiler("grep -q 'throw std' source/unit.cpp && exit 0; echo 'undefined reference to x' >&2; exit 1")
    with pytest.raises(BuildError, match="does not compile for lanes"):
        LanesExecutor().build(kernel)


def test_a_compiler_that_does_not_start_any_more_is_named(compiler: Compiler, tmp_path: Path) -> None:
    kernel = compiler(":")
    executor = LanesExecutor()
    (tmp_path / "stand-in").chmod(0o600)
    with pytest.raises(ExecutorUnavailable, match=r"stand-in.*cannot be started: Permission denied"):
        executor.build(kernel)


_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from validation.__main__ import main
sys.exit(main(["fuzz", "--executor", "lanes", "--paths", "router/*", "--count", "1"]))
"""


@pytest.mark.parametrize("limit", [8 << 10, 64 << 10])
def test_a_limit_on_files_ends_a_command_in_one_line(limit: int, tmp_path: Path) -> None:
    """The lower one stops the copy of a source, the higher one the compiler."""
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(limit)],
        cwd=ROOT,
        env=os.environ | {cache.VARIABLE: str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: cannot write compiled kernels to {tmp_path / 'cache'} (File ")
    assert line.endswith("raise the limit on a file's size (`ulimit -f`)")
    assert list((tmp_path / "cache").iterdir()) == []
