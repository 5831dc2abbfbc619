"""What a record must be to open a path of each tier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from strata.device import dotted
from strata.executors.base import StrataError
from strata.kernels.registry import DESCRIPTORS
from strata.kernels.required import Required
from strata.kernels.tiers import NEWEST, TIERS


@dataclass(frozen=True)
class Rule:
    """Devices of one tier, in compute capabilities times ten, both ends included.

    Parameters
    ----------
    serves
        The devices that the tier is for.
    recorded
        The devices that a record of it may name.
    """

    serves: tuple[int, int]
    recorded: tuple[int, int]


@dataclass(frozen=True)
class Policy:
    """What is asked of a record.

    Parameters
    ----------
    rules
        By tier; a tier without one needs no record.
    required
        The cases that a record must hold, by gated operation, all of which are named.
    ungated
        Operations that need no record although their tiers have a rule, because they replace nothing: they serve where
        nothing is proved.
    """

    rules: Mapping[str, Rule]
    required: Mapping[str, tuple[Required, ...]] = field(default_factory=dict)
    ungated: tuple[str, ...] = ()

    def missing(self, operation: str, cases: Iterable[str]) -> str:
        """What the cases of a record lack.

        Parameters
        ----------
        operation
            A gated operation.
        cases
            The texts of its cases.

        Returns
        -------
        str
            What is missing of the first recipe that lacks any, "" for nothing.

        Raises
        ------
        StrataError
            For an operation that `required` does not name: one of which nothing is required says so.
        """
        if operation not in self.required:
            known = ", ".join(self.required)
            raise StrataError(f"operation {operation!r} has no row of required cases, expected one of {known}")
        held = list(cases)
        return next((said for one in self.required[operation] if (said := one.missing(held))), "")


def published() -> Policy:
    """What the tiers and the operations say of themselves."""
    rules = {name: Rule(tier.serves, tier.recorded) for name, tier in TIERS.items()}
    required = {name: one.required for name, one in DESCRIPTORS.items() if one.gated}
    ungated = tuple(name for name, one in DESCRIPTORS.items() if not one.gated)
    return Policy(MappingProxyType(rules), MappingProxyType(required), ungated)


POLICY = published()


def span(ends: tuple[int, int]) -> str:
    """A range in words: `7.5`, `8.0 or newer`, `6.0 to 7.2`."""
    lowest, highest = ends
    if highest >= NEWEST:
        return f"{dotted(lowest)} or newer"
    return dotted(lowest) if highest == lowest else f"{dotted(lowest)} to {dotted(highest)}"
