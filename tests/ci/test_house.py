"""The figures of the house meet their goals, and what counts them sees what it is made for."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci import house
from ci.house import Figure, Graph, Words
from strata.executors.base import StrataError
from strata.kernels.registry import DESCRIPTORS
from validation.controls import changed_inputs, watched_buffers
from validation.operations import registry

KNOWN = Words(frozenset({"router", "kv_pack"}), frozenset({"experts"}))


@pytest.fixture(scope="module")
def counted() -> list[Figure]:
    """The figures of this checkout."""
    return house.figures()


def test_every_figure_meets_its_goal(counted: list[Figure]) -> None:
    assert [figure.text() for figure in counted if not figure.met] == []


def test_what_is_counted_is_there(counted: list[Figure]) -> None:
    """A search that finds nothing, of files that are not read or names that nobody has, would meet every goal."""
    found = {figure.name: figure for figure in counted}
    modules = house.modules()
    assert len(modules) > 150
    assert {"core", "operations", "run", "controls"} <= set(house.floors(modules))
    assert found["import levels of validation/"].count > 5
    assert found["loose files of validation/"].found == ("__main__.py",)
    assert set(DESCRIPTORS) <= house.words().names
    assert "experts" in house.words().ordinary
    assert all((house.ROOT / name).exists() for name in house.TABLES)


@pytest.mark.parametrize(
    "line",
    [
        'if path.operation == "router": pass',
        'twice = "router"',
        'of = {"kv_pack": 1}',
        'if path.operation in ("other", "kv_pack"): pass',
        'PATHS["router/fp32/simt"]',
        'match path.operation:\n    case "router":\n        pass',
        'taking("experts")',
        'if one.takes == "experts": pass',
        'path.operation.endswith("experts")',
    ],
)
def test_a_place_that_tells_operations_apart_is_seen(line: str) -> None:
    assert list(house.told_apart(ast.parse(line), KNOWN))


@pytest.mark.parametrize(
    "line",
    ['"""router"""', 'facts = {"experts": 4}', 'axes = ("experts",)', 'name = "router_bell"', "from a import router"],
)
def test_what_tells_nothing_apart_is_not(line: str) -> None:
    assert not list(house.told_apart(ast.parse(line), KNOWN))


def test_a_place_is_named_by_its_file_and_line(tmp_path: Path) -> None:
    for name in ("strata/kernels/router.py", "validation/operations/router/plan.py", "validation/run/plan.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_text('"""Prose: router."""\n\nname = "router"\n')
    assert [place.text() for place in house.places(tmp_path, KNOWN)] == ["validation/run/plan.py:3: 'router'"]


def test_imports_are_those_of_files_and_of_functions(tmp_path: Path) -> None:
    lines = {
        "__main__.py": "from validation import run\n",
        "run/__init__.py": "",
        "run/plan.py": "from validation.core.case import Case\n\n\ndef late():\n    from validation.core import memo\n",
        "core/__init__.py": "",
        "core/case.py": "",
        "core/memo.py": "from validation.run.plan import late\n",
    }
    for name, text in lines.items():
        file = tmp_path / "validation" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    found = house.modules(tmp_path)
    assert house.floors(found) == {
        "__main__": frozenset({"run"}), "run": frozenset({"core"}), "core": frozenset({"run"}),
    }  # fmt: skip
    assert house.circles(house.files(found)) == [("validation.core.memo", "validation.run.plan")]
    assert house.loose(tmp_path) == ["__main__.py"]
    with pytest.raises(StrataError, match="core, run import one another"):
        house.longest(house.floors(found))


@st.composite
def stacks(draw: st.DrawFn) -> tuple[Graph, int]:
    """A chain of some length in which each may import any below it, and how many stand in it."""
    size = draw(st.integers(1, 8))
    edges = {f"{at}": draw(st.frozensets(st.sampled_from(range(size)), max_size=size)) for at in range(size)}
    below = {name: frozenset(f"{one}" for one in own if one < int(name)) for name, own in edges.items()}
    chain = {name: own | ({f"{int(name) - 1}"} if int(name) else set()) for name, own in below.items()}
    return chain, size


@given(stacks())
def test_the_longest_chain_is_found_and_a_way_back_is_a_circle(stack: tuple[Graph, int]) -> None:
    graph, size = stack
    assert house.circles(graph) == []
    assert house.longest(graph) == tuple(f"{at}" for at in reversed(range(size)))
    if size > 1:
        closed = {**graph, "0": frozenset({f"{size - 1}"})}
        assert house.circles(closed) == [tuple(f"{at}" for at in range(size))]


def test_a_figure_above_its_goal_says_what_was_counted() -> None:
    assert Figure("circles", 0, 0).text() == "circles: 0, goal 0"
    assert Figure("levels", 10, 9, ("a > b",)).text() == "levels: 10, goal at most 9\n  a > b"


def test_files_that_commits_touch_are_counted_without_tests(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "before")
    for name in ("strata/kernels/new.cu", "tests/test_new.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("new")
    git("add", "-A")
    git("commit", "-q", "-m", "after")
    assert house.touched("HEAD~1..HEAD", tmp_path) == ["strata/kernels/new.cu"]
    with pytest.raises(StrataError, match=re.escape("git cannot compare 'nothing..HEAD'")):
        house.touched("nothing..HEAD", tmp_path)


def test_no_operation_lacks_controls() -> None:
    """Tables of controls are by operation; this is what keeps them whole."""
    names = set(registry.found())
    written = {name.partition("/")[0] for name in watched_buffers.WRITTEN}
    assert names == set(changed_inputs.OPERATIONS) == set(watched_buffers.HOSTS) == written


def test_the_command_prints_every_figure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(house, "figures", lambda: [Figure("circles", 0, 0), Figure("levels", 10, 9, ("a > b",))])
    monkeypatch.setattr(sys, "argv", ["house"])
    assert house.main() == 1
    assert capsys.readouterr().out == "circles: 0, goal 0\nlevels: 10, goal at most 9\n  a > b\n"
