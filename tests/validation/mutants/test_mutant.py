"""Applying mutants: once and exactly, or an error."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from validation.mutants.mutant import PACKAGES, ROOT, Edit, Mutant, MutantError, apply, changed, copy_sources, removals

FILE = "strata/kernels/some.cu"


def mutant(old: str, new: str = "b") -> Mutant:
    return Mutant("some", FILE, old, new, "It is wrong.")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "strata" / "kernels").mkdir(parents=True)
    (tmp_path / FILE).write_text("one a\ntwo aa\nwait();\nthree\nwait();\nwait();\n")
    return tmp_path


def test_the_text_is_replaced_in_the_copy_alone(tree: Path) -> None:
    apply(mutant("one a\n", "none\n"), tree)
    assert (tree / FILE).read_text().splitlines()[:2] == ["none", "two aa"]


@pytest.mark.parametrize(("old", "count"), [("four", 0), ("a", 6), ("wait();", 3), ("", 0)])
def test_a_text_that_does_not_occur_once_is_an_error(tree: Path, old: str, count: int) -> None:
    before = (tree / FILE).read_text()
    with pytest.raises(MutantError, match=f"mutant some: its text occurs {count} times in {FILE}, expected once"):
        apply(mutant(old), tree)
    assert (tree / FILE).read_text() == before


def test_a_mutant_that_changes_nothing_is_an_error(tree: Path) -> None:
    with pytest.raises(MutantError, match="it changes nothing"):
        apply(mutant("three", "three"), tree)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MutantError, match=f"cannot read {FILE}: No such file"):
        apply(mutant("a"), tmp_path)


def test_each_removal_takes_one_occurrence_away(tree: Path) -> None:
    source = (tree / FILE).read_text()
    made = list(removals(mutant("wait();", ";"), source))
    assert [one.name for one in made] == ["some-1", "some-2", "some-3"]
    texts = [changed(one.name, one.edits[0], source) for one in made]
    assert all(text.count("wait();") == 2 and len(text) == len(source) - 6 for text in texts)
    lines = [[number for number, line in enumerate(text.splitlines(), 1) if line == ";"] for text in texts]
    assert lines == [[3], [5], [6]]


def test_the_copy_is_whole(tmp_path: Path) -> None:
    copy_sources(tmp_path)
    for package in PACKAGES:
        there, copied = (
            {file.relative_to(root) for file in (root / package).rglob("*") if "__pycache__" not in file.parts}
            for root in (ROOT, tmp_path)
        )
        assert copied == there


def test_the_fault_runs_though_bytecode_of_its_file_looks_valid(tmp_path: Path) -> None:
    """An edit that keeps the size of the source, in the second in which the source was written."""
    root, tree = tmp_path / "root", tmp_path / "tree"
    for name in PACKAGES:
        (root / name).mkdir(parents=True)
    source = root / "strata" / "one.py"
    (source.parent / "__init__.py").touch()
    source.write_text("print(1)\n")
    py_compile.compile(str(source), doraise=True)
    (source.parent / "__pycache__" / "two.cpython.pyc.123").touch()  # is being written
    copy_sources(tree, root)
    assert [file.suffix for file in (tree / "strata" / "__pycache__").iterdir()] == [".pyc"]
    second = source.stat().st_mtime
    apply(Mutant("some", "strata/one.py", "1", "2", "It is wrong."), tree)
    os.utime(tree / "strata" / "one.py", (second, second))
    done = subprocess.run(
        [sys.executable, "-c", "import strata.one"],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "2\n"


def test_a_fault_of_several_edits_is_applied_whole_or_refused(tree: Path) -> None:
    both = Mutant("two", FILE, "one a", "one", "It is wrong.", also=(Edit(FILE, "three", "3"),))
    apply(both, tree)
    assert (tree / FILE).read_text().splitlines()[::3] == ["one", "3"]
    with pytest.raises(MutantError, match="its text occurs 0 times"):
        apply(both, tree)


@pytest.mark.parametrize("name", ["", "two words", "Upper", "a|b", "a\n"])
def test_a_name_that_a_table_cannot_hold_is_an_error(name: str) -> None:
    with pytest.raises(MutantError, match="expected a name of small letters"):
        Mutant(name, "one.py", "a", "b", "")
