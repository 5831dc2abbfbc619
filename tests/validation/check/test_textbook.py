"""Faults that textbooks warn of: the quick profile finds each, and passes the kernel without one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from strata.executors import open_executor
from tests.validation.check import statistics_of_rows as author
from tests.validation.check.fake import Where, run_case
from validation.check import plan
from validation.check.load import Loaded

FILE = Path(author.__file__)
#: A recipe whose cases of the quick profile find a fault.
_BY = {
    1: "one_sign",
    2: "negative",
    3: "shifted",
    4: "signed_decades",
    5: "equal",
    6: "plain",
    7: "zeros",
    8: "plain",
}


@cache
def where() -> Where:
    return Where(open_executor("lanes", flavor="checked"))


def refused(fault: int, recipe: str | None = None) -> list[str]:
    """What is said of every case of the quick profile, or of those of a recipe, that does not pass."""
    loaded = Loaded(author.with_fault(fault), FILE)
    planned = [case for case in plan.cases(loaded, "quick", plan.SEED) if recipe in (None, case.recipe)]
    results = [run_case(loaded, case, where()) for case in planned]
    return [result["explain"] for result in results if result["explain"]]


def test_the_kernel_without_a_fault_passes() -> None:
    assert refused(0) == []


@pytest.mark.parametrize("fault", author.FAULTS, ids=author.FAULTS.values())
def test_the_quick_profile_finds_a_fault_of_the_textbook(fault: int) -> None:
    found = refused(fault, _BY[fault])
    assert found
    assert all(said.startswith(f"EXCEEDS statistics {_BY[fault]} ") for said in found)
