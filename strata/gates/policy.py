"""What a record must be to open a path of each tier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from strata.device import dotted
from strata.executors.base import StrataError

#: Higher than any compute capability: the end of an open range.
NEWEST = 9_999


@dataclass(frozen=True)
class Rule:
    """What is asked of one tier, in compute capabilities times ten, both ends included. serves: the devices that the
    tier is for; recorded: the devices that its record may name."""

    serves: tuple[int, int]
    recorded: tuple[int, int]


@dataclass(frozen=True)
class Required:
    """Cases that a record must hold for each of its paths, whatever else was planned: those of `recipe` whose words
    `keys` have the values of each of `sizes`."""

    recipe: str
    keys: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]

    def missing(self, cases: Iterable[str]) -> str:
        """What is not among the texts of some cases, e.g. `signed_decades at 4,096/512`; "" when nothing is."""
        held = [dict(word.split("=", 1) for word in text.split() if "=" in word) for text in cases]
        wanted = [{"recipe": self.recipe} | dict(zip(self.keys, map(str, size), strict=True)) for size in self.sizes]
        lacking = [
            "/".join(f"{number:,}" for number in size)
            for size, words in zip(self.sizes, wanted, strict=True)
            if not any(words.items() <= case.items() for case in held)
        ]
        return f"{self.recipe} at {' and '.join(lacking)}" if lacking else ""


@dataclass(frozen=True)
class Policy:
    """rules: by tier; a tier without one needs no record. required: by gated operation, all of them. baselines: those
    that need no record although their tiers have a rule, because they are what serves where nothing is proved."""

    rules: Mapping[str, Rule]
    required: Mapping[str, tuple[Required, ...]] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()

    def missing(self, operation: str, cases: Iterable[str]) -> str:
        """What is not among the texts of some cases of an operation, of the first recipe that lacks any; "" for
        nothing.

        Raises StrataError for an operation that `required` does not name: one of which nothing is required says so.
        """
        if operation not in self.required:
            known = ", ".join(self.required)
            raise StrataError(f"operation {operation!r} has no row of required cases, expected one of {known}")
        held = list(cases)
        return next((said for one in self.required[operation] if (said := one.missing(held))), "")


_EXPERT_KEYS = ("tokens", "experts", "top", "n", "ff")
#: Data on which experts go wrong that are right on numbers at random, each at a small size: NaN and infinities, ids
#: that name nobody, experts with as many rows as a tile and one more or less, values between two codes, and blocks as
#: quantisers write them.
_HOSTILE = {
    "experts_broken": (9, 7, 3, 256, 128),
    "experts_stray": (9, 7, 3, 256, 128),
    "experts_edges": (577, 8, 1, 256, 128),
    "experts_ties": (9, 7, 3, 256, 128),
    "experts_golden": (9, 7, 3, 256, 128),
}

#: sm75 is for Turing, which is 7.5 alone. sm80 code runs on everything later, and its record may name any of it.
POLICY = Policy(
    MappingProxyType({"sm75": Rule((75, 79), (75, 75)), "sm80": Rule((80, NEWEST), (80, NEWEST))}),
    MappingProxyType(
        {
            "prompt_attention": (Required("signed_decades", ("context", "queries"), ((4096, 512), (1500, 512))),),
            "expert_fused": (
                Required("experts_decades", _EXPERT_KEYS, ((256, 64, 10, 2560, 640), (150, 4, 2, 2560, 640))),
                *(Required(recipe, _EXPERT_KEYS, (size,)) for recipe, size in _HOSTILE.items()),
            ),
        }
    ),
    baselines=("expert_mmq",),
)


def span(ends: tuple[int, int]) -> str:
    """A range in words: `7.5`, `8.0 or newer`, `6.0 to 7.2`."""
    lowest, highest = ends
    if highest >= NEWEST:
        return f"{dotted(lowest)} or newer"
    return dotted(lowest) if highest == lowest else f"{dotted(lowest)} to {dotted(highest)}"
