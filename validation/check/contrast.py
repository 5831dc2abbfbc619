"""Which sizes fail: one condition that tells the failing cases from the passing ones, where there is such a one.

Most faults of indices and masks show at some sizes alone. The cases of one recipe differ in their sizes, so the sizes
at which they fail often say where to look: `blocks > 4 and blocks % 4 != 0` is the end of a row that is not whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from validation.check.case import parse
from validation.check.own_kernel import OwnKernel
from validation.core.verdict import Verdict

#: Cases that must fail, and cases that must pass, before a condition says anything.
_LEAST = 2
#: Conditions on a size `{0}` by a tile constant `{1}`, the simplest first.
_CONDITIONS: dict[str, Callable[[int, int], bool]] = {
    "{0} > {1}": lambda size, tile: size > tile,
    "{0} <= {1}": lambda size, tile: size <= tile,
    "{0} % {1} != 0": lambda size, tile: size % tile != 0,
    "{0} % {1} == 0": lambda size, tile: size % tile == 0,
    "{0} > {1} and {0} % {1} != 0": lambda size, tile: size > tile and size % tile != 0,
}


def contrast(kernel: OwnKernel, results: Sequence[Mapping[str, Any]]) -> str:
    """One line about the sizes that fail.

    Parameters
    ----------
    kernel : OwnKernel
        Whose cases they are.
    results : sequence of mapping
        Results of cases, with `case`, `recipe` and `verdict`.

    Returns
    -------
    str
        The simplest condition on one size under which all cases of a recipe fail, and under whose opposite all pass;
        of the recipe that has the most cases. Empty where there is none, and where fewer than two cases of either
        kind would speak for it.
    """
    ran = [one for one in results if one["verdict"] != Verdict.NOT_RUN.value]
    if not ran:
        return ""
    recipe = Counter(one["recipe"] for one in ran).most_common(1)[0][0]
    own = {one["case"]: Verdict(one["verdict"]).passes for one in ran if one["recipe"] == recipe}
    fates = [(parse(text, kernel).by_name, passes) for text, passes in own.items()]
    failed = sum(not passes for _, passes in fates)
    if failed < _LEAST or len(fates) - failed < _LEAST:
        return ""
    tiles = [(name, tile) for name, size in kernel.sizes.items() for tile in (1, *size.tiles)]
    for words, holds in _CONDITIONS.items():
        for name, tile in tiles:
            if all(holds(sizes[name], tile) != passes for sizes, passes in fates):
                said = words.format(name, tile)
                return f"of {len(fates)} cases of {recipe} those fail that have {said}, and no other"
    return ""
