"""docs/mutants.md says nothing of mutants that do not exist, and its figures are those of its own rows.

A mutant that came after it was written has no row there yet, so that adding one takes its entry and nothing else.
"""

from __future__ import annotations

from validation.mutants.faults import table
from validation.mutants.mutant import ROOT
from validation.mutants.published import ROW, read, with_row

DOCUMENT = (ROOT / "docs" / "mutants.md").read_text()
MATRIX, _, FAULTS = DOCUMENT.partition("| mutant | file | fault |")


def test_both_tables_hold_the_same_mutants_and_all_of_them_exist() -> None:
    named = ROW.findall(MATRIX)
    assert named == ROW.findall(FAULTS)
    assert len(set(named)) == len(named) >= 100
    assert set(named) <= set(table())


def test_it_says_why_each_is_a_fault() -> None:
    known = table()
    for line in FAULTS.splitlines():
        found = ROW.match(line)
        if found and found[1] in known:
            assert known[found[1]].why in line


def test_its_count_is_that_of_its_rows_and_none_survived() -> None:
    count = len(ROW.findall(FAULTS))
    assert f"- {count} mutants: {count} killed, 0 survived, 0 could not be judged, 0 need a device\n" in DOCUMENT
    assert "SURVIVED" not in DOCUMENT


def test_every_row_is_known_by_the_name_of_its_mutant() -> None:
    assert set(read(DOCUMENT)) == with_row()
