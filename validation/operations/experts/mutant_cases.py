"""The cases that judge mutants of expert kernels: every recipe at the smallest sizes that show it, one path at a time.

The quick profile asks some recipes of two pairs of formats alone. A mutant needs that not: its own kernels are what
changed, whatever their formats.
"""

from __future__ import annotations

from validation.operations.experts import plan
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.recipes import RECIPES, Routing, Values
from validation.operations.experts.routing import edge_tokens

#: Hidden size and features: two blocks of 256 values in K of gate and up, three records of 64 in K of down, and a last
#: tile of weights that is not full in any work shape.
_N, _FF = 512, 192
_TOKENS, _EXPERTS, _TOP = 9, 7, 3
#: Tokens, experts, ranks, hidden size and features with more groups of 32 in K than a warp has lanes.
_WIDE = (3, 2, 1, 1280, 64)
#: Experts of the tiles' edges: counts of 0, 1, 63, 64, 65, 127, 128 and 129: more than any tile has.
_EDGES = 8


def cases(seed: int) -> list[ExpertCase]:
    """One case a recipe, in table order, and a wide one."""
    made = []
    for name, recipe in RECIPES.items():
        if recipe.routing is Routing.EDGES:
            made.append(ExpertCase(name, seed, edge_tokens(_EDGES, 1), _EDGES, 1, 256, 64))
        elif name in ("experts_many", "experts_crowd", "experts_far") or recipe.values is Values.LADDER:
            made.append(plan.small(name, seed))
        else:
            made.append(ExpertCase(name, seed, _TOKENS, _EXPERTS, _TOP, _N, _FF))
    return [*made, ExpertCase("experts_decades", seed, *_WIDE)]
