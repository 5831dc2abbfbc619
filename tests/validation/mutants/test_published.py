"""The published matrix, read back and written again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from validation.mutants import matrix, published
from validation.mutants.faults import table
from validation.mutants.mutant import Mutant
from validation.mutants.trial import Kill, Outcome

HEAD = "# Title\n\nWhat it is, in two\nlines.\n\n"
CHECKS = ["bound", "bytes", "law value powers", "control nan", "control one", "test test_a", "test test_b"]
USUAL = [
    {},
    {"nmse_passes": True, "allclose_passes": False},
    {"nmse_passes": False, "rows_passes": True},
]
#: What a killed mutant's check had to say: a case with its sizes, or a test.
WHERE = ["prompt_attention/q4_0/sm75 recipe=plain seed=1", "tests/a/test_a.py::test_a", "control nan/first"]


def known(*names: str) -> dict[str, Mutant]:
    return {name: Mutant(name, f"{name}.py", "a", "b", f"{name} is wrong.") for name in names}


def outcomes() -> st.SearchStrategy[list[Outcome]]:
    def one(name: str) -> st.SearchStrategy[Outcome]:
        killed = st.builds(
            lambda checks, where, usual: Outcome(name, "killed", Kill(tuple(checks), "EXCEEDS", where, "why"), usual),
            st.lists(st.sampled_from(CHECKS), min_size=1, max_size=3, unique=True),
            st.sampled_from(WHERE),
            st.sampled_from(USUAL),
        )
        left = st.builds(
            lambda status, usual: Outcome(name, status, usual=usual, note="a note" if status == "error" else ""),
            st.sampled_from(["survived", "error"]),
            st.sampled_from(USUAL),
        )
        return st.one_of(killed, left)

    return st.tuples(*(one(name) for name in ("one", "two-faults", "three", "fourth-4"))).map(list)


@given(outcomes())
def test_what_is_read_writes_the_same(found: list[Outcome]) -> None:
    names = known(*(one.name for one in found))
    text = HEAD + matrix.markdown(found, names)
    assert published.merged(text, [], names) == text
    read = published.read(text)
    assert [read[one.name].status for one in found] == [one.status for one in found]
    assert [read[one.name].usual for one in found] == [one.usual for one in found]
    for one in found:
        kill = read[one.name].kill
        assert bool(kill) == bool(one.kill)
        if kill and one.kill:
            assert kill.checks[0] == one.kill.checks[0]
            assert set(map(matrix.column, kill.checks)) == set(map(matrix.column, one.kill.checks))


@given(outcomes(), outcomes(), st.sets(st.integers(0, 3)))
def test_rows_of_a_run_take_the_place_of_theirs(old: list[Outcome], new: list[Outcome], which: set[int]) -> None:
    """As if all had been judged at once."""
    names = known(*(one.name for one in old))
    both = [new[i] if i in which else old[i] for i in range(4)]
    text = HEAD + matrix.markdown(old, names)
    assert published.merged(text, [new[i] for i in sorted(which)], names) == HEAD + matrix.markdown(both, names)


def test_more_columns_than_letters() -> None:
    found = [Outcome(f"m{i}", "killed", Kill((f"check {i}",), "", "x", "")) for i in range(80)]
    text = HEAD + matrix.markdown(found, known(*(one.name for one in found)))
    assert [one.kill.checks for one in published.read(text).values() if one.kill] == [
        one.kill.checks for one in found if one.kill
    ]


def test_rows_that_nobody_knows_go_and_new_ones_come_in_table_order() -> None:
    text = HEAD + matrix.markdown([Outcome("old", "survived"), Outcome("b", "survived")], known("old", "b"))
    written = published.merged(text, [Outcome("a", "killed", Kill(("bound",), "", "x", ""))], known("a", "b"))
    assert list(published.read(written)) == ["a", "b"]


def test_a_document_in_disorder_is_refused() -> None:
    text = HEAD + matrix.markdown([Outcome("a", "survived"), Outcome("b", "survived")], known("a", "b"))
    lines = text.splitlines(keepends=True)
    rows = [index for index, line in enumerate(lines) if line.startswith("| a |")]
    with pytest.raises(StrataError, match="1 mutants in the matrix and 2 below it"):
        published.read("".join(lines[: rows[0]] + lines[rows[0] + 1 :]))
    with pytest.raises(StrataError, match="the row of a has 3 cells, expected 5"):
        published.read("".join([*lines[: rows[0]], "| a | - | - |\n", *lines[rows[0] + 1 :]]))


def test_the_document_is_as_it_would_be_written() -> None:
    text = published.DOCUMENT.read_text(encoding="utf-8")
    assert published.merged(text, [], table()) == text


def test_a_sample_is_drawn_from_rows(tmp_path: Path) -> None:
    document = tmp_path / "mutants.md"
    document.write_text("| mutant | a |\n| --- | --- |\n| one-fault | * |\n| another | * |\n")
    assert published.judged(["new", "another", "one-fault"], document) == ["another", "one-fault"]
    assert published.judged(["new"], document) == ["new"]
    assert published.judged(["new"], tmp_path / "absent.md") == ["new"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StrataError, match=r"cannot write .*absent"):
        published.publish([], {}, tmp_path / "absent" / "mutants.md")
