"""The named ways of asking for visible cells."""

from __future__ import annotations

from validation.core.recipe import NamedRecipe

#: The edition of the plans in which the operation came.
EDITION = 4


def _recipe(name: str, motivation: str, far: bool = False) -> NamedRecipe:
    return NamedRecipe(f"cells_{name}", motivation, "visible_cells", EDITION, far)


_ROWS = (
    _recipe("chunk", "Chunks at cell 0, in the middle and of one row; windows of 1, 2 and primes."),
    _recipe("filling", "Chunks in which the window becomes full: rows that see fewer cells, as many, and one more."),
    _recipe("wide", "Windows longer than the context: a row sees all its cells, and the words behind stay."),
    _recipe("parts", "Windows on both sides of what a block writes, and of several blocks."),
    _recipe("beyond", "Cells beyond 2**24, where a float loses them, and the last that an int32 counts."),
    _recipe("far", "A short chunk; on lanes ids beyond 2**32 of them and steps of 2**30 rows.", True),
)

RECIPES: dict[str, NamedRecipe] = {recipe.name: recipe for recipe in _ROWS}
