"""Which cases of packing the profiles have."""

from __future__ import annotations

from strata.kernels import kv_pack
from validation.core.entry import Planned
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.recipes import of_operation

PAGE_SIZES = (1, 4, 16, 64)
#: Cells of a quick case of attention: past the second tile and the absent chunks; ragged in every page size.
SMALL_CELLS = 211
#: Page size and KV heads of a pool whose cells lie past row 65,536: row numbers need more than 16 bits.
LARGE_POOL = (4096, 16)
#: Cells of a case of far addresses.
FAR_CELLS = 97


def planned(seed: int, profile: str) -> list[Planned]:
    """The cases of a profile: every recipe in every page size, longer ones outside the quick profile."""
    cells = 259 if profile == "quick" else 1031
    names = [recipe.name for recipe in of_operation("kv_pack") if not recipe.far]
    cases = [Case(name, seed, cells, 0, page_size, group=1) for name in names for page_size in PAGE_SIZES]
    page_size, heads = LARGE_POOL
    large = Case("pack_bell", seed, 67, 0, page_size, heads, group=1)
    rows = kv_pack.THREADS // 32  # of a block
    sizes = ((FAR_CELLS, PAGE_SIZES[0], 2), (rows, PAGE_SIZES[-1], 1), (rows + 1, PAGE_SIZES[1], 1))
    far = [Case("pack_far", seed, context, 0, page, heads, group=1) for context, page, heads in sizes]
    return [*(Planned(case) for case in cases), Planned(large, ("q4_0",)), *(Planned(case) for case in far)]
