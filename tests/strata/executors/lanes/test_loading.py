"""Any number of kernels loads into one process, and what the loader refuses is said with its cause."""

from __future__ import annotations

import ctypes
import errno
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from strata.executors import cache
from strata.executors.base import ExecutorUnavailable, Kernel
from strata.executors.lanes import LanesExecutor, build, library, program
from strata.executors.lanes.loading import hint, hint_of_number
from tests.strata.executors.lanes.conftest import Maker
from tests.strata.executors.lanes.number_inputs import KERNEL as NUMBERS
from tests.strata.executors.lanes.number_inputs import evaluate

_TLS_SEGMENT, _DYNAMIC_SEGMENT = 7, 2
_FLAGS_TAG, _STATIC_TLS_FLAG = 30, 0x10
#: Far beyond what the loader's reserve holds beside any other library, at 8 bytes each.
MANY = 600


def segments(file: Path) -> dict[int, tuple[int, int]]:
    """Of a 64-bit little-endian ELF file: place and size in the file of the last segment of each type."""
    data = file.read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01"
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    found = {}
    for at in range(start, start + size * count, size):
        kind, _, place, _, _, length = struct.unpack_from("<IIQQQQ", data, at)
        found[kind] = (place, length)
    return found


def wants_static_tls(file: Path) -> bool:
    """Whether the file's thread-local variables must lie in the loader's own room."""
    place, length = segments(file)[_DYNAMIC_SEGMENT]
    tags = struct.iter_unpack("<QQ", file.read_bytes()[place : place + length])
    return any(tag == _FLAGS_TAG and flags & _STATIC_TLS_FLAG for tag, flags in tags)


def built(executor: LanesExecutor, program: Kernel = NUMBERS) -> Path:
    return build.build(program, executor.flavor, executor.compiler).path


def assert_no_room_taken(executor: LanesExecutor, program: Kernel = NUMBERS) -> None:
    """A kernel built by `executor` has no thread-local variable: in particular none in the loader's own room."""
    file = built(executor, program)
    assert not wants_static_tls(file)
    # Some compilers link their C++ library into each kernel, with a variable that lies elsewhere: ziglang does, and a
    # GCC that is set up so.
    assert _TLS_SEGMENT not in segments(file) or b"libstdc++.so" not in file.read_bytes()


@pytest.mark.parametrize("flavor", ["fast", "checked"])
def test_a_kernel_has_no_thread_local_variable(flavor: str) -> None:
    assert_no_room_taken(LanesExecutor(flavor=flavor))


@pytest.mark.parametrize("flavor", ["fast", "checked"])
def test_ziglangs_kernels_take_no_room_either(flavor: str, ziglang: Maker) -> None:
    assert_no_room_taken(ziglang(flavor=flavor))


def test_hundreds_of_kernels_load_into_one_process(tmp_path: Path) -> None:
    """In a process of its own: nothing that is loaded goes away again."""
    code = "import ctypes, sys; print(len([ctypes.CDLL(f'{sys.argv[1]}/{i}.so') for i in range(int(sys.argv[2]))]))"
    content = built(LanesExecutor()).read_bytes()
    for i in range(MANY):
        (tmp_path / f"{i}.so").write_bytes(content)
    words = [sys.executable, "-c", code, str(tmp_path), str(MANY)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{MANY}\n", "")


NOEXEC, MACHINE, FULL, MISSING = cache.VARIABLE, "another machine", "no memory left", "libraries are not where"
#: As glibc 2.36 writes them, after the library's own path and a colon where it is the library that is at fault.
REASONS = {
    "failed to map segment from shared object: Operation not permitted": NOEXEC,
    "failed to map segment from shared object": NOEXEC,
    "cannot open shared object file: Permission denied": NOEXEC,
    "failed to map segment from shared object: Cannot allocate memory": FULL,
    "cannot create shared object descriptor: Cannot allocate memory": FULL,
    "cannot allocate memory in static TLS block": "GLIBC_TUNABLES",
    "wrong ELF class: ELFCLASS32": MACHINE,
    "invalid ELF header": MACHINE,
    "cannot open shared object file: Too many open files": "ulimit -n",
    "cannot open shared object file: No such file or directory": "deleted",
    "libc++.so.1: cannot open shared object file: No such file or directory": MISSING,
    "undefined symbol: _ZSt28__throw_bad_array_new_lengthv": MISSING,
    "/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by kernel.so)": "older than the compiler's",
    "file too short": "damaged",
}


@pytest.mark.parametrize("reason", [*REASONS, "a reason that nobody has met"])
def test_a_library_that_does_not_load_is_one_line_with_its_own_hint(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise OSError(f"{path}: {reason}")

    evaluate(LanesExecutor(), "from_int", np.ones(1, np.uint32))
    library._load.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    with pytest.raises(ExecutorUnavailable) as caught:
        evaluate(LanesExecutor(), "from_int", np.ones(1, np.uint32))
    text = str(caught.value)
    assert "\n" not in text
    said, _, helps = text.partition(reason)
    assert said.startswith("a compiled kernel cannot be loaded from ")
    wanted = REASONS.get(reason, "")
    assert wanted in helps
    assert bool(helps) == bool(wanted)
    assert not {other for other in REASONS.values() if other in helps} - {wanted}


def test_a_program_that_does_not_start_says_why(tmp_path: Path) -> None:
    request = library.Request("k", (1, 1, 1), 1, 0, (), (), LanesExecutor().rule, 0, 1)

    def refused(file: Path) -> str:
        with pytest.raises(ExecutorUnavailable) as caught:
            program.launch(file, request)
        text = str(caught.value)
        assert text.startswith(f"{file} cannot be run: ")
        assert "\n" not in text
        return text

    file = tmp_path / "kernel"
    assert "deleted" in refused(file)
    file.write_text("no program")
    assert NOEXEC in refused(file)  # not executable: what a noexec mount answers too
    file.chmod(0o755)
    assert MACHINE in refused(file)
    loader = "error while loading shared libraries: libasan.so.8: cannot open shared object file: No such file"
    file.write_text(f'#!/bin/sh\necho "$0: {loader}" >&2\nexit 127\n')
    assert MISSING in refused(file)


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOEXEC, errno.ENOENT, errno.ENOMEM, errno.EAGAIN])
def test_no_two_causes_of_a_start_share_a_hint(number: int) -> None:
    known = {errno.EACCES, errno.ENOEXEC, errno.ENOENT, errno.ENOMEM, errno.EAGAIN}
    assert hint_of_number(number) not in {"", *(hint_of_number(other) for other in known - {number})}
    assert hint("") == hint_of_number(None) == ""
