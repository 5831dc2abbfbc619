"""The named ways of making data of embeddings."""

from __future__ import annotations

from validation.core.recipe import NamedRecipe

#: The edition of the plans in which the operation came.
EDITION = 4


def _recipe(name: str, motivation: str, far: bool = False) -> NamedRecipe:
    return NamedRecipe(f"embedding_{name}", motivation, "embedding", EDITION, far)


_ROWS = (
    _recipe("bell", "Blocks of any codes under plain scales, every row of the matrix, the first and the last twice."),
    _recipe("raw", "Any bits at all: scales and halves that are NaN or infinite, and no row but their own is lost."),
    _recipe("outside", "Ids below zero and behind the matrix, up to the outermost: NaN rows that are counted."),
    _recipe("faint", "A factor that makes products subnormal or nothing, of both signs, scales of zero among them."),
    _recipe("loud", "A factor beyond which products are infinite."),
    _recipe(
        "sizes", "One row, primes, and the smallest rows of each format; on lanes matrices beyond 2**32 bytes.", True
    ),
)

RECIPES: dict[str, NamedRecipe] = {recipe.name: recipe for recipe in _ROWS}
