"""What a record must be to open a path of each tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from strata.device import dotted

#: Higher than any compute capability: the end of an open range.
NEWEST = 9_999


@dataclass(frozen=True)
class Rule:
    """What is asked of one tier, in compute capabilities times ten, both ends included. serves: the devices that the
    tier is for; recorded: the devices that its record may come from."""

    serves: tuple[int, int]
    recorded: tuple[int, int]


@dataclass(frozen=True)
class Policy:
    """rules: by tier; a tier without one needs no record. baselines: operations that need none although their tiers
    have a rule, because they are what serves where nothing is proved; recorded: those that a record can hold.
    required: (context, queries) of the cases of `recipe` that a record must hold for a path, whatever else was
    planned."""

    rules: Mapping[str, Rule]
    recipe: str = "signed_decades"
    required: tuple[tuple[int, int], ...] = ((4096, 512), (1500, 512))
    baselines: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ("prompt_attention",)


#: sm75 is for Turing, which is 7.5 alone. sm80 code runs on everything later, and its record may come from any of it.
POLICY = Policy(
    MappingProxyType({"sm75": Rule((75, 79), (75, 75)), "sm80": Rule((80, NEWEST), (80, NEWEST))}),
    baselines=("expert_mmq",),
)


def span(ends: tuple[int, int]) -> str:
    """A range in words: `7.5`, `8.0 or newer`, `6.0 to 7.2`."""
    lowest, highest = ends
    if highest >= NEWEST:
        return f"{dotted(lowest)} or newer"
    return dotted(lowest) if highest == lowest else f"{dotted(lowest)} to {dotted(highest)}"
