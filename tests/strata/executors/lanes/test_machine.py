"""The machine compiled once for all kernels: which builds share it, and that a kernel never needs it."""

from __future__ import annotations

import shlex
import shutil
import stat
from pathlib import Path

import pytest

from strata.executors import cache
from strata.executors.base import Kernel
from strata.executors.lanes import LanesExecutor, build, machine

#: A stand-in that says it is GCC. What it compiles is what it was given to read; objects that it links are copied.
COMPILER = r"""#!/bin/sh
for last; do :; done
case "$*" in
  *--version) echo stand-in 1.0; exit ;;
  *-dM*) echo '#define __GNUC__ 12'; exit ;;
esac
echo "$*" >> "$STRATA_TEST_LOG"
case "$*" in
  *c++-header*) exit 1 ;;
  *"-c source/machine.cpp"*) [ -z "$STRATA_TEST_REFUSES" ] || exit 1 ;;
esac
for word; do
  case "$word" in
    */machine.o) [ "$word" = "$last" ] || cat "$word" ;;
    source/machine.cpp) cat source/machine.cpp source/runtime/* ;;
    source/unit.cpp) cat source/unit.cpp source/*.cu ;;
  esac
done > "$last"
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that has built nothing, by the stand-in; in the file, a line for each time that it compiles."""
    (tmp_path / "probe.cu").write_text("a kernel")
    told, script = tmp_path / "log", tmp_path / "stand-in"
    told.write_text("")
    script.write_text(COMPILER)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", shlex.quote(str(script)))
    monkeypatch.setenv("STRATA_TEST_LOG", str(told))
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "_missing", set())
    return told


def digest(log: Path, plus: int, flavor: str = "fast") -> str:
    """Build a kernel; the digest of its image."""
    kernel = Kernel("probe", "probe", 1, 0, (("PLUS", plus),), str(log.parent))
    return LanesExecutor(flavor=flavor).build(kernel).digest


def machines(log: Path) -> int:
    """How many times the machine was compiled, alone or beside a kernel."""
    return sum("source/machine.cpp" in line for line in log.read_text().splitlines())


def test_kernels_of_a_flavor_share_it(log: Path) -> None:
    for plus in range(3):
        digest(log, plus)
    assert machines(log) == 1
    digest(log, 0, "checked")
    digest(log, 1, "checked")
    assert machines(log) == 2
    assert sum("source/unit.cpp" in line for line in log.read_text().splitlines()) == 5


def test_it_is_compiled_as_a_kernel_is(log: Path) -> None:
    """But for the kernel's macros: else two kernels would be two machines, or one of other arithmetic."""
    digest(log, 1, "checked")
    alone = next(line for line in log.read_text().splitlines() if "-c source/machine.cpp" in line).split()
    assert [*build.FLAGS, *build.FLAVOR_FLAGS["checked"]] == alone[: alone.index("-Isource")]


def test_an_edited_header_of_lanes_is_another(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(log, 1)
    runtime = log.parent / "runtime"
    shutil.copytree(build.RUNTIME, runtime)
    monkeypatch.setattr(build, "RUNTIME", runtime)
    (runtime / "checks.hpp").write_text("// edited\n")
    assert digest(log, 1) != before
    assert machines(log) == 2


def test_a_kernel_is_the_same_beside_it(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it cannot be compiled alone, which is tried once."""
    shared = [digest(log, plus) for plus in range(2)]
    monkeypatch.setenv(cache.VARIABLE, str(log.parent / "another"))
    monkeypatch.setenv("STRATA_TEST_REFUSES", "1")
    log.write_text("")
    assert [digest(log, plus) for plus in range(2)] == shared
    assert log.read_text().count("-c source/machine.cpp") == 1
    assert log.read_text().count("source/machine.cpp source/unit.cpp") == 2
