"""What is kept of a run of mutants, and when it is taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.executors.base import StrataError
from validation.mutants import store as stores
from validation.mutants.mutant import PACKAGES, Mutant
from validation.mutants.store import Store
from validation.mutants.trial import Kill, Outcome

ONE = Mutant("one", "f.py", "a", "b", "It is wrong.")
KILLED = Outcome("one", "killed", Kill(("bound", "mean"), "EXCEEDS", "where", "why", "again"), {"nmse": None}, "")


def test_what_is_finished_comes_back_as_it_was(tmp_path: Path) -> None:
    Store(tmp_path / "out", "lanes").add(KILLED)
    assert Store(tmp_path / "out", "lanes").find(ONE) == KILLED


def test_errors_are_tried_again(tmp_path: Path) -> None:
    Store(tmp_path, "lanes").add(Outcome("one", "error", note="no compiler"))
    assert Store(tmp_path, "lanes").find(ONE) is None


def test_another_executor_and_other_sources_take_nothing_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(tmp_path, "lanes").add(KILLED)
    assert Store(tmp_path, "cuda").find(ONE) is None
    monkeypatch.setattr(stores, "digest_of_sources", lambda: "another")
    assert Store(tmp_path, "lanes").find(ONE) is None


def test_every_byte_of_the_sources_counts(tmp_path: Path) -> None:
    for name in (*PACKAGES, "tests", "docs"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "file").write_text("a")
    before = stores.digest_of_sources(tmp_path)
    seen = {before}
    for name in (*PACKAGES, "tests"):
        (tmp_path / name / "deep" / "file").write_text("b")
        seen.add(stores.digest_of_sources(tmp_path))
    (tmp_path / "strata" / "deep" / "file").rename(tmp_path / "strata" / "deep" / "moved")
    seen.add(stores.digest_of_sources(tmp_path))
    assert len(seen) == len(PACKAGES) + 3


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1, "mutants": 3}', '{"mutants": [{}]}'])
def test_a_file_of_something_else_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "mutants.json").write_text(text)
    with pytest.raises(StrataError, match=r"mutants\.json is not a file of mutants"):
        Store(tmp_path, "lanes")


def test_without_a_directory_nothing_is_kept() -> None:
    store = Store(None, "lanes")
    store.add(KILLED)
    assert store.find(ONE) is None


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StrataError, match="cannot write"):
        Store(tmp_path / "file" / "below", "lanes").add(KILLED)
