"""Small cases of attention at drawn sizes: what a soak runs."""

from __future__ import annotations

from collections.abc import Sequence

from strata.kernels.pool import GROUPS
from validation.operations.attention.plan import RELATED
from validation.operations.kv_pack.case import TOP, Case
from validation.operations.kv_pack.random_cases import pool
from validation.operations.kv_pack.recipes import Widths, find

QUERIES = 4
#: `width_edges` gives query i the i-th edge width; the first eight go past one chunk of 32.
EDGE_QUERIES = 8
#: Larger pages hold a law case in too few of them for its table of gaps.
LAW_PAGES = 4
#: The group of checked runs: the one that the quick profile compiles.
CHECKED_GROUP = 12


def case(name: str, words: Sequence[int], checked: bool) -> Case:
    """The case of a recipe whose seed and sizes some words choose."""
    recipe, (context, page, heads) = find(name), pool(words)
    queries = EDGE_QUERIES if recipe.widths is Widths.EDGES else 1 + words[4] % QUERIES
    group = CHECKED_GROUP if checked else GROUPS[words[5] % len(GROUPS)]
    top = 1 + words[7] % context if words[6] % 3 == 0 else TOP
    if recipe.relations:  # each law applies at the sizes that the profiles plan, and a case where one does not is void
        context, queries = RELATED
        page, top = min(page, LAW_PAGES), TOP
    return Case(name, words[0], context, queries, page, heads, group, top)
