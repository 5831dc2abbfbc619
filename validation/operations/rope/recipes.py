"""The named ways of making data of rope."""

from __future__ import annotations

from validation.core.recipe import NamedRecipe

#: The edition of the plans in which the operation came.
EDITION = 4


def _recipe(name: str, motivation: str, far: bool = False) -> NamedRecipe:
    return NamedRecipe(f"rope_{name}", motivation, "rope", EDITION, far)


_ROWS = (
    _recipe(
        "angles",
        "The tables of the engine, of position 0, both sides of powers of two and the last position, held against the "
        "angles themselves.",
    ),
    _recipe("decades", "Heads of sizes of their own over decades, and tables of any numbers between -1 and 1."),
    _recipe(
        "cancelling",
        "Pairs that are turned onto an axis: what is left of one is the rounding of a product, which only a fused "
        "multiply-add leaves.",
    ),
    _recipe("zeros", "Zeros of both signs in heads and tables, ones of both signs beside them: the sign of each zero."),
    _recipe(
        "broken", "NaN and infinities in heads and in tables: their own pairs are lost, all others keep their bits."
    ),
    _recipe(
        "ladder",
        "Heads from 2**-149 to 2**127 and tables from 1 down to 2**-140: products that are subnormal, nothing, or "
        "beyond the largest float32.",
    ),
    _recipe("same", "Every row at one position, which is the last."),
    _recipe(
        "sizes",
        "One row and head, primes of both, and the widths of heads that models have; on lanes 2**33 dims.",
        True,
    ),
)

RECIPES: dict[str, NamedRecipe] = {recipe.name: recipe for recipe in _ROWS}
