"""Builds: which compiler, what is in the key, and what a person reads when something is missing."""

from __future__ import annotations

import ctypes
import importlib.util
import shlex
import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.executors import base, cache
from strata.executors.base import BuildError, ExecutorUnavailable, Kernel, StrataError
from strata.executors.lanes import LanesExecutor, build, library
from strata.executors.lanes.build import find_compiler
from tests.strata.executors.lanes.conftest import Maker
from tests.strata.executors.lanes.sources import kernel

SOURCE = r"""
#include "include/answer.cuh"
#include "include/vocabulary.cuh"
extern "C" __global__ void probe(u32* out) { store(out + threadIdx.x, u32(ANSWER + PLUS)); }
"""
BROKEN = r"""
#include "include/vocabulary.cuh"
extern "C" __global__ void broken(u32* out) { store(out, missing_name); }
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of kernels of its own, and a cache without kernels whose path needs quoting."""
    folder, home = tmp_path / "kernels", tmp_path / "a cache 'of' ours"
    with_machine(home)
    shutil.copytree(base.KERNELS / "include", folder / "include")
    (folder / "probe.cu").write_text(SOURCE)
    (folder / "broken.cu").write_text(BROKEN)
    (folder / "include" / "answer.cuh").write_text("#define ANSWER 40\n")
    monkeypatch.setattr(base, "KERNELS", folder)
    monkeypatch.setenv(cache.VARIABLE, str(home))
    return folder


def with_machine(home: Path) -> None:
    """Make a cache that holds what all kernels share and no kernel: that takes longer to compile than these do."""
    for place in cache.directory().glob("lanes-machine-*"):
        shutil.copytree(place, home / place.name)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the compiler, whose output is what it was given to read, and a file with a line for each call."""
    log, script = tmp_path / "calls", tmp_path / "the compiler"
    log.write_text("")
    script.write_text(
        f"""#!/bin/sh
for last; do :; done
case "$*" in
  *--version) echo stand-in 1.0 ;;
  *unit.cpp*) echo "$*" >> {shlex.quote(str(log))}; cat source/unit.cpp source/*.cu source/*/* > "$last" ;;
