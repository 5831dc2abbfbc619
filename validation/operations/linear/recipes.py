"""The named ways of making a matrix of blocks and rows."""

from __future__ import annotations

from validation.core.recipe import NamedRecipe

#: The edition of the plans in which these operations came.
EDITION = 4


def _recipe(name: str, motivation: str, far: bool = False) -> NamedRecipe:
    return NamedRecipe(f"linear_{name}", motivation, "linear", EDITION, far)


_ROWS = (
    _recipe("bell", "Plain scales and rows: every bit of a product, over more groups than are summed at once."),
    _recipe(
        "decades",
        "Scales and offsets of both signs over decades, groups of rows with sizes of their own over nine decades, and "
        "groups and rows of zeros of both signs: each factor counts, where it belongs.",
    ),
    _recipe(
        "extreme",
        "Blocks whose fields are all at their smallest or largest, under rows of codes -127 and 127: dots and sums "
        "reach their limits; and rows half way between two codes, whose ties go to the even one.",
    ),
    _recipe(
        "cancelling",
        "The second half of a row takes away what the first half gave, but for a little: the order of the sum and each "
        "of its roundings show.",
    ),
    _recipe(
        "ladder",
        "Each row has a size of its own, from subnormal numbers to 2**100, and some have groups on both sides of the "
        "size at which 127 / amax is infinite; every second output has subnormal scales: nothing is flushed, and what "
        "has no reciprocal counts as zeros.",
    ),
    _recipe(
        "broken",
        "NaN and infinities in single groups, sums that overflow, and outputs whose scales and offsets are infinite, "
        "NaN, zero, subnormal or the largest: kept and counted, and all others keep their bits.",
    ),
    _recipe("sizes", "Rows, outputs and groups on both sides of the kernels' own sizes."),
    _recipe(
        "far",
        "A few rows and outputs; on lanes the last of so many that the matrix has more than 2**32 bytes and the "
        "outputs more than 2**32 numbers.",
        far=True,
    ),
)

RECIPES: dict[str, NamedRecipe] = {recipe.name: recipe for recipe in _ROWS}
