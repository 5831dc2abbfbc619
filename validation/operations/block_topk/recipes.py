"""The named ways of making scores."""

from __future__ import annotations

from validation.core.recipe import NamedRecipe
from validation.operations.block_select.recipes import EDITION


def _recipe(name: str, motivation: str, far: bool = False) -> NamedRecipe:
    return NamedRecipe(f"topk_{name}", motivation, "block_topk", EDITION, far)


_ROWS = (
    _recipe("bell", "Plain scores of both signs, of which a scorer makes only those that are not negative."),
    _recipe("levels", "Scores of seven levels: ties at every cut, of which the first blocks are chosen."),
    _recipe("equal", "One score for all blocks of a query: the first cells."),
    _recipe("zeros", "Zeros of both signs, which are equal, among small numbers of both signs."),
    _recipe("nan", "NaN of several payloads and both signs, one query of nothing else: last, and in order of index."),
    _recipe("infinities", "Infinities of both signs and the largest numbers: no two of them are equal but twins."),
    _recipe("subnormals", "Subnormal scores of both signs, which differ in their last bits alone."),
    _recipe(
        "digits",
        "Scores whose bits differ in one of four octets, in turn for each query: each pass of a radix select decides "
        "once alone.",
    ),
    _recipe(
        "lengths",
        "Queries of any length and widths of any size, at every edge: no cell, the incomplete block alone and a part "
        "of it, a cell less than all, and all of them.",
    ),
    _recipe(
        "sizes",
        "Blocks on both sides of the kernels' own sizes, and of what the short kernel reaches.",
    ),
    _recipe("far", "A query of a few blocks; on lanes the last queries that there may be.", far=True),
)

RECIPES: dict[str, NamedRecipe] = {recipe.name: recipe for recipe in _ROWS}
