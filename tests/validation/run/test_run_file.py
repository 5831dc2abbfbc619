"""run.json is whole, valid and readable at any moment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from validation.core.verdict import Verdict
from validation.run.run_file import RunFile, plain

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(list(Verdict)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_anything_becomes_valid_json(value: object) -> None:
    text = json.dumps(plain(value), allow_nan=False)
    assert plain(json.loads(text)) == plain(value)


def test_what_is_not_finite_is_written_in_words() -> None:
    got = plain({"a": float("nan"), "b": np.float32("inf"), "c": np.array([-np.inf, 1.5]), "d": (np.int64(3),)})
    assert got == {"a": "NaN", "b": "Infinity", "c": ["-Infinity", 1.5], "d": [3]}


def test_the_file_is_replaced_whole(tmp_path: Path) -> None:
    file = RunFile(tmp_path / "a" / "b")
    file.write({"cases": [1]})
    first = file.path.read_text()
    file.write({"cases": [1, 2]})
    assert json.loads(first) == {"cases": [1]}
    assert json.loads(file.path.read_text()) == {"cases": [1, 2]}
    assert [entry.name for entry in file.path.parent.iterdir()] == ["run.json"]


def test_one_living_run_has_a_directory(tmp_path: Path) -> None:
    first = RunFile(tmp_path)
    assert first.replaces == ""
    for name in ("run.json", "soak.json"):
        with pytest.raises(StrataError, match="another run is writing there now, expected one at a time"):
            RunFile(tmp_path, name)
    RunFile(tmp_path / "other").close()
    first.write({"status": "complete"})
    first.close()
    first.close()
    second = RunFile(tmp_path)
    assert second.replaces == f"{tmp_path / 'run.json'}: the file of an earlier run with status 'complete' is replaced"


def test_a_killed_run_holds_nothing(tmp_path: Path) -> None:
    """The lock is the system's: it goes with the process that had it, however that ended."""
    code = "import os, pathlib, sys\nfrom validation.run.run_file import RunFile\n"
    code += "file = RunFile(pathlib.Path(sys.argv[1]))\nfile.write({'status': 'running'})\nos.kill(os.getpid(), 9)\n"
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    file = RunFile(tmp_path)
    assert file.replaces.endswith("run.json: the file of an earlier run that never ended is replaced")
    file.close()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("held", ["", "{", "[]", "{}", '{"status": "\\u001b[2J"}'])
def test_an_earlier_file_is_told_whatever_it_holds(held: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(held)
    said = RunFile(tmp_path).replaces
    assert said.isprintable()
    assert said.endswith("is replaced")


def test_a_write_that_fails_leaves_the_last_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RunFile(tmp_path)
    file.write({"cases": [1]})

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("strata.whole_file.os.replace", full)
    with pytest.raises(StrataError, match="No space left"):
        file.write({"cases": [1, 2]})
    assert json.loads(file.path.read_text()) == {"cases": [1]}


def test_an_unwritable_directory_is_told_before_anything_runs(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(StrataError, match="cannot write to the directory"):
        RunFile(blocker / "under")
