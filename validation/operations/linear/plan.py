"""Which cases of dense products the profiles have, and those that a record must hold.

Every mode has a case of each recipe; sizes, which know nothing of formats, are asked of a few modes each: of one scale
for 32 values, of two, of an offset, of codebooks, and of FP16.
"""

from __future__ import annotations

from collections.abc import Iterator

from strata.kernels.linear import DESCRIPTOR
from validation.core.entry import Planned
from validation.operations.linear.case import LinearCase
from validation.operations.linear.recipes import EDITION, RECIPES

#: Rows, outputs and width of a quick case of each recipe: more outputs than a tile has and more groups than a turn;
#: rows that are few; a row for each of many sizes.
_QUICK = {
    "linear_bell": (9, 130, 1280),
    "linear_decades": (5, 24, 1024),
    "linear_extreme": (6, 40, 512),
    "linear_cancelling": (4, 24, 2560),
    "linear_ladder": (24, 12, 256),
    "linear_broken": (8, 14, 512),
}
#: Rows, outputs and width around what blocks of threads and their turns take, and the modes that are asked.
SIZES: tuple[tuple[tuple[int, int, int], tuple[str, ...]], ...] = (
    ((1, 1, 32), ("q8_0", "q5_1", "f16")),
    ((4, 7, 2048), ("q4_0", "q4_k")),
    ((4, 9, 2080), ("iq4_nl", "q5_1")),
    ((5, 8, 1024), ("q6_k", "q2_0")),
    ((32, 9, 1056), ("q5_0", "q5_1")),
    ((33, 17, 256), ("iq3_s", "q8_0")),
    ((64, 5, 288), ("q4_0",)),
    ((65, 3, 128), ("q2_0",)),
    ((96, 2, 256), ("q4_k",)),
    ((97, 2, 256), ("q5_k", "iq2_xs")),
    ((128, 2, 160), ("q5_0",)),
    ((129, 2, 256), ("q4_0", "iq2_s")),
    ((3, 127, 96), ("iq4_nl", "f16")),
    ((2, 128, 128), ("q2_0",)),
    ((2, 129, 160), ("q8_0", "q5_1")),
    ((2, 33, 132), ("f16",)),
    ((8, 9, 4), ("f16",)),
    ((9, 8, 516), ("f16",)),
)
#: Rows, outputs and width of far cases, of few rows and of more, and the modes that are asked.
_FAR = (((3, 5, 512), ("q8_0", "q5_k", "f16")), ((6, 5, 512), ("q5_1", "iq2_xs")))
#: Of every recipe in the standard profile, and real sizes of the usual recipe with their modes.
_MIDDLE = (70, 260, 1536)
_LARGE = (
    ((512, 2048, 1024), ("q8_0", "q4_k")),
    ((96, 640, 1024), ("f16",)),
    ((1, 4096, 2048), ("q4_0", "q6_k")),
    ((64, 640, 2048), ("q5_0", "q5_1", "iq3_s")),
)
#: Of the full profile besides: a whole prompt's part.
_LARGEST = (((2048, 2048, 2048), ("q8_0", "q4_k", "iq2_s")),)


def _quick(seed: int) -> Iterator[Planned]:
    for name, size in _QUICK.items():
        yield Planned(LinearCase(name, seed, *size), edition=EDITION)
    for size, modes in SIZES:
        yield Planned(LinearCase("linear_sizes", seed, *size), modes, "checked", edition=EDITION)
    for size, modes in _FAR:
        yield Planned(LinearCase("linear_far", seed, *size), modes, edition=EDITION)


def planned(seed: int, profile: str) -> list[Planned]:
    """The cases of a profile."""
    found = list(_quick(seed))
    if profile != "quick":
        names = [name for name, recipe in RECIPES.items() if not recipe.far and name != "linear_sizes"]
        found += [Planned(LinearCase(name, seed + 1, *_MIDDLE), edition=EDITION) for name in names]
        found += [Planned(LinearCase("linear_bell", seed, *size), modes, edition=EDITION) for size, modes in _LARGE]
    if profile == "full":
        found += [Planned(LinearCase("linear_bell", seed, *size), modes, edition=EDITION) for size, modes in _LARGEST]
    return found


def required(seed: int) -> list[Planned]:
    """The cases that a record must hold whatever its profile."""
    return [
        Planned(LinearCase(one.recipe, seed, **dict(zip(one.keys, size, strict=True))), edition=EDITION)
        for one in DESCRIPTOR.required
        for size in one.sizes
    ]
