"""run.json is whole, valid and readable at any moment."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from validation.report.run_file import RunFile, plain
from validation.verdict import Verdict

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


def test_a_write_that_fails_leaves_the_last_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RunFile(tmp_path)
    file.write({"cases": [1]})

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("validation.report.run_file.os.replace", full)
    with pytest.raises(StrataError, match="No space left"):
        file.write({"cases": [1, 2]})
    assert json.loads(file.path.read_text()) == {"cases": [1]}


def test_an_unwritable_directory_is_told_before_anything_runs(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(StrataError, match="cannot write to the directory"):
        RunFile(blocker / "under")
