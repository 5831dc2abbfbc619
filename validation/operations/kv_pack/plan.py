"""Which cases of packing the profiles have."""

from __future__ import annotations

from strata.kernels import kv_pack
from validation.core.entry import Planned
from validation.operations.attention.case import Case
from validation.operations.attention.plan import FAR, LARGE_POOL, PAGE_SIZES
from validation.operations.attention.recipes import of_operation


def planned(seed: int, profile: str) -> list[Planned]:
    """The cases of a profile: every recipe in every page size, longer ones outside the quick profile."""
    cells = 259 if profile == "quick" else 1031
    names = [recipe.name for recipe in of_operation("kv_pack") if not recipe.far]
    cases = [Case(name, seed, cells, 0, page_size, group=1) for name in names for page_size in PAGE_SIZES]
    page_size, heads = LARGE_POOL
    large = Case("pack_bell", seed, 67, 0, page_size, heads, group=1)
    rows = kv_pack.THREADS // 32  # of a block
    sizes = ((FAR[0], PAGE_SIZES[0], 2), (rows, PAGE_SIZES[-1], 1), (rows + 1, PAGE_SIZES[1], 1))
    far = [Case("pack_far", seed, context, 0, page, heads, group=1) for context, page, heads in sizes]
    return [*(Planned(case) for case in cases), Planned(large, ("q4_0",)), *(Planned(case) for case in far)]
