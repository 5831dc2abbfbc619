"""The rules are those that docs/arithmetic.md gives for each architecture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strata.executors.lanes.rules import RULES

PAGE = Path(__file__).resolve().parents[4] / "docs" / "arithmetic.md"


def documented() -> dict[str, tuple[int, int]]:
    """(block, F) by architecture: what m16n8k16 sums in one step, or m16n8k8 where that is all there is."""
    found = {}
    for line in PAGE.read_text().splitlines():
        if not line.startswith("| sm_"):
            continue
        names, k8, k16 = (cell.strip() for cell in line.split("|")[1:4])
        said = k8 if k16 == "does not exist" else k16
        step = re.search(r"of (\d+), F (\d+)", said)
        assert step, line
        for name in re.findall(r"sm_\d+", names):
            found[name] = (int(step[1]), int(step[2]))
    return found


@pytest.mark.parametrize("arch", [name for name in RULES if name != "exact"])
def test_the_rule_of_an_architecture_is_the_documented_one(arch: str) -> None:
    assert tuple(RULES[arch]) == documented()[arch]


def test_nothing_documented_is_missing() -> None:
    assert set(documented()) <= set(RULES)
