"""Processors that may be used: those of the affinity and the control groups, asked in one place."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata import cpus
from strata.executors.lanes import LanesExecutor

_ROOT = Path(__file__).resolve().parents[2]
_COUNTS = {"cpu_count", "process_cpu_count", "sched_getaffinity", "hardware_concurrency", "get_nprocs", "nproc"}
#: Takes as many threads as the machine has processors when it is not told how many.
_POOLS = {"ThreadPoolExecutor", "ProcessPoolExecutor", "Pool", "ThreadPool"}
_ALLOWED = {"strata/cpus.py", "tests/strata/test_cpus.py"}


@given(st.integers(1, 300), st.none() | st.floats(0.01, 400))
def test_the_smaller_of_affinity_and_share_counts(allowed: int, share: float | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpus, "_allowed", lambda: allowed)
        patch.setattr(cpus, "quota", lambda: share)
        found = cpus.usable()
    assert 1 <= found <= allowed
    assert found == allowed or (share is not None and share <= found)
    assert found == 1 or share is None or found - 1 < share


def test_affinity_is_heard() -> None:
    """In a process that may use one processor, whatever the machine has."""
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from strata.cpus import usable;"
        "from strata.executors.lanes import LanesExecutor; print(usable(), LanesExecutor().threads)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_CPU_COUNT"}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=_ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1 1\n"


def test_a_machine_with_more_processors_than_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4096)
    assert cpus.usable() < 4096
    assert LanesExecutor().threads == cpus.usable()


@pytest.mark.parametrize(
    ("own", "files", "share"),
    [
        ("0::/\n", {}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/b/cpu.max": "50000 100000\n", "a/cpu.max": "150000 100000\n"}, 0.5),
        ("0::/a\n", {"a/cpu.max": "max 100000\n"}, None),
        ("0::/a\n", {"a/cpu.max": "nonsense\n"}, None),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2.0),
        (
            "5:memory:/m\n3:cpu,cpuacct:/a\n",
            {
                "cpu,cpuacct/a/cpu.cfs_quota_us": "-1\n",
                "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
                "cpu,cpuacct/cpu.cfs_quota_us": "300000\n",
                "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            3.0,
        ),
    ],
)
def test_the_smallest_share_on_the_way_up(own: str, files: dict[str, str], share: float | None, tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text(own)
    for name, text in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert cpus.quota(tmp_path / "cgroup", tmp_path / "groups") == share
    assert cpus.quota(tmp_path / "none", tmp_path / "groups") is None


def test_nobody_else_counts_processors() -> None:
    found = []
    for folder in ("strata", "validation", "ci", "tests", "."):
        for file in sorted((_ROOT / folder).rglob("*.py") if folder != "." else _ROOT.glob("*.py")):
            name = file.relative_to(_ROOT).as_posix()
            text = file.read_text()
            if name not in _ALLOWED and re.search(rf"{'|'.join(_COUNTS)}|({'|'.join(_POOLS)})\(\)", text):
                found += [f"{name}:{line}" for line in _counted(ast.parse(text))]
    assert found == []
    runtime = [*sorted((_ROOT / "strata").rglob("*.hpp")), *_ROOT.glob(".ci/*")]
    assert [file.name for file in runtime if any(count in file.read_text() for count in _COUNTS)] == []


def _counted(tree: ast.AST) -> list[int]:
    """Lines that count processors, or leave it to a pool."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name | ast.alias):
            names = {getattr(node, field, "") for field in ("attr", "id", "name")}
            lines += [node.lineno] if names & _COUNTS else []
        elif isinstance(node, ast.Call) and not node.args and not node.keywords:
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            lines += [node.lineno] if name in _POOLS else []
    return lines


def test_pytest_starts_as_many_processes(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-n auto` would otherwise count the machine's."""
    monkeypatch.delenv("PYTEST_XDIST_AUTO_NUM_WORKERS", raising=False)
    monkeypatch.setattr(cpus, "_allowed", lambda: 3)
    monkeypatch.setattr(cpus, "quota", lambda: None)
    assert pytestconfig.hook.pytest_xdist_auto_num_workers(config=pytestconfig) == 3
