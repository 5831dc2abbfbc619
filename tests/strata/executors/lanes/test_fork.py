"""A process that forks during a launch gets a child that launches, or says at once why not: it never hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.strata.executors.lanes import fork_scenes

_ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def went() -> dict[str, str]:
    """Whether each scene went right, by its name; one that hangs is ended by its own alarm."""
    words = [sys.executable, "-m", fork_scenes.__name__]
    done = subprocess.run(words, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.mark.parametrize("scene", [scene.__name__ for scene in (*fork_scenes.ALONE, *fork_scenes.BESIDE)])
def test_a_child_goes_on(scene: str, went: dict[str, str]) -> None:
    assert went[scene] == "True"
