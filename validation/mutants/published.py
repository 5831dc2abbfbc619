"""The published kill matrix, docs/mutants.md: its rows read back, and written again with those of fresh outcomes.

All mutants take hours of a CPU. So those of a run replace their own rows, and the others keep what was seen of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath

from strata.executors.base import StrataError, system_reason
from validation.host import whole_file
from validation.mutants import matrix
from validation.mutants.mutant import NAME, ROOT, Mutant
from validation.mutants.trial import Kill, Outcome

DOCUMENT = ROOT / "docs" / "mutants.md"
#: A row begins with the name of its mutant; a table begins with a head and a rule, which are none.
ROW = re.compile(rf"^\| (?!mutant |---)({NAME.pattern}) \|", re.MULTILINE)
_LETTER = re.compile(r"^- ([a-z]{1,2}): `(.+)`$")
_WORDS = {"passes": True, "refuses": False}
#: Columns of the usual checks, by their head in the matrix.
_USUAL = {"NMSE": "nmse_passes", "allclose": "allclose_passes", "rows": "rows_passes"}
_STATUSES = ("survived", "error", "device")


def judged(names: Sequence[str], document: FilePath = DOCUMENT) -> list[str]:
    """Those of `names` that the document has a row of, all of them when it has none.

    A sample is drawn from these: CI asks whether a fault that was refused is refused still. A new mutant joins when
    somebody has run it and published what came of it.
    """
    rows = with_row(document)
    return [name for name in names if name in rows] or list(names)


def with_row(document: FilePath = DOCUMENT) -> frozenset[str]:
    """The mutants that the document has a row of; none when there is no document."""
    return frozenset(ROW.findall(document.read_text(encoding="utf-8")) if document.is_file() else ())


def read(text: str) -> dict[str, Outcome]:
    """Outcomes by name, as far as the document tells them: checks by their columns, the first by its name.

    Raises StrataError when the two tables do not hold the same mutants, or a row of the matrix has other cells than
    its head.
    """
    letters = {found[1]: found[2] for found in map(_LETTER.match, text.splitlines()) if found}
    head: list[str] = []
    marks: dict[str, dict[str, str]] = {}
    for line in text.partition(matrix.FAULTS)[0].splitlines():
        cells = _cells(line)
        if cells[:1] == ["mutant"]:
            head = cells
        elif cells and not cells[0].startswith("---"):
            if len(cells) != len(head):
                raise StrataError(f"the row of {cells[0]} has {len(cells)} cells, expected {len(head)}")
            marks[cells[0]] = dict(zip(head, cells, strict=True))
    kills = _kills(text)
    if list(marks) != list(kills):
        raise StrataError(f"{len(marks)} mutants in the matrix and {len(kills)} below it, expected the same")
    return {name: _outcome(name, kills[name], marks[name], letters) for name in marks}


def merged(text: str, outcomes: Sequence[Outcome], table: Mapping[str, Mutant]) -> str:
    """The document with `outcomes` in place of their rows, or added, in the order of `table`; its first lines stay.
    Rows of mutants that `table` lacks are left out. Raises StrataError as `read` does."""
    rows = read(text) | {one.name: one for one in outcomes}
    return text.partition("\n- ")[0] + "\n" + matrix.markdown([rows[name] for name in table if name in rows], table)


def publish(outcomes: Sequence[Outcome], table: Mapping[str, Mutant], document: FilePath = DOCUMENT) -> None:
    """Write `document` again. Raises StrataError when it cannot be read or written."""
    try:
        text = document.read_text(encoding="utf-8")
    except OSError as error:
        raise StrataError(f"cannot write {document}: {system_reason(error)}") from error
    whole_file.write(document, merged(text, outcomes, table))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line[1:-1].split("|")] if line.startswith("|") else []


def _kills(text: str) -> dict[str, str]:
    """What refused each mutant, from the second table."""
    rows = (_cells(line) for line in text.partition(matrix.FAULTS)[2].splitlines())
    return {cells[0]: cells[-1] for cells in rows if len(cells) > 1 and not cells[0].startswith("---")}


def _outcome(name: str, said: str, row: Mapping[str, str], letters: Mapping[str, str]) -> Outcome:
    usual = {key: _WORDS[row[head]] for head, key in _USUAL.items() if row.get(head) in _WORDS}
    status, _, note = said.partition(" ")
    if status.lower() in _STATUSES and status.isupper():
        return Outcome(name, status.lower(), usual=usual, note=note)
    first, _, where = said.partition(": ")
    others = [letters[letter] for letter in row["refused by"].split() if letters[letter] != matrix.column(first)]
    return Outcome(name, "killed", Kill((first, *others), "", where, ""), usual)
