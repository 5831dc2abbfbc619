"""What the tests of lanes share: kernels built ahead, and executors by other compilers."""

from __future__ import annotations

import importlib.util
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from strata.cpus import usable
from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.executors.lanes.build import find_compiler
from tests.strata.executors.lanes.sources import kernel

Maker = Callable[..., LanesExecutor]


def _with_compiler(command: str) -> Maker:
    def make(**options: object) -> LanesExecutor:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CXX", command)
            return LanesExecutor(**options)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def portable(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Makes lanes for a processor without the instructions that have a second body in C++."""
    if LanesExecutor().arch not in ("lanes-x86_64", "lanes-amd64"):
        pytest.skip("only x86-64 has two bodies")
    if "ziglang" in find_compiler().command:
        pytest.skip("ziglang would build its C++ library for the older processor first, which takes minutes")
    wrapper = tmp_path_factory.mktemp("compiler") / "plain"
    # After the caller's options, where it replaces -march=native.
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(find_compiler().command)} "$@" -march=x86-64\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    macros = subprocess.run(
        [wrapper, "-march=native", "-dM", "-E", "-x", "c++", "/dev/null"], capture_output=True, text=True, check=True
    ).stdout
    assert "__SSE2__" in macros
    assert not {"__F16C__", "__AVX512F__", "__FMA__", "__SSSE3__"} & set(macros.split())
    return _with_compiler(str(wrapper))


@pytest.fixture(scope="session")
def ziglang() -> Maker:
    """Makes lanes that build with the wheel `ziglang`, which is what a machine without a compiler gets."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the wheel ziglang is not installed (extra `compiler`)")
    return _with_compiler(f"{sys.executable} -m ziglang c++")


#: What the test modules launch. A module that is run builds its kernels ahead, on all cores.
BUILDS = {
    "test_lanes_tensorcore": [("fast", "matrix")],
    "test_numbers": [("fast", "numbers")],
    "test_vocabulary": [("fast", "vocabulary"), ("checked", "vocabulary")],
    "test_schedules": [("fast", "vocabulary"), ("checked", "vocabulary")],
    "test_matrix_queue": [("fast", "matrix"), ("checked", "matrix")],
    "test_faults": [("fast", "faults"), ("checked", "faults")],
    "test_memory_rules": [("checked", "faults")],
    "test_interrupt": [("fast", "faults"), ("fast", "numbers"), ("fast", "matrix")],
    "test_sanitize": [
        ("sanitize", "faults"),
        ("sanitize", "matrix"),
        ("sanitize", "numbers"),
        ("fast", "faults"),
        ("fast", "matrix"),
    ],
    "test_build": [("fast", "numbers"), ("fast", "vocabulary")],
    "test_loading": [("fast", "numbers"), ("checked", "numbers")],
    "test_fork": [("fast", "faults")],
}


@pytest.fixture(scope="session", autouse=True)
def built_ahead(request: pytest.FixtureRequest) -> None:
    """Builds what the chosen tests launch, the slowest first. What does not build fails in its own test."""
    names = {item.path.stem for item in request.session.items}
    wanted = {pair for name in names for pair in BUILDS.get(name, [])}

    def make(pair: tuple[str, str]) -> None:
        flavor, source = pair
        with suppress(StrataError):
            LanesExecutor(flavor=flavor).build(kernel(source))

    with ThreadPoolExecutor(usable()) as pool:
        list(pool.map(make, sorted(wanted, reverse=True)))
