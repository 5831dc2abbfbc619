"""Standard headers compiled before: the same kernels in less time, and no kernel that needs them to be there."""

from __future__ import annotations

import re
import shlex
import stat
from collections import Counter
from pathlib import Path

import pytest

from strata.executors import cache
from strata.executors.base import BuildError, Kernel
from strata.executors.lanes import LanesExecutor, build, machine, precompiled
from strata.executors.lanes.build import find_compiler

SOURCE = """
#include "include/vocabulary.cuh"
extern "C" __global__ void probe(u32* out) { store(out + threadIdx.x, u32(PLUS)); }
"""
_INCLUDE = re.compile(r"^#include <(.+)>$", re.MULTILINE)


@pytest.fixture
def probes(tmp_path: Path) -> Path:
    (tmp_path / "probe.cu").write_text(SOURCE)
    (tmp_path / "broken.cu").write_text(SOURCE.replace("PLUS)", "missing_name)"))
    return tmp_path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that the tests share, since making takes seconds."""
    return tmp_path_factory.mktemp("a cache")


@pytest.fixture
def log(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that has built nothing; in the file, a line for each command and for each header that GCC read."""
    compiler = find_compiler()
    if b"__clang__" in build._native(compiler.command):
        pytest.skip("GCC alone takes precompiled headers as they are used here")
    wrapper, told = home / "compiler", tmp_path / "log"
    if not wrapper.exists():  # its name is in every key, so the tests share one
        wrapper.write_text(
            f"""#!/bin/sh
echo "$@" >> "$STRATA_TEST_LOG"
case "$*" in *c++-header*) if [ -n "$STRATA_TEST_REFUSES" ]; then exit 1; fi ;; esac
{shlex.join(compiler.command)} "$@" -H 2> "$STRATA_TEST_LOG.said"
status=$?
cat "$STRATA_TEST_LOG.said" >> "$STRATA_TEST_LOG"
cat "$STRATA_TEST_LOG.said" >&2
exit $status
"""
        )
        wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    told.write_text("")
    monkeypatch.setenv("CXX", shlex.quote(str(wrapper)))
    monkeypatch.setenv("STRATA_TEST_LOG", str(told))
    monkeypatch.setenv(cache.VARIABLE, str(home / "cache"))
    monkeypatch.setattr(precompiled, "_found", {})
    monkeypatch.setattr(precompiled, "_builds", Counter())
    return told


def digest(folder: Path, plus: int, source: str = "probe") -> str:
    return LanesExecutor().build(Kernel(source, "probe", 1, 0, (("PLUS", plus),), str(folder))).digest


def taken(log: Path) -> list[str]:
    """The precompiled headers that GCC took since the last call."""
    found = re.findall(rf"^! (.*/{re.escape(precompiled.NAME)}\.gch)$", log.read_text(), re.MULTILINE)
    log.write_text("")
    return found


def test_a_process_makes_it_after_a_few_builds_and_later_ones_find_it(
    log: Path, home: Path, probes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precompiled, "PATIENCE", 1)
    digest(probes, 10)
    assert taken(log) == []
    digest(probes, 11)
    assert "c++-header" in log.read_text()
    assert len(taken(log)) == 1
    monkeypatch.setattr(precompiled, "_found", {})
    monkeypatch.setattr(precompiled, "_builds", Counter())
    digest(probes, 12)
    assert "c++-header" not in log.read_text()
    assert len(taken(log)) == 1
    with pytest.raises(BuildError) as caught:
        digest(probes, 13, "broken")
    assert re.search(r"broken\.cu:3:.*missing_name", caught.value.log)
    assert log.read_text().count("unit.cpp -o") == 2


def test_it_is_taken_and_the_bytes_are_the_same(
    log: Path, home: Path, probes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(probes / "another"))
    plain = digest(probes, 1)
    assert taken(log) == []
    monkeypatch.setenv(cache.VARIABLE, str(home / "cache"))
    monkeypatch.setattr(precompiled, "PATIENCE", 0)
    assert digest(probes, 1) == plain
    (file,) = taken(log)
    # A damaged one is not: GCC reads the header instead.
    Path(file).write_bytes(b"no precompiled header")
    assert digest(probes, 2) != plain
    assert taken(log) == []


def test_a_compiler_that_makes_none_builds_as_well_and_is_asked_once(
    log: Path, probes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_TEST_REFUSES", "1")
    monkeypatch.setenv(cache.VARIABLE, str(probes / "another"))
    monkeypatch.setattr(precompiled, "PATIENCE", 0)
    for plus in (20, 21):
        digest(probes, plus)
    commands = log.read_text()
    assert commands.count("-x c++-header") == 1
    assert commands.count("unit.cpp -o") == 2
    assert taken(log) == []


def test_it_has_the_standard_headers_of_the_runtime() -> None:
    """One that it lacks is read by every build again; one that only the machine needs is read by none."""
    files = {file.name: _INCLUDE.findall(file.read_text()) for file in build.RUNTIME.glob("*.hpp")}
    ours = set(files.pop(precompiled.NAME))
    for apart in (machine.HEADER, "tensorcore.hpp", "program.hpp"):
        assert files.pop(apart)
    assert {name for names in files.values() for name in names} == ours
