"""The named ways of making queries and keys."""

from __future__ import annotations

from validation.core.recipe import NamedRecipe

#: The edition of the plans in which these operations came.
EDITION = 2


def _recipe(name: str, motivation: str, far: bool = False, edition: int = EDITION) -> NamedRecipe:
    return NamedRecipe(f"select_{name}", motivation, "block_select", edition, far)


_ROWS = (
    _recipe("bell", "Plain queries and keys: every bit of a score, and the choice among scores that differ."),
    _recipe(
        "decades",
        "Each head and each block has a size of its own, over twelve decades, and both signs: the exponents of both "
        "count, and the loudest head does not hide the others.",
    ),
    _recipe(
        "near",
        "One key but for the last places of its numbers, once, twice and half as large: the cut lies among scores that "
        "scorers order differently, and each difference must be one that rounding explains.",
    ),
    _recipe("ties", "Few keys, each of many blocks: equal scores, of which the first blocks are chosen."),
    _recipe("equal", "One key for all blocks: the first cells, and a block that is cut, for every query."),
    _recipe("zeros", "No product of a head is above zero: every score is +0, and the first cells are chosen."),
    _recipe(
        "heads",
        "Heads that cancel one another: what one adds, another would take away if the ReLU came after the sum, and "
        "each head alone decides for some blocks.",
    ),
    _recipe(
        "cancelling",
        "Large products whose sum is small, the second half of the dims against the first: the order of a sum, and "
        "what is left out of one, show.",
    ),
    _recipe(
        "lengths",
        "Queries of any length, not in order: edges of blocks and tiles, 0 to 5 cells, the longest inside a tile "
        "whose last query is short.",
    ),
    _recipe(
        "broken",
        "NaN and infinities of both signs in some heads and some keys: scores that are NaN are chosen last, and no "
        "other score has another bit for them.",
    ),
    _recipe(
        "huge",
        "Products and sums on both sides of the largest float32: infinite scores are equal, and those that are none "
        "keep their bits.",
    ),
    _recipe(
        "tiny",
        "Products and sums on both sides of the smallest normal float32, rows below the smallest scale there is, and "
        "zero rows: nothing is flushed to zero.",
    ),
    _recipe(
        "split",
        "Numbers whose low halves add up: a product that leaves one of them out is far off.",
    ),
    _recipe(
        "sizes",
        "Queries, blocks and chosen cells on both sides of the kernels' own sizes.",
    ),
    _recipe(
        "far",
        "A query of a few blocks; on lanes the last query and the last block that there may be, and one thread block "
        "for many tiles.",
        far=True,
    ),
    _recipe(
        "apart",
        "Heads of the usual size, far above and far below in one query, and keys near them and far below: a scale that "
        "is cut short, or taken of one head for all, overflows or flushes a score that is a usual number.",
        edition=4,
    ),
)

RECIPES: dict[str, NamedRecipe] = {recipe.name: recipe for recipe in _ROWS}
