"""Which tensor-core rule predicts a path's bits on an architecture (docs/arithmetic.md)."""

from __future__ import annotations

from strata.executors.base import Executor
from strata.executors.lanes import RULES
from strata.kernels.paths import Path

#: The rule that lanes follow when none is named: the one whose bits were measured on a card.
DEFAULT_RULE = "sm_90"


def rule_on(executor: Executor) -> str | None:
    """The rule of the card behind `executor`, for every instruction it has; None where nothing is known.

    PTX for an older target follows the card that runs it: what counts is the card's capability.
    """
    rule = f"sm_{executor.capability}"
    return rule if executor.capability is not None and rule in RULES else None


def rule_for(path: Path, executor: Executor) -> str | None:
    """The rule that predicts `path` on `executor`. Paths without tensor-core instructions need none."""
    return rule_on(executor) or ("exact" if path.tier == "simt" else None)
