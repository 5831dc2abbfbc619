"""Which cases of rope the profiles have."""

from __future__ import annotations

from collections.abc import Iterator

from strata.kernels.rope import FOUR, THREADS
from validation.core.entry import Planned
from validation.operations.rope.case import RopeCase
from validation.operations.rope.recipes import EDITION, RECIPES

#: Rows, heads, d and context of a quick case; of recipes that need sizes of their own; and of the standard profile.
_SMALL = ((7, 3, 32, 64),)
_OWN = {
    "rope_angles": ((9, 1, 32, 32768), (3, 4, 256, 300)),
    "rope_ladder": ((24, 2, 64, 41),),
    "rope_same": ((5, 2, 16, 32768),),
}
_LARGE = ((64, 4, 256, 32768), (17, 16, 128, 8192), (257, 1, 64, 4096))
#: One row and one head; primes; widths of heads; fours of pairs that fill a block, and one more.
SIZES = (
    (1, 1, 8, 1),
    (2, 1, 24, 2),
    (1, 1, 2 * FOUR * THREADS, 3),
    (1, THREADS + 1, 8, 9),
    (13, 7, 80, 13),
    (3, 5, 96, 31),
    (2, 3, 128, 17),
)


def _sizes(profile: str) -> Iterator[tuple[str, tuple[int, int, int, int]]]:
    for name, recipe in RECIPES.items():
        if not recipe.far:
            for size in _OWN.get(name, _SMALL):
                yield name, size
    for size in SIZES:
        yield "rope_sizes", size
    if profile != "quick":
        for name, recipe in RECIPES.items():
            if not recipe.far:
                for size in _LARGE:
                    yield name, size


def planned(seed: int, profile: str) -> list[Planned]:
    """The cases of a profile."""
    return [Planned(RopeCase(name, seed, *size), flavor="checked", edition=EDITION) for name, size in _sizes(profile)]
