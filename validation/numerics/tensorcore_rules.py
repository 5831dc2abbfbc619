"""Which tensor-core rule predicts a path's bits on an architecture (docs/arithmetic.md)."""

from __future__ import annotations

from strata.executors.base import Executor
from strata.executors.lanes import RULES
from strata.kernels.paths import Path

#: The rule that lanes follow when none is named: the one whose bits were measured on a card.
DEFAULT_RULE = "sm_90"
#: Rules that stand beside the first where a capability has more than one reading and no card has decided.
_RIVALS = {"sm_75": ("sm_75_block4",)}


def readings(executor: Executor) -> tuple[str, ...]:
    """The rules that the card behind `executor` may follow, one for all instructions; none where nothing is known.

    PTX for an older target follows the card that runs it: what counts is the card's capability.
    """
    rule = f"sm_{executor.capability}"
    return (rule, *_RIVALS.get(rule, ())) if executor.capability is not None and rule in RULES else ()


def rule_on(executor: Executor) -> str | None:
    """The first reading of the card behind `executor`; its bounds cover the others. None where nothing is known."""
    return next(iter(readings(executor)), None)


def rule_for(path: Path, executor: Executor) -> str | None:
    """The first rule that predicts a path, None where nothing is known.

    Parameters
    ----------
    path
        The path.
    executor
        What runs it.
    """
    return next(iter(rules_for(path, executor)), None)


def rules_for(path: Path, executor: Executor) -> tuple[str, ...]:
    """The rules that may predict a path.

    Paths without tensor-core instructions need one at most.

    Parameters
    ----------
    path
        The path.
    executor
        What runs it.
    """
    known = readings(executor)
    return (known[:1] or ("exact",)) if path.tier == "simt" else known
