"""The notebook for a borrowed card: its form, and that what it runs exists."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from validation.__main__ import parser
from validation.record import recording

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "ci" / "record_on_a_borrowed_card.ipynb"


@pytest.fixture(scope="module")
def notebook() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def code(notebook: dict[str, Any]) -> list[str]:
    """The lines of its one code cell."""
    (cell,) = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    return "".join(cell["source"]).split("\n")


def test_it_is_a_notebook_without_outputs(notebook: dict[str, Any]) -> None:
    """What nbformat 4.5 asks of a notebook of these cells."""
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    identities = [cell["id"] for cell in notebook["cells"]]
    assert len(set(identities)) == len(identities)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", identity) for identity in identities)
    for cell in notebook["cells"]:
        assert all(line.endswith("\n") for line in cell["source"][:-1])
        extra = {"outputs", "execution_count"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | extra
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


def test_what_is_not_for_the_shell_is_python(code: list[str]) -> None:
    ast.parse("\n".join(line for line in code if not line.startswith("!")))


def test_its_command_makes_a_record(code: list[str]) -> None:
    """The session exists, and the command line takes what follows `--`."""
    (line,) = (line for line in code if "nox -s" in line)
    words = shlex.split(line.removeprefix("!cd strata && "))
    assert words[:4] == ["python3", "-m", "nox", "-s"]
    assert f"\n@nox.session\ndef {words[4]}(" in (ROOT / "noxfile.py").read_text()
    options = parser().parse_args([words[4], *words[words.index("--") + 1 :]])
    assert options.record == recording.DIRECTORY


def test_it_looks_where_the_record_is_written(code: list[str]) -> None:
    assert f'Path("strata/{recording.DIRECTORY}").glob("[0-9a-f]" * 64 + ".json")' in "\n".join(code)


def test_it_clones_into_where_it_runs(code: list[str]) -> None:
    (clone,) = (line for line in code if "git clone" in line)
    assert clone.endswith("{REPOSITORY} strata")
    assert any(line.startswith('REPOSITORY = "https://') for line in code)
