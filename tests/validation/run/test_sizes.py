"""Every constant of the kernels is listed, and each size has quick cases on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from validation.core.sizes import Side, Size
from validation.run import sizes

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "sizes.md"


def listed() -> list[str]:
    return [
        *(name for size in sizes.sizes() for name in size.names),
        *(name for names in sizes.fixed().values() for name in names),
    ]


def test_every_constant_of_the_sources_is_listed_once_and_no_other() -> None:
    assert sorted(listed()) == sorted(sizes.constants())


def test_the_sources_are_read() -> None:
    found = set(sizes.constants())
    assert {"kv_pack.cu:kWarps", "expert_tile.cuh:kSkew", "router.py:MOST_RANKS", "expert_fused.py:SMALL"} <= found


def test_each_size_has_quick_cases_on_both_sides() -> None:
    found = sizes.measured()
    assert [said for size in sizes.sizes() if (said := size.lacks(found[size.of]))] == []


@pytest.mark.parametrize(
    ("side", "found", "lacking"),
    [
        (Side.EDGE, {7, 8, 9}, False),
        (Side.EDGE, {7, 8, 10}, True),
        (Side.MOST, {7, 8}, False),
        (Side.MOST, {8}, True),
        (Side.OVER, {1, 90}, False),
        (Side.OVER, {1, 8}, True),
        (Side.OVER, {9, 90}, True),
        (Side.EACH, {8}, False),
        (Side.EACH, {7, 9}, True),
    ],
)
def test_a_side_without_a_case_is_missed(side: Side, found: set[int], lacking: bool) -> None:
    size = Size((), 8, "rows", side, "nothing")
    assert bool(size.lacks(frozenset(found))) == lacking


def test_the_document_has_the_list() -> None:
    assert DOCUMENT.read_text(encoding="utf-8").endswith(sizes.table())
