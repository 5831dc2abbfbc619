"""Cases that a record of the fused experts must hold for each of its paths, whatever its profile."""

from __future__ import annotations

from validation.operations.experts import plan
from validation.operations.experts.case import FF, ExpertCase, N

RECIPE = "experts_decades"
#: Words of a case that are fixed, in the order of SIZES.
KEYS = ("tokens", "experts", "top", "n", "ff")
#: The published size, where a block takes 64 rows of an expert at a time, and one with 56 to 112 rows an expert, where
#: it takes 128: between them every kernel that a path may launch.
SIZES = ((256, 64, 10, N, FF), (150, 4, 2, N, FF))
#: Recipes that a record must hold at their small size: see `strata.gates.policy`.
HOSTILE = ("experts_broken", "experts_stray", "experts_edges", "experts_ties", "experts_golden")


def cases(seed: int) -> list[ExpertCase]:
    """The cases. The profiles plan their published size with the seed after their own and small sizes with their own,
    and so do these: one case serves both."""
    return [*(ExpertCase(RECIPE, seed + 1, *size) for size in SIZES), *(plan.small(name, seed) for name in HOSTILE)]
