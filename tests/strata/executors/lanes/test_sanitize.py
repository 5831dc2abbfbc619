"""The sanitize flavor: clean kernels keep their bits, and what C++ leaves undefined is reported with its line."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.executors.base import BuildError, ExecutorUnavailable, LaunchError
from strata.executors.lanes import LanesExecutor
from tests.strata.executors.lanes import test_faults as faults
from tests.strata.executors.lanes import test_lanes_tensorcore as matrix
from tests.strata.executors.lanes.sources import line_of
from tests.strata.executors.lanes.test_loading import assert_no_room_taken
from validation.numerics.tensorcore_data import tiles


@pytest.fixture(scope="module")
def sanitize() -> LanesExecutor:
    """Skipped only where the compiler says itself that it has no sanitizer, or where its libraries are not found."""
    executor = LanesExecutor(rule=(8, 24), flavor="sanitize")
    try:
        executor.build(faults.KERNEL)
    except (BuildError, ExecutorUnavailable) as error:
        log = error.log if isinstance(error, BuildError) else str(error)
        if re.search(r"has no address sanitizer|cannot find .*(asan|ubsan)|libclang_rt\.\S*(asan|ubsan)", log):
            pytest.skip(f"{executor.compiler.version} has no sanitizers here: {error}")
        raise
    return executor


def test_the_program_has_no_thread_local_variable(sanitize: LanesExecutor) -> None:
    assert_no_room_taken(sanitize, faults.KERNEL)


def test_clean_kernels_keep_their_bits(sanitize: LanesExecutor) -> None:
    fast = LanesExecutor(rule=(8, 24))
    seeded = LanesExecutor(flavor="sanitize", seed=5)
    for what in ("kNothing", "kWarpUpdate", "kReadByMany"):
        want = faults.run(fast, what, fixed=True)
        for executor in (sanitize, seeded):
            assert np.array_equal(faults.run(executor, what, fixed=True), want)
    for family in ("normal", "special"):
        x = matrix.Operands.of(tiles(family, 6, 16, 51), 2)
        program = [(16, 0, 1, 0), (8, 1, 1, 1), (8, 2, 0, 2), matrix.JOIN, (16, 2, 2, 2), matrix.JOIN]
        assert np.array_equal(matrix.run(sanitize, x, program), matrix.run(fast, x, program))


@pytest.mark.parametrize(
    ("what", "where", "part"),
    [
        ("kStackArray", "stack array", "stack-buffer-overflow"),
        ("kHeap", "heap", "heap-buffer-overflow"),
        ("kShift", "shift", "shift exponent"),
        ("kNull", "null", "null pointer"),
    ],
)
def test_undefined_behaviour_is_reported_with_its_line(
    sanitize: LanesExecutor, what: str, where: str, part: str
) -> None:
    text = faults.message(sanitize, what)
    assert text.startswith("faults: ")
    assert part in text
    assert f"faults.cu:{line_of('faults', where)}" in text


def test_rules_of_the_machine_are_errors_here_too(sanitize: LanesExecutor) -> None:
    text = faults.message(sanitize, "kTwoBarriers")
    assert text.startswith("faults: block (1,0,0), thread (")
    assert "divergence at a barrier" in text


def test_arguments_are_checked(sanitize: LanesExecutor) -> None:
    buffer = sanitize.array(np.zeros(256, np.uint32))
    for arguments in ([buffer], [buffer, buffer, None, np.int64(0), np.int32(0)]):
        with pytest.raises(LaunchError, match=r"faults: .*parameters of 8 8 8 4 4 bytes"):
            sanitize.launch(faults.KERNEL, (1, 1, 1), arguments)


def test_nothing_is_left_in_the_temporary_directory(
    sanitize: LanesExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    faults.run(sanitize, "kNothing")
    faults.message(sanitize, "kHeap")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lacking", ["job", "answer"])
def test_a_launch_that_finds_no_room_is_no_fault_of_the_kernel(
    lacking: str, sanitize: LanesExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = subprocess.run

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def to_a_full_disk(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return run([*words[:-1], "/dev/full"], **options)

    sanitize.build(faults.KERNEL)
    if lacking == "job":
        monkeypatch.setattr(Path, "write_bytes", full)
    else:
        monkeypatch.setattr(subprocess, "run", to_a_full_disk)
    with pytest.raises(ExecutorUnavailable) as caught:
        faults.run(sanitize, "kNothing", fixed=True)
    said = str(caught.value)
    where = f"a launch cannot be written below {tempfile.gettempdir()}"
    assert said.startswith(f"{where}: No space left on device; make room")
    assert "\n" not in said
