"""docs/mutants.md lists every mutant of the table and no other, all of them refused."""

from __future__ import annotations

import re

from validation.mutants.faults import table
from validation.mutants.mutant import ROOT

DOCUMENT = (ROOT / "docs" / "mutants.md").read_text()


def test_every_mutant_has_its_row_in_both_tables() -> None:
    matrix, _, faults = DOCUMENT.partition("| mutant | file | fault |")
    assert re.findall(r"^\| ([a-z0-9-]+) \|", matrix, re.MULTILINE) == ["mutant", "---", *table()]
    assert re.findall(r"^\| ([a-z0-9-]+) \|", faults, re.MULTILINE) == ["---", *table()]


def test_it_says_why_each_is_a_fault() -> None:
    assert all(mutant.why in DOCUMENT for mutant in table().values())


def test_none_survived_when_it_was_written() -> None:
    count = len(table())
    assert f"- {count} mutants: {count} killed, 0 survived, 0 could not be judged, 0 need a device\n" in DOCUMENT
    assert "SURVIVED" not in DOCUMENT
