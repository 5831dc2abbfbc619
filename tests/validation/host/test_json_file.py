"""Files of JSON that anybody may have written: every reader says why in one line, and ends with 2."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from validation.__main__ import main
from validation.captured import archive
from validation.host import json_file
from validation.host.json_file import JsonError
from validation.ledger import command as ledger_command
from validation.ledger import floor, ledger
from validation.mutants.store import Store
from validation.report.read import of_file
from validation.run.run_file import NAME, RunFile

HOSTILE = {
    "[" * 100_000: "nests deeper than 64",
    "[" * 900 + "]" * 900: "nests deeper than 64",
    '{"a":' * 70 + "1" + "}" * 70: "nests deeper than 64",
    f'{{"schema": {"9" * 6000}}}': "a number of 6,000 digits",
    f'{{"schema": {"9" * 400}}}': "a number of 400 digits",
    '{"schema": NaN}': "holds NaN",
    "": "not JSON",
    "{": "not JSON",
}
hostile = pytest.mark.parametrize(("text", "why"), HOSTILE.items(), ids=lambda value: value[:20])


def metadata(file: Path) -> object:
    return archive._parse_metadata(file, np.array(file.read_text()))


def mutants(file: Path) -> object:
    return Store(file.parent, "lanes")


READERS: dict[str, Callable[[Path], object]] = {
    "ledger.json": ledger.load,
    "floor.json": floor.load,
    "run.json": ledger_command.read_run,
    "report.json": of_file,
    "capture.json": metadata,
    "mutants.json": mutants,
}


@hostile
@pytest.mark.parametrize("name", READERS)
def test_every_reader_says_why(name: str, text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(StrataError, match=why) as raised:
        READERS[name](file)
    assert "\n" not in str(raised.value)


@hostile
def test_a_hostile_run_is_one_line_and_2(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / NAME
    file.write_text(text)
    for words in (["ledger", "--accept", str(file), "--reason", "why"], ["report", str(file), "--out", str(tmp_path)]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert why in said
        assert said.count("\n") == 1
        assert "unforeseen" not in said
    run = RunFile(tmp_path)
    run.close()
    assert run.replaces == f"{file}: an earlier file is replaced"


def test_what_is_no_plain_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(StrataError, match=r"no plain file|Is a directory"):
            json_file.read(tmp_path / name, "the run")
    (tmp_path / "text").write_bytes(b'"\xff"')
    with pytest.raises(StrataError, match="not UTF-8"):
        json_file.read(tmp_path / "text", "the run")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 64), 1 << 64) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@example([], json_file.DEEPEST)
@example(0, json_file.DEEPEST)
@given(VALUES, st.integers(0, 80))
def test_a_value_comes_back_unless_it_is_too_deep(value: Any, lists: int) -> None:
    def depth(of: Any) -> int:
        inner = of.values() if isinstance(of, dict) else of if isinstance(of, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    for _ in range(lists):
        value = [value]
    text = json.dumps(value)
    if depth(value) <= json_file.DEEPEST:
        assert json_file.parse(text) == json_file.parse(text.encode()) == value
    else:
        with pytest.raises(JsonError, match="nests deeper"):
            json_file.parse(text)