esac
"""
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", shlex.quote(str(script)))
    return log


def probe(plus: int = 2) -> Kernel:
    return Kernel("probe", "probe", 1, 0, (("PLUS", plus),))


def answer(program: Kernel) -> int:
    executor = LanesExecutor()
    out = executor.empty((1,), np.uint32, name="out")
    executor.launch(program, (1, 1, 1), [out])
    return int(out.host()[0])


def test_the_second_build_does_not_compile(kernels: Path, calls: Path) -> None:
    first = LanesExecutor().build(probe())
    assert LanesExecutor().build(probe()) == first
    assert len(calls.read_text().splitlines()) == 1
    assert first.compiler == "stand-in 1.0"


def test_what_changes_the_result_is_in_the_key(kernels: Path, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = [LanesExecutor().build(probe()).digest]

    def built(program: Kernel, flavor: str = "fast") -> None:
        digests.append(LanesExecutor(flavor=flavor).build(program).digest)
        assert len(calls.read_text().splitlines()) == len(digests)

    (kernels / "include" / "answer.cuh").write_text("#define ANSWER 50\n")
    built(probe())
    (kernels / "probe.cu").write_text(SOURCE.replace("PLUS)", "PLUS + 1)"))
    built(probe())
    runtime = kernels.parent / "runtime"
    shutil.copytree(build.RUNTIME, runtime)
    monkeypatch.setattr(build, "RUNTIME", runtime)
    (runtime / "entry.hpp").write_text("// edited\n")
    built(probe())
    assert len(set(digests)) == 4
    # Another command: the stand-in's output does not show it.
    built(probe(3))
    built(probe(3), "checked")
    monkeypatch.setenv("CXX", f"{shlex.quote(str(kernels.parent / 'the compiler'))} -DMORE")
    built(probe(3))
    commands = calls.read_text().splitlines()
    assert len(set(commands)) == 4
    assert all("-DPLUS=3" in command for command in commands[4:])


def test_another_compiler_version_or_processor_is_another_entry(
    kernels: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = find_compiler()
    paths = [build.build(probe(), "fast", compiler).path]
    paths.append(build.build(probe(), "fast", replace(compiler, version="stand-in 2.0")).path)
    monkeypatch.setattr(build, "_native", lambda command: b"another processor")
    paths.append(build.build(probe(), "fast", compiler).path)
    assert len(set(paths)) == len(calls.read_text().splitlines()) == 3


def test_a_source_edited_while_it_compiles_does_not_enter_under_the_old_key(
    kernels: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = subprocess.run

    def edit_first(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        if any("unit.cpp" in word for word in words):
            (kernels / "include" / "answer.cuh").write_text("#define ANSWER 60\n")
        return real(words, **options)

    first = LanesExecutor().build(probe())
    monkeypatch.setenv(cache.VARIABLE, str(kernels.parent / "second"))
    monkeypatch.setattr("strata.executors.lanes.build.subprocess.run", edit_first)
    assert LanesExecutor().build(probe()) == first


def test_an_edited_header_changes_what_runs(kernels: Path) -> None:
    assert answer(probe()) == 42
    (kernels / "include" / "answer.cuh").write_text("#define ANSWER 50\n")
    assert answer(probe()) == 52


def test_same_bytes_wherever_it_is_built(kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = LanesExecutor().build(probe())
    moved = tmp_path / "elsewhere"
    shutil.copytree(kernels, moved)
    monkeypatch.setattr(base, "KERNELS", moved)
    with_machine(tmp_path / "another")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "another"))
    assert LanesExecutor().build(probe()) == first


def test_a_compile_error_carries_its_first_line(kernels: Path) -> None:
    with pytest.raises(BuildError) as caught:
        LanesExecutor().build(Kernel("broken", "broken", 1))
    text = str(caught.value)
    assert text.startswith("broken does not compile for lanes (fast): ")
    assert "broken.cu:3:" in text
    assert "missing_name" in text
    assert "\n" not in text
    assert str(kernels) not in text
    assert text.split(": ", 1)[1] in caught.value.log
    # Nothing of it is kept: the next try compiles, and fails, again.
    with pytest.raises(BuildError):
        LanesExecutor().build(Kernel("broken", "broken", 1))


def test_a_missing_source_or_entry_is_named(kernels: Path) -> None:
    with pytest.raises(BuildError, match=r"nothing: cannot read .*nothing\.cu: No such file"):
        LanesExecutor().build(Kernel("nothing", "nothing", 1))
    with pytest.raises(BuildError, match="other"):
        LanesExecutor().build(Kernel("probe", "other", 1, 0, (("PLUS", 1),)))


@pytest.mark.parametrize("named", ["/no/such/compiler", "no-such-compiler -O2", "false"])
def test_a_wrong_cxx_is_named(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", named)
    with pytest.raises(ExecutorUnavailable) as caught:
        LanesExecutor()
    assert str(caught.value) == f"no C++ compiler: CXX={named!r} does not answer to --version"


def test_no_compiler_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ExecutorUnavailable) as caught:
        LanesExecutor()
    assert "no C++ compiler: install g++ or clang++" in str(caught.value)
    assert "ziglang" in str(caught.value)


def test_ziglang_is_taken_when_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name == "ziglang" else None)
    monkeypatch.setattr(build, "_version", lambda command: f"version of {command[-1]}")
    assert find_compiler().command[1:] == ("-m", "ziglang", "c++")
    assert find_compiler().version == "version of c++"


def test_ziglang_builds_what_the_system_builds(ziglang: Maker) -> None:
    executor = ziglang()
    assert "ziglang" in executor.compiler.command
    assert executor.build(kernel("numbers")).compiler == executor.compiler.version


def test_wrong_options_are_named() -> None:
    with pytest.raises(StrataError, match="flavor 'quick': expected one of fast, checked, sanitize"):
        LanesExecutor(flavor="quick")
    with pytest.raises(StrataError, match="threads 0: expected at least 1"):
        LanesExecutor(threads=0)
    for rule in ("sm_99", "8;24", (5, 24), (8, 31)):
        with pytest.raises(StrataError, match="expected"):
            LanesExecutor(rule=rule)
    assert str(LanesExecutor(rule="8, 24").rule) == "block 8, F 24"
    assert LanesExecutor(rule="sm_75").rule == (8, 24)
    assert str(LanesExecutor(rule=(0, 0)).rule) == "exact"


def test_a_product_and_a_sum_are_rounded_twice(kernels: Path) -> None:
    (kernels / "twice.cu").write_text(
        '#include "include/vocabulary.cuh"\n'
        'extern "C" __global__ void twice(const float* x, float* out) {'
        " store(out, load(x) * load(x + 1) + load(x + 2)); }"
    )
    executor = LanesExecutor()
    # (1 + 2^-12)^2 rounds to 1 + 2^-11; fused, the difference to that is 2^-24.
    x = np.array([1 + 2.0**-12, 1 + 2.0**-12, -(1 + 2.0**-11)], np.float32)
    out = executor.empty((1,), np.float32)
    executor.launch(Kernel("twice", "twice", 1), (1, 1, 1), [executor.array(x), out])
    assert out.host().view(np.uint32)[0] == 0


def test_the_witness_counts_what_the_launch_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = LanesExecutor()
    monkeypatch.setattr(library, "launch", lambda *arguments: 3)
    assert executor.launch(kernel("vocabulary", 64, 4096), (5, 1, 1), []).blocks_run == 3


def test_guards_are_as_wide_as_the_widest_store_of_a_warp() -> None:
    buffer = LanesExecutor().array(np.zeros(7, np.int16))
    widest = 32 * 16
    assert widest <= base.GUARD_BYTES
    for offset in (-widest, -1, 14, 14 + widest - 1):
        before = ctypes.string_at(buffer.address + offset, 1)
        ctypes.memset(buffer.address + offset, 0, 1)
        assert not buffer.guards_intact()
        ctypes.memmove(buffer.address + offset, before, 1)
    assert buffer.guards_intact()


def test_a_witness_says_what_ran() -> None:
    executor = LanesExecutor(threads=2)
    program = kernel("vocabulary", 64, 4096)
    words = executor.array(np.zeros((5, 4, 64), np.uint32))
    settings, counters = (
        executor.array(np.zeros((5, 3), np.int32)),
        executor.array(np.zeros(2, np.uint32), written=True),
    )
    witness = executor.launch(program, (5, 1, 1), [words, words, settings, counters, np.int32(14)])
    assert witness.image == executor.build(program).digest
    assert (witness.executor, witness.entry, witness.arch) == ("lanes", "vocabulary", executor.arch)
    assert (witness.grid, witness.block, witness.shared_bytes, witness.blocks_run) == ((5, 1, 1), 64, 4096, 5)


def test_buffers_watch_their_guards_and_types() -> None:
    executor = LanesExecutor()
    buffer = executor.array(np.arange(7, dtype=np.int16), "seven")
    assert buffer.guards_intact()
    assert buffer.address % 256 == 0
    assert np.array_equal(buffer.host(), np.arange(7, dtype=np.int16))
    with pytest.raises(StrataError, match=r"seven: expected int16 \(7,\), got int32 \(7,\)"):
        buffer.write(np.arange(7, dtype=np.int32))
    for offset in (-1, 7 * 2):
        ctypes.memset(buffer.address + offset, 0, 1)
        assert not buffer.guards_intact()
        ctypes.memset(buffer.address + offset, base.GUARD_BYTE, 1)
        assert buffer.guards_intact()
    empty = executor.empty((3,), np.float32)
    assert (empty.host().view(np.uint32) == base.POISON_OUTPUT).all()
    assert executor.empty((0, 4), np.float32).host().shape == (0, 4)
