"""The named ways of making elements."""

from __future__ import annotations

from validation.core.recipe import NamedRecipe

#: The edition of the plans in which the operations came.
EDITION = 4


def _recipe(operation: str, name: str, motivation: str, far: bool = False) -> NamedRecipe:
    return NamedRecipe(f"{operation}_{name}", motivation, operation, EDITION, far)


_SIZES = (
    "Counts on both sides of what a thread takes and of a block's, few of them multiples of 4; on lanes more than "
    "2**33 elements."
)
_BROKEN = "NaN of several payloads and infinities in either operand, among elements that must keep their bits."

_ROWS = (
    _recipe("gated", "bell", "Gates about as large as those of models, and rows of ups of sizes of their own."),
    _recipe(
        "gated",
        "ladder",
        "Gates of both signs from 2**-149 to 2**127, whose squares vanish, are subnormal and overflow, with ups so "
        "small or large that products count: an activation goes over all its thresholds to 0 and to its gate.",
    ),
    _recipe(
        "gated",
        "edges",
        "Gates whose exponential is at 2**-126, 2**128, at a half between two powers and at 1, from one float32 step "
        "beside the edge to hundreds, of either activation; ups so large behind shut gates that subnormal ones count.",
    ),
    _recipe(
        "gated", "zeros", "Zeros of both signs and subnormal numbers in gates, in ups and in both: signs are kept."
    ),
    _recipe("gated", "broken", _BROKEN),
    _recipe("gated", "sizes", _SIZES, far=True),
    _recipe("softcap", "bell", "Values about as large as the cap: everything between a line and the cap itself."),
    _recipe(
        "softcap",
        "ladder",
        "Values of both signs from 2**-149 to 2**127, under caps at both ends of their range: quotients that are "
        "subnormal and that overflow, outputs of zero, which keep their sign, and outputs of the cap.",
    ),
    _recipe(
        "softcap",
        "edges",
        "Values at which the exponential is 2**-126, is lost beside 1, is the first below 1, and is at a half between "
        "two powers, from one float32 step beside the edge to hundreds.",
    ),
    _recipe("softcap", "broken", _BROKEN),
    _recipe("softcap", "sizes", _SIZES, far=True),
    _recipe(
        "residual", "bell", "Rows of sizes of their own over decades: every share of the smaller operand is rounded."
    ),
    _recipe(
        "residual",
        "cancelling",
        "The same number with the other sign, or a few float32 steps beside it: sums are exact, zeros are +0.",
    ),
    _recipe(
        "residual",
        "ends",
        "Zeros of both signs, subnormal numbers, ties at half a step, and the largest numbers, whose sum overflows or "
        "is just finite.",
    ),
    _recipe("residual", "broken", _BROKEN),
    _recipe("residual", "sizes", _SIZES, far=True),
)

RECIPES: dict[str, NamedRecipe] = {recipe.name: recipe for recipe in _ROWS}


def of(operation: str) -> list[NamedRecipe]:
    """The recipes of an operation, in table order."""
    return [recipe for recipe in _ROWS if recipe.operation == operation]
