"""Editions of the profiles' plans: what each one brought, and which of them a record may hold.

A record names the plan that it holds by a digest, and a case that is added to a profile changes that digest. So a new
case says from which edition on it is planned: as `edition` of its recipe or of its entry. Parity and new records hold
the newest edition. The verifier plans a record's own edition again, and takes it while the table below accepts it.

The cases of an edition stand in front of all that came later, so an edition's plan is the same for ever. A change of
its order, its sizes or its recipes is no edition: it voids the records that hold it.
"""

from __future__ import annotations

from dataclasses import dataclass

from strata.executors.base import StrataError


@dataclass(frozen=True)
class Edition:
    """number: from 1 on; brought: a sentence on the cases that came with it; accepted: whether a record may hold it."""

    number: int
    brought: str
    accepted: bool = True


#: In order of their numbers, which are 1, 2, ...
EDITIONS = (
    Edition(1, "The plans of the first records, with cases for every recipe, page size, group and work shape."),
    Edition(
        2,
        "Sizes on both sides of the kernels' constants, addresses and counts beyond 16 and 32 bits, and recipes that "
        "sweep each scale over its whole range.",
    ),
    Edition(3, "Attention over the cells that block selection chose in the same run."),
    Edition(4, "Queries of block selection whose heads and keys lie far apart."),
)
NEWEST = EDITIONS[-1].number


def find(number: int) -> Edition:
    """The edition of a number. Raises StrataError for any other."""
    for edition in EDITIONS:
        if edition.number == number:
            return edition
    raise StrataError(f"edition {number} of the plans is not known, expected 1..{NEWEST}")
