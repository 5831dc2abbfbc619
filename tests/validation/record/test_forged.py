"""Every forged or broken record of fixtures/records is refused, by its rule and by no other."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.records.bases import BASES, EXPERTS
from tests.validation.record.forging import TABLE, against, base, forged
from validation.record.rules import TABLE as RULES
from validation.record.verify import examine

#: Rules of the reader, and of the rows that are computed again.
OTHERS = {"json", "text", "canonical", "size", "name", "schema", "inputs", "numbers", "bits"}


@pytest.mark.parametrize("entry", TABLE, ids=[entry["name"] for entry in TABLE])
def test_is_refused_by_its_rule(entry: dict[str, Any]) -> None:
    outcome = examine(*forged(entry), against())
    assert not outcome.accepted
    assert outcome.rules == [entry["rule"]], outcome.lines()


@pytest.mark.parametrize("name", [of.name for of in (*BASES, *EXPERTS)])
def test_what_they_start_from_is_accepted(name: str) -> None:
    outcome = examine(*forged({"base": name}), against())
    assert outcome.accepted, (outcome.lines(), "after a change of kernels: python -m fixtures.records.bases")


@pytest.mark.parametrize("name", [of.name for of in (*BASES, *EXPERTS)])
def test_signing_alone_changes_nothing(name: str) -> None:
    """What a forger makes good comes out as the base has it, so it is the edit that is refused and not the signing."""
    entry = {"base": name, "sign": ["outputs", "plan", "root", "challenge"]}
    assert forged(entry) == forged({"base": name})


def test_every_rule_refuses_some_forgery() -> None:
    asked = {entry["rule"] for entry in TABLE}
    assert asked == {rule.name for rule in RULES} | OTHERS


def test_the_table_is_readable() -> None:
    names = [entry["name"] for entry in TABLE]
    assert len(set(names)) == len(names) >= 60
    assert all(entry["why"] for entry in TABLE)
    assert {"record", "rows", "others"} == set(base("hopper"))
