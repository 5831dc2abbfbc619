"""Whether the bounds of a run could have refused wrong numbers: a bound that is far too wide passes anything.

An element is held closely when a change of it by one part in sixteen would be refused. A float of sixteen bits has
eleven of them, so that a bound wider than that takes seven of its bits, or twenty of a float32's, for roundings; and
zeros, and another sign, are further off than a sixteenth.

Where terms cancel, an honest bound may be wider than the result; so no single case decides, and elements whose
reference is zero, or subnormal in the output's type, are not counted. But the data of a run cancel in a few cases
alone: a run is void where in most of its cases most elements are not held closely. Cases of which that is so are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from validation.check.arrays import EXPONENTS
from validation.check.judgement import Due
from validation.check.recipes import RECIPES

#: One part in so many of an element is the change that must be refused.
PARTS = 16
#: The share of elements that are most of them.
MOST = 0.5
#: Recipes that a line names at most.
_NAMED = 6
#: The figure of a case's check of its own questions.
FIGURE = "held closely"


def held_closely(due: Due) -> float | None:
    """The share of an output's elements that are held closely; None where no element counts."""
    size = np.abs(due.reference)
    counts = due.number & (size >= 2.0 ** EXPONENTS[due.dtype][0])
    if not counts.any():
        return None
    return float((due.limit[counts] < size[counts] / PARTS).mean())


def nonzero(due: np.ndarray) -> float | None:
    """The share of an integer output's elements that are not zero, which its bits hold; None for none."""
    return float((due != 0).mean()) or None


def _shares(results: Sequence[Mapping[str, Any]], name: str) -> list[tuple[str, float]]:
    """The recipes of the cases of a run, with what they have as the figure of an output's check."""
    return [
        (str(result["recipe"]), float(share))
        for result in results
        for check in result["checks"]
        if check["name"] == name and (share := check["figures"].get(FIGURE)) is not None
    ]


def blind(results: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> dict[str, str]:
    """The outputs whose bound could refuse too little, with a line on each.

    Parameters
    ----------
    results : sequence
        The cases of a run.
    names : mapping
        The float outputs, and the names of the checks that have the figure.

    Returns
    -------
    dict of str to str
        By output. Nothing of one where no case got as far as that check.
    """
    found = {}
    for output, name in names.items():
        if not any(check["name"] == name for result in results for check in result["checks"]):
            continue
        shares = [share for _, share in _shares(results, name)]
        if not shares:
            found[output] = f"the reference of {output} is zero or subnormal in every case: no bound could refuse much"
        elif float(np.median(shares)) < MOST:
            held = sum(share >= MOST for share in shares)
            found[output] = (
                f"the bound of {output} could not refuse a change by one part in {PARTS} of most elements in "
                f"{len(shares) - held} of {len(shares)} cases: it is too wide to say that the kernel is right"
            )
    return found


def doubtful(results: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[str]:
    """Lines on the cases in which the bound of an output could not refuse such a change of most elements."""
    said = []
    for output, name in names.items():
        shares = _shares(results, name)
        wide = [recipe for recipe, share in shares if share < MOST]
        if wide:
            named = list(dict.fromkeys(wide))
            more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
            said.append(
                f"in {len(wide)} of {len(shares)} cases the bound of {output} is so wide that it could not refuse a "
                f"change by one part in {PARTS} of most elements ({', '.join(named[:_NAMED])}{more}): there a kernel "
                "that is wrong may pass"
            )
    return said


def idle(results: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """A line on the recipes whose cases test nearly nothing: of no output there is an element that is held closely.

    names: of the checks that have the figure, of all outputs. Empty where there is no such recipe; recipes of what is
    not finite, or subnormal, ask another question.
    """
    recipes: dict[str, bool] = {}
    for result in results:
        recipe = str(result["recipe"])
        asked = [check for check in result["checks"] if check["name"] in names]
        if asked and RECIPES[recipe].finite and recipe != "subnormals":
            held = any((check["figures"].get(FIGURE) or 0.0) > 0 for check in asked)
            recipes[recipe] = recipes.get(recipe, False) or held
    found = [recipe for recipe, held in recipes.items() if not held]
    if not found:
        return ""
    return f"nearly nothing is tested by {', '.join(found)}: every reference is zero, or hardly larger than its bound"
