"""Which cases of the router the profiles have."""

from __future__ import annotations

from collections.abc import Iterator

from strata.kernels.router import MOST_EXPERTS, MOST_RANKS
from validation.core.entry import Planned
from validation.operations.experts.case import ExpertCase
from validation.operations.router.inputs import BESIDE
from validation.operations.router.recipes import RECIPES

#: Hidden size and width of an expert, which the router does not look at.
UNUSED = (256, 64)
#: Tokens of the recipe in which each has a size of its own.
LADDER_ROWS = 48
_WARP = 32
#: Tokens, experts and ranks on both sides of a warp's lanes, of its turns, and of the most of each.
SIZES = (
    (1, _WARP - 1, _WARP - 1),
    (2, _WARP, MOST_RANKS),
    (3, _WARP + 1, MOST_RANKS - 1),
    (4, 8 * _WARP + 1, 16),
    (5, 16 * _WARP + 1, 17),
    (2, MOST_EXPERTS - 1, MOST_RANKS),
    (9, MOST_EXPERTS, MOST_RANKS),
)
#: Of recipes that need sizes of their own, behind all others: every distance from the edge, more of them than are
#: shut; and as many logits as a lane may hold.
EDGES = {
    "router_edge": (2, 2 * BESIDE + 1, MOST_RANKS),
    "router_counts": (4, MOST_EXPERTS, 8),
}
#: Equal logits, of which the one chosen weighs as little of them all as it may, and twice that.
EQUAL_SIZES = ((3, MOST_EXPERTS, 1), (3, MOST_EXPERTS // 2, 1))
#: Odd numbers of experts, 256 and 512, one and many ranks; and what profiles beyond the quick one have besides.
_QUICK = ((9, 70, 10), (5, 512, 10), (3, 256, 8), (4, 5, 1))
_MORE = ((256, 512, 10), (64, 1024, 32), (33, 256, 10))


def _cases(seed: int, profile: str) -> Iterator[ExpertCase]:
    sizes = _QUICK if profile == "quick" else _QUICK + _MORE
    for name, recipe in RECIPES.items():
        if not recipe.far and name not in EDGES:
            for size in ((LADDER_ROWS, 70, 10),) if recipe.ladder else sizes:
                yield ExpertCase(name, seed, *size, *UNUSED)
    for size in SIZES:
        yield ExpertCase("router_sizes", seed, *size, *UNUSED)
    for name, size in EDGES.items():
        yield ExpertCase(name, seed, *size, *UNUSED)


def planned(seed: int, profile: str) -> list[Planned]:
    """The cases of a profile, those of a later edition last."""
    equal = [ExpertCase("router_equal", seed, *size, *UNUSED) for size in EQUAL_SIZES]
    return [Planned(case, flavor="checked") for case in _cases(seed, profile)] + [
        Planned(case, flavor="checked", edition=2) for case in equal
    ]
