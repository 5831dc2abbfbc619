"""`.ci/run` with a stand-in for Python: which steps run, what its exit status says, and the table of what they cost."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: What makes environments and installs does nothing; nox tells its words, and fails in the step that is named.
PYTHON = """#!/bin/bash
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m nox "*) echo "nox $*"; case "$*" in *" -s $FAILS"*) exit "$STATUS" ;; esac ;;
esac
"""
#: Steps of the two chains, in their order.
KERNELS = re.findall(r"check -s (\w+)", (ROOT / ".ci/run").read_text().partition("kernels() {")[2].partition("}")[0])
OTHERS = re.findall(r"check -s (\w+)", (ROOT / ".ci/run").read_text().partition("others() {")[2].partition("}")[0])


def run(directory: Path, fails: str = "nothing", status: int = 0) -> subprocess.CompletedProcess[str]:
    (directory / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", directory / ".ci/run")
    python = directory / "python"
    python.write_text(PYTHON)
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    environment = os.environ | {"PYTHON": str(python), "FAILS": fails, "STATUS": str(status)}
    return subprocess.run(
        ["bash", ".ci/run"], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


def costs(output: str) -> list[str]:
    """What the lines of the table name."""
    _, _, table = output.partition("  clock   cores  step\n")
    return [re.fullmatch(r" *\d+ +\d+  (.+)", line)[1] for line in table.splitlines()]  # type: ignore[index]


def test_every_step_has_its_line() -> None:
    assert {"tests", "parity", "mutants"} == set(KERNELS)
    assert {"lint", "static", "memory", "records", "check"} == set(OTHERS)


def test_what_every_step_costs_is_said_at_the_end(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    *steps, last = costs(done.stdout)
    assert last == "all steps"
    named = [step.split()[1] for step in steps]
    assert sorted(named) == sorted([*KERNELS, *OTHERS, "up"])
    ran = re.findall(r"^(\| )?nox .* -s (\w+)", done.stdout, re.MULTILINE)
    assert [name for bar, name in ran if not bar] == KERNELS
    assert [name for bar, name in ran if bar] == OTHERS


@pytest.mark.parametrize(("fails", "status"), [("tests", 1), ("mutants", 2), ("lint", 1), ("check", 2)])
def test_a_step_that_fails_ends_its_chain_alone(fails: str, status: int, tmp_path: Path) -> None:
    done = run(tmp_path, fails, status)
    assert done.returncode == status
    mine, other = (KERNELS, OTHERS) if fails in KERNELS else (OTHERS, KERNELS)
    named = [step.split()[1] for step in costs(done.stdout)[:-1]]
    assert sorted(named) == sorted([*mine[: mine.index(fails) + 1], *other, "up"])
