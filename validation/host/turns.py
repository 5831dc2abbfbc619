"""Which few of many a run takes, when it cannot take all: others every day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

Item = TypeVar("Item")


def sample(items: Sequence[Item], count: int, turn: int) -> list[Item]:
    """`count` items spread over the list, others each turn; every item comes up in ceil(len / count) turns."""
    if count >= len(items):
        return list(items)
    turns = -(-len(items) // count)
    return list(items[turn % turns :: turns])


def today() -> int:
    """The turn of the day, so that CI tries others every day."""
    return datetime.now(UTC).date().toordinal()
