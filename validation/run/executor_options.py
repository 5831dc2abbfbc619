"""Options that one executor reads and the other does not: where one means nothing it is refused."""

from __future__ import annotations

import argparse

from strata.arguments import shown
from strata.executors.base import StrataError

#: What they are, by the names that argparse gives them.
OF_A_CARD = {"target": "an image for a card"}
OF_LANES = {
    "rule": "a tensor-core rule for lanes",
    "flavor": "a build of lanes",
    "schedule_seed": "an order of lanes",
}


def refuse_idle(options: argparse.Namespace, lanes: bool) -> None:
    """Raises StrataError for an option that was given and that the executor of the run ignores; None is absent."""
    there = "lanes run" if lanes else "a card runs"
    for name, what in (OF_A_CARD if lanes else OF_LANES).items():
        value = getattr(options, name, None)
        if value is not None:
            said = f"--{name.replace('_', '-')} is {shown(str(value))[1:-1]}, {what}"
            raise StrataError(f"{said}; expected none where {there}")
