"""The named ways of making data of combining."""

from __future__ import annotations

from validation.core.recipe import NamedRecipe

_ROWS = (
    NamedRecipe(
        "combine_decades",
        "Rows of sizes of their own over decades, and the shared expert behind gates from shut to open.",
        "combine",
    ),
    NamedRecipe(
        "combine_alone",
        "No shared expert: the sum of the ranks alone.",
        "combine",
    ),
    NamedRecipe(
        "combine_cancelling",
        "A large row, small ones, and the large one again with the other sign: the order of the sum shows.",
        "combine",
    ),
    NamedRecipe(
        "combine_broken",
        "A NaN, and infinities under a weight of 0: kept and counted, other tokens keep their bits.",
        "combine",
    ),
    NamedRecipe(
        "combine_ladder",
        "Rows from 2**-140 to 2**60, weights that fall by 2**8 from rank to rank over rows that rise as fast, and "
        "gates of both signs from 2**-140 to 2**14: tiny weights and rows count, products are subnormal, and the "
        "sigmoid goes from a half over all its thresholds to 0 and 1.",
        "combine",
        edition=2,
    ),
    NamedRecipe(
        "combine_sizes",
        "Ranks on both sides of powers of two, up to the most there may be; on lanes more than 2**33 outputs.",
        "combine",
        edition=2,
        far=True,
    ),
    NamedRecipe(
        "combine_gates",
        "Gates of both signs at which the exponential of a sigmoid becomes infinite, from two octaves beside it to one "
        "float32 step, on both sides, over a shared expert so large that a subnormal sigmoid counts.",
        "combine",
        edition=2,
    ),
    NamedRecipe(
        "combine_counts",
        "One, two, three and four of a thread's four columns not finite, each as often again as the one before: every "
        "number of them is added whole.",
        "combine",
        edition=2,
    ),
)

RECIPES: dict[str, NamedRecipe] = {recipe.name: recipe for recipe in _ROWS}
