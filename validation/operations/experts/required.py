"""Cases that a record of the fused experts must hold for each of its paths, whatever its profile."""

from __future__ import annotations

from strata.kernels.expert_fused import DESCRIPTOR
from validation.operations.experts.case import ExpertCase

#: Of the published size, and of each recipe of hostile data at its small size.
PUBLISHED, *HOSTILE = DESCRIPTOR.required


def cases(seed: int) -> list[ExpertCase]:
    """The cases. The profiles plan their published size with the seed after their own and small sizes with their own,
    and so do these: one case serves both."""
    return [
        *(ExpertCase(PUBLISHED.recipe, seed + 1, *size) for size in PUBLISHED.sizes),
        *(ExpertCase(one.recipe, seed, *size) for one in HOSTILE for size in one.sizes),
    ]
