"""Which expert cases the profiles have: the words of `profiles.Entry`, which this module cannot import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from strata.kernels.combine import THREADS as COMBINE_THREADS
from strata.kernels.experts import GATE_UP, MAX_TOP
from strata.kernels.paths import EXPERT_MODES
from strata.kernels.router import MOST_EXPERTS, MOST_RANKS
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.recipes import RECIPES, Routing, Values
from validation.operations.experts.routing import edge_tokens
from validation.operations.router import recipes as around_recipes
from validation.operations.router.inputs import BESIDE


class Planned(NamedTuple):
    """The words of an entry, in its order."""

    case: ExpertCase
    modes: tuple[str, ...] | None = None
    flavor: str | None = None
    operations: tuple[str, ...] | None = None
    edition: int = 1


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
#: Tokens of the recipes in which each has a size of its own: of experts, and around them.
LADDER_TOKENS, LADDER_ROWS = 24, 48

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
_WARP = 32
#: Tokens, experts and ranks of the router on both sides of a warp's lanes, of its turns, and of the most of each.
ROUTER_SIZES = (
    (1, _WARP - 1, _WARP - 1),
    (2, _WARP, MOST_RANKS),
    (3, _WARP + 1, MOST_RANKS - 1),
    (4, 8 * _WARP + 1, 16),
    (5, 16 * _WARP + 1, 17),
    (2, MOST_EXPERTS - 1, MOST_RANKS),
    (9, MOST_EXPERTS, MOST_RANKS),
)
#: Tokens, ranks and columns of a sum: ranks on both sides of powers of two, up to the most that experts give; columns
#: of half a block's threads, of all, and of one and a half.
COMBINE_SIZES = (
    (3, 2, 256),
    (2, 15, 256),
    (3, 16, 4 * COMBINE_THREADS),
    (2, 17, 256),
    (2, 31, 256),
    (1, _WARP, 256),
    (3, _WARP + 1, 256),
    (2, MAX_TOP - 1, 256),
    (2, MAX_TOP, 768),
)


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


#: Sizes of cases that have a token for every step of a ladder.
_LADDER_SIZES = {"router": [(LADDER_ROWS, 70, 10)], "combine": [(LADDER_ROWS, 10, 256)]}
#: Of recipes that need sizes of their own, those of the router, behind all others: every distance from the edge, more
#: of them than are shut; and as many logits as a lane may hold.
ROUTER_EDGES = {
    "router_edge": (2, 2 * BESIDE + 1, MOST_RANKS),
    "router_counts": (4, MOST_EXPERTS, 8),
}
#: Equal logits, of which the one chosen weighs as little of them all as it may, and twice that.
EQUAL_SIZES = ((3, MOST_EXPERTS, 1), (3, MOST_EXPERTS // 2, 1))
#: Likewise of combining, tokens, ranks and columns: every distance with both signs; and every turn of fours.
COMBINE_EDGES = {"combine_gates": (4 * BESIDE, 1, 256), "combine_counts": (4, 2, 256)}


def router(seed: int, profile: str) -> list[Planned]:
    """Cases of the router: odd numbers of experts, 256 and 512, one and many ranks."""
    sizes = [(9, 70, 10), (5, 512, 10), (3, 256, 8), (4, 5, 1)]
    sizes += [] if profile == "quick" else [(256, 512, 10), (64, 1024, 32), (33, 256, 10)]
    cases = [
        ExpertCase(name, seed, *size, _N, 64)
        for name, recipe in around_recipes.RECIPES.items()
        if recipe.operation == "router" and not recipe.far and name not in ROUTER_EDGES
        for size in (_LADDER_SIZES["router"] if recipe.ladder else sizes)
    ]
    cases += [ExpertCase("router_sizes", seed, *size, _N, 64) for size in ROUTER_SIZES]
    cases += [ExpertCase(name, seed, *size, _N, 64) for name, size in ROUTER_EDGES.items()]
    equal = [ExpertCase("router_equal", seed, *size, _N, 64) for size in EQUAL_SIZES]
    return [Planned(case, None, "checked") for case in cases] + [
        Planned(case, None, "checked", None, 2) for case in equal
    ]


def combine(seed: int, profile: str) -> list[Planned]:
    """Cases of combining: one and many ranks, narrow and real rows."""
    sizes = [(9, 10, 256), (3, 1, 512), (5, 10, 2560)]
    sizes += [] if profile == "quick" else [(256, 10, 2560), (33, 7, 768)]
    cases = [
        ExpertCase(name, seed, tokens, 64, top, n, 64)
        for name, recipe in around_recipes.RECIPES.items()
        if recipe.operation == "combine" and not recipe.far and name not in COMBINE_EDGES
        for tokens, top, n in (_LADDER_SIZES["combine"] if recipe.ladder else sizes)
    ]
    cases += [ExpertCase("combine_sizes", seed, tokens, 64, top, n, 64) for tokens, top, n in COMBINE_SIZES]
    cases += [ExpertCase(name, seed, tokens, 64, top, n, 64) for name, (tokens, top, n) in COMBINE_EDGES.items()]
    return [Planned(case, None, "checked") for case in cases]


LISTS: Mapping[str, Callable[[int, str], list[Planned]]] = {"expert": expert, "router": router, "combine": combine}
