"""Which expert cases the profiles have."""

from __future__ import annotations

from strata.kernels.experts import EXPERT_MODES, GATE_UP, MAX_TOP
from validation.core.entry import Planned
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.recipes import RECIPES, Routing, Values
from validation.operations.experts.routing import edge_tokens

_FUSED = ("expert_fused",)
#: The older kernels: every case of the fused path asks them too, so on their own they meet fewer.
_OLDER = ("expert_mmq", "expert_decode")

#: A small expert: one block of every format in K of gate and up, two blocks of Q2_0 in K of down.
_N, _FF = 256, 128
_TOKENS, _EXPERTS, _TOP = 9, 7, 3
#: Between them these have every format, a scale for 32 and for 16 values, and both formats of down.
_SOME = ("iq3_xxs/iq4_nl", "iq2_xs/q2_0")
#: Tokens of more than one tile, ragged; experts that get two and three tiles of 64.
_RAGGED = (130, 1, 63, 65, 128, 2)
#: Tokens, experts and ranks of the published test, and of the sizes at which the paths are timed.
PUBLISHED = (256, 64, 10)
TIMED = ((2048, 512, 10), (4864, 512, 10))
#: The pair that is timed.
TIMED_MODE = "iq3_xxs/iq4_nl"

#: Tokens, experts and ranks of a case with more experts than a warp has lanes and more pairs than a block has threads.
MANY = (104, 40, 10)
#: Tokens of the recipes in which each has a size of its own.
LADDER_TOKENS = 24

#: Tokens, experts and ranks of a case with more experts than four warps have lanes, and of one with as many ranks as
#: there may be. The most experts, 1,024, are grouped alone (`magnitude.experts.MANY_EXPERTS`): so many blobs take
#: seconds to place.
CROWD = ((1, 129, 8), (1, 3, MAX_TOP))
#: More rows an expert than `expert_fused.shape_for` takes the small work shape for.
LONE = (113, 1, 1)
#: Sizes of a case of far addresses.
FAR = (2, 3, 2, 256, 64)
#: Pairs of formats that have every format, for what is of a format's own: how its blocks are addressed.
_EACH_FORMAT = (*(f"{form}/iq4_nl" for form in GATE_UP), _SOME[1])
#: Recipes of large cases, which not every list of recipes has.
_LARGE = ("experts_many", "experts_crowd", "experts_far")


def small(recipe: str, seed: int) -> ExpertCase:
    """The case of a recipe at its small size."""
    if recipe == "experts_many":
        return ExpertCase(recipe, seed, *MANY, _N, 64)
    if recipe == "experts_crowd":
        return ExpertCase(recipe, seed, *CROWD[0], _N, 64)
    if recipe == "experts_far":
        return ExpertCase(recipe, seed, *FAR)
    if RECIPES[recipe].routing is Routing.EDGES:
        return ExpertCase(recipe, seed, edge_tokens(_EXPERTS + 1, 1), _EXPERTS + 1, 1, _N, _FF)
    if RECIPES[recipe].values is Values.LADDER:
        return ExpertCase(recipe, seed, LADDER_TOKENS, 2, 1, _N, 64)
    return ExpertCase(recipe, seed, _TOKENS, _EXPERTS, _TOP, _N, _FF)


def _quick(seed: int) -> list[Planned]:
    """Every pair and tier on plain and on hostile data, every recipe in two pairs, ragged sizes, the real geometry."""
    every = [small(name, seed) for name in ("experts_plain", "experts_decades", "experts_golden")]
    left_out = {*_LARGE, *(case.recipe for case in every)}  # experts_many is of the standard profile
    others = [small(name, seed) for name in RECIPES if name not in left_out]
    ragged = [ExpertCase("experts_decades", seed, tokens, 5, 2, 512, 64) for tokens in _RAGGED]
    real = ExpertCase("experts_plain", seed, 3, 4, 2)
    return [
        *(Planned(case, None, "checked", _FUSED) for case in every),
        *(Planned(case, _SOME, "checked", _FUSED) for case in (*others, *ragged)),
        Planned(real, (TIMED_MODE,), "checked", _FUSED),
        Planned(every[1], None, "checked", _OLDER),
        *(Planned(case, _SOME[:1], "checked", _OLDER) for case in others),
        *(Planned(ExpertCase("experts_crowd", seed, *sizes, _N, 64), _SOME[:1], "checked") for sizes in CROWD),
        Planned(ExpertCase("experts_crowd", seed, *LONE, _N, 64), _SOME[:1], "checked", _FUSED),
        Planned(small("experts_far", seed), _EACH_FORMAT, "checked"),
    ]


def _standard(seed: int) -> list[Planned]:
    """The quick cases in every pair, the published size, and the sizes at which the paths are timed."""
    tokens, experts, top = PUBLISHED
    published = [
        Planned(ExpertCase(name, seed + 1, tokens, experts, top), None, "fast", _FUSED)
        for name in ("experts_plain", "experts_decades")
    ]
    timed = [
        Planned(ExpertCase("experts_plain", seed + 1, tokens, experts, top), (TIMED_MODE,), "fast", _FUSED)
        for tokens, experts, top in TIMED
    ]
    again = [one._replace(modes=None) if one.operations == _FUSED else one for one in _quick(seed)]
    many = Planned(small("experts_many", seed), _SOME, "checked")
    return [*again, many, *published, *timed]


def _full(seed: int) -> list[Planned]:
    """The standard cases, the timed sizes in every pair, and every recipe at the real geometry with many experts."""
    tokens, experts, top = TIMED[-1]
    timed = Planned(ExpertCase("experts_plain", seed + 2, tokens, experts, top), EXPERT_MODES, "fast", _FUSED)
    wide = []
    for index, (name, recipe) in enumerate(RECIPES.items()):
        if recipe.edition > 1:
            continue  # they are large where it matters at their own sizes
        if recipe.routing is Routing.EDGES:
            wide.append(ExpertCase(name, seed + 2, edge_tokens(64, 10), 64, 10))
        else:
            wide.append(ExpertCase(name, seed + 2, 96 + index, 48, 10))
    return [*_standard(seed), *(Planned(case, None, "fast") for case in wide), timed]


def expert(seed: int, profile: str) -> list[Planned]:
    """Cases of the expert operations."""
    return {"quick": _quick, "standard": _standard, "full": _full}[profile](seed)
