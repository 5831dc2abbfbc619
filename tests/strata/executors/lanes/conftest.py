"""Executors by other compilers than the one a machine would choose."""

from __future__ import annotations

import importlib.util
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from strata.executors.lanes import LanesExecutor
from strata.executors.lanes.build import find_compiler

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
    wrapper = tmp_path_factory.mktemp("compiler") / "plain"
    compiler = find_compiler()
    # After the caller's options, where it replaces -march=native.
    oldest = "-mcpu=x86_64" if "ziglang" in compiler.command else "-march=x86-64"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(compiler.command)} "$@" {oldest}\n')
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
