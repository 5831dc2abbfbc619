"""Exceptions that nobody foresaw are one line, with their type and place, and never status 1."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata import switches
from strata.unforeseen import COULD_NOT_RUN, VARIABLE, advice, place, unforeseen

ROOT = Path(__file__).parents[2]


def raised(error: Exception) -> Exception:
    """The same with a traceback."""
    try:
        raise error
    except Exception as caught:
        return caught


@given(st.sampled_from((ValueError, KeyError, ZeroDivisionError, MemoryError, OSError, RecursionError)), st.text())
def test_whatever_it_says_is_one_printable_line(kind: type[Exception], text: str) -> None:
    said = unforeseen(raised(kind(text)))
    assert said.isprintable()
    assert said.startswith(f"unforeseen {kind.__name__} at tests/strata/test_unforeseen.py:")


def test_the_place_is_the_innermost_line_of_our_own() -> None:
    with pytest.raises(ValueError, match="Expecting") as caught:
        json.loads("{")
    assert place(caught.value).startswith("tests/strata/test_unforeseen.py:")
    with pytest.raises(KeyError) as deeper:
        switches.read({}).value("STRATA_NO")
    assert place(deeper.value).startswith("strata/switches.py:")
    assert place(ValueError("never raised")) == "an unknown place"


def test_escapes_are_shown_and_not_sent() -> None:
    assert unforeseen(ValueError("a\x1b[2Jb\n\tc\u202e")).endswith(": a\\u001b[2Jb c\\u202e")


def test_the_traceback_is_there_for_whoever_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    unforeseen(raised(ValueError("x")))
    assert capsys.readouterr().err == ""
    assert VARIABLE in advice()
    monkeypatch.setenv(VARIABLE, "1")
    unforeseen(raised(ValueError("x")))
    assert "Traceback" in capsys.readouterr().err
    assert advice() == ""


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [
        ("import numpie", COULD_NOT_RUN, "error: unforeseen ModuleNotFoundError at program.py:3: No module named"),
        ("raise KeyboardInterrupt", 130, "interrupted"),
        ("raise SystemExit(1)", 1, ""),
    ],
)
def test_what_fails_before_main_is_no_verdict(fault: str, status: int, said: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"from strata.unforeseen import from_the_start\nfrom_the_start()\n{fault}\n")
    done = subprocess.run(
        [sys.executable, program], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == bool(said)
