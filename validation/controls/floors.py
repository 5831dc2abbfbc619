"""Controls of the floor: whether plans, recipes, laws, the ledger and the controls themselves lack what they had."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from validation.core.control import Control
from validation.ledger import floor, ledger
from validation.ledger.floor import Names


def standing(controls: Mapping[str, Iterable[str]]) -> Iterator[Control]:
    """A control for each section of the floor. controls: names of all others, by group."""
    sections: dict[str, Callable[[], Names]] = {
        **{section: partial(_just, names) for section, names in (*floor.plans(), *floor.parts())},
        "ledger": lambda: floor.of_ledger(ledger.load()),
        "controls": lambda: floor.of_controls(controls),
    }
    for section in sorted({*sections, *floor.load().sections}):
        now = sections.get(section, dict)
        yield Control(f"floor/{section}", partial(floor.standing, section, now), floor.WHOLE)


def _just(names: Names) -> Names:
    return names
