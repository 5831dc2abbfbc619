"""The named ways of making data of RMSNorm."""

from __future__ import annotations

from validation.core.recipe import NamedRecipe

#: The edition of the plans in which the operation came.
EDITION = 4


def _recipe(name: str, motivation: str, far: bool = False) -> NamedRecipe:
    return NamedRecipe(f"rms_{name}", motivation, "rms_norm", EDITION, far)


_ROWS = (
    _recipe("bell", "Rows of sizes of their own over decades, weights about 1, residuals as large as what is added."),
    _recipe(
        "outliers",
        "One column in a few is a thousand times as large, and weights go over decades with both signs: the order of "
        "the sum of squares shows, and so does which column a weight belongs to.",
    ),
    _recipe(
        "ladder",
        "Rows from 2**-149 to 2**62: squares that vanish, subnormal ones, where eps outweighs the mean and where the "
        "mean outweighs eps, up to sums just below the largest float.",
    ),
    _recipe(
        "overflow",
        "Rows whose sum of squares is just below the largest float and just above it: by one square, in the sum of a "
        "lane, and in the sum of lanes alone. A row whose sum overflows is NaN and counted, its neighbours are not.",
    ),
    _recipe(
        "zeros",
        "Rows of zeros of both signs, and rows of one value among zeros: no division by zero, and signs are kept.",
    ),
    _recipe(
        "broken",
        "NaN and infinities in single rows, in the first column, the last and any: that row is NaN and counted once, "
        "and no other row has another bit.",
    ),
    _recipe(
        "weights",
        "Weights of zero with both signs, subnormal, huge, infinite and NaN: a product that overflows stays, its row "
        "is not counted and other columns keep their bits.",
    ),
    _recipe(
        "sizes",
        "Columns on both sides of what a warp takes at a time and rows on both sides of a block's; on lanes the last "
        "rows of nearly 2**31.",
        far=True,
    ),
)

RECIPES: dict[str, NamedRecipe] = {recipe.name: recipe for recipe in _ROWS}
