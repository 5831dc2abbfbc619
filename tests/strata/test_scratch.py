"""What a killed process left is swept, at once where it was marked; what lives stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strata import scratch
from strata.executors import cache
from strata.scratch import ABANDONED_S, Scratch, sweep

ROOT = Path(__file__).parents[2]
PREFIX = ".making-"
_MAKER = """
import pathlib, sys
from strata.scratch import Scratch
held = Scratch(pathlib.Path(sys.argv[1]), ".making-")
(held.path / "large").write_bytes(bytes(1000))
print(held.path, flush=True)
sys.stdin.read()
"""


@contextmanager
def maker(root: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """Another process at work in a directory below `root`; it is killed at the end at the latest."""
    with subprocess.Popen(
        [sys.executable, "-c", _MAKER, root], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield Path(process.stdout.readline().strip()), process
        finally:
            process.kill()


def test_the_living_stay_and_the_dead_go(tmp_path: Path) -> None:
    with maker(tmp_path) as (alive, _), maker(tmp_path) as (killed, process):
        sweep(tmp_path, PREFIX)
        assert sorted(tmp_path.iterdir()) == sorted([alive, killed])
        process.kill()
        process.wait()
        with Scratch(tmp_path, PREFIX) as own:
            assert sorted(tmp_path.iterdir()) == sorted([alive, own])
        assert list(tmp_path.iterdir()) == [alive]
        assert (alive / "large").stat().st_size == 1000


@pytest.mark.parametrize("made", [True, False], ids=["a run that builds", "a run that finds all"])
def test_the_next_run_sweeps_the_cache(made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    if not made:
        cache.entry("kernel-0123456789", lambda folder: None)
    with maker(tmp_path) as (killed, process):
        process.kill()
        process.wait()
        assert killed.is_dir()
        cache.entry("kernel-0123456789", lambda folder: None)
    assert [file.name for file in tmp_path.iterdir()] == ["kernel-0123456789"]
    assert list((tmp_path / "kernel-0123456789").iterdir()) == [tmp_path / "kernel-0123456789" / "manifest.json"]


def test_one_without_a_mark_is_swept_when_it_is_old(tmp_path: Path) -> None:
    """Left by an earlier version, or on a file system without locks: its maker may be at work."""
    young, old = tmp_path / f"{PREFIX}young", tmp_path / f"{PREFIX}old"
    other = tmp_path / "entry-of-the-cache"
    for folder in (young, old, other):
        folder.mkdir()
    then = time.time() - ABANDONED_S - 1
    for folder in (old, other):
        os.utime(folder, (then, then))
    sweep(tmp_path, PREFIX)
    assert sorted(tmp_path.iterdir()) == sorted([young, other])


def test_without_locks_it_is_made_and_removed_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "fcntl", None)
    with Scratch(tmp_path, PREFIX) as one:
        assert list(one.iterdir()) == []
        sweep(tmp_path, PREFIX)
        assert one.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_swept_before_it_is_marked_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may come between the making and the lock."""
    held = scratch._held
    taken: list[Path] = []

    def too_late(lock: int) -> bool:
        if not taken:
            (only,) = tmp_path.iterdir()
            taken.append(only)
            sweep_as_other(only)
        return held(lock)

    def sweep_as_other(only: Path) -> None:
        subprocess.run(["rm", "-r", only], check=True)

    monkeypatch.setattr(scratch, "_held", too_late)
    with Scratch(tmp_path, PREFIX) as own:
        assert own.is_dir()
        assert own not in taken


def test_what_cannot_be_swept_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{PREFIX}file").write_text("no directory")
    with Scratch(tmp_path, PREFIX) as own:
        assert own.is_dir()
    sweep(tmp_path / "absent", PREFIX)
