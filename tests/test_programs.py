"""Every program of the checkout ends like all: its exit status is a verdict or 2, whatever happens in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Scripts that are run by an interpreter without this package, by the noxfile and beside a published runtime; whoever
#: runs them answers for their end.
ALONE = ("strata/executors/cuda/driver.py", "validation/quality/published_worker.py")


def programs() -> Iterator[Path]:
    """Every file of the checkout that is run as a program."""
    for folder in ("strata", "validation", "ci", "fixtures", "examples"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            if 'if __name__ == "__main__":' in file.read_text() and file.relative_to(ROOT).as_posix() not in ALONE:
                yield file


@pytest.mark.parametrize("file", [*programs()], ids=lambda file: file.relative_to(ROOT).as_posix())
def test_every_program_ends_like_all(file: Path) -> None:
    """Its `main` is a `command`, and what fails while it is imported is no verdict either."""
    tree = ast.parse(file.read_text())
    (main,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main"]
    called = [node.func for node in main.decorator_list if isinstance(node, ast.Call)]
    marked = any(isinstance(function, ast.Name) and function.id == "command" for function in called)
    assert marked or file == ROOT / "strata" / "__main__.py"  # which only imports another's
    assert "from_the_start()" in file.read_text()


def test_the_check_of_submissions_ends_like_all() -> None:
    assert "from_the_start()" in (ROOT / "ci" / "check_submission").read_text()
    assert "@command()\ndef main(" in (ROOT / "ci" / "submission.py").read_text()
