"""What a case of fused experts is asked: the names of its checks, from what its recipe and its ids are."""

from __future__ import annotations

import numpy as np

from strata.kernels.paths import Path
from validation.core.recordable import Checks
from validation.operations.experts import activations, far
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.checks import as_published, ordinary
from validation.operations.experts.kernels import forced_shapes
from validation.operations.experts.recipes import Routing, Values, find
from validation.operations.experts.repeats import CUT_ON_LANES, shape_name
from validation.operations.experts.sampling import work

#: Checks that compare with a bound.
BOUNDED = ("gate", "up", "down", "bound", "baseline bound")
TIMED = ("timed new", "timed old")
#: Asked where a row's every step is finite.
_STEPS = ("gate", "up", "h", "down", "bound", "self", "self bits")
_BITS = ("bits", "bits of gate", "bits of up", "bits of h", "bits of the scales of h")
_RAN = ("written", "guards", "witness", "images", "grouping", "ignored")
_LOST = ("lost x", "lost h", "lost out")
_BASELINE_BITS = ("baseline bits", "baseline bits of h", "baseline bits of the scales of h")
_PUBLISHED = ("published rms", "published worst row", "published rms ratio", "published worst row ratio")


def asked(path: Path, case: ExpertCase, named: np.ndarray, card: bool) -> Checks:
    """What a case is asked on a path.

    named: bool [tokens, top], whether an id is an expert's; card: whether it ran on one.
    """
    recipe = find(case.recipe)
    strays, some = not named.all(), bool(named.any())
    again = {"repeat", *(shape_name(shape) for shape in forced_shapes(case))}
    other = "sm80" if path.tier == "sm75" else "sm75"
    together: list[tuple[str, ...]] = [TIMED, (f"as {other}",)]
    together += [("prediction",)] if card else []
    if case.tokens > 1 and (card or work(case, case.pairs) <= CUT_ON_LANES):
        again.add("in parts")
    needed = {"data", *_RAN, *again, *(f"{name} run" for name in again), *_LOST}
    needed |= set(() if card else far.names(case.recipe))
    if strays:
        needed |= {"nobody's rows", "baseline refuses"}
    else:
        needed |= {f"baseline {name}" for name in _RAN} | set(_BASELINE_BITS)
    if some:
        needed |= set(_BITS)
    if _broken(case, named):
        needed.add("broken rows")
    compared = [_STEPS]
    if not strays:
        compared.append(("baseline bound", *(_PUBLISHED if as_published(case) else ())))
    # Where values may leave the range of float32 on the way, FP64 says nothing of a row, and none may be left.
    if not ordinary(case) or recipe.routing is Routing.NOBODY:
        together += compared
    else:
        needed |= {name for group in compared for name in group}
    whole = int(named.sum()) * case.n
    return Checks(frozenset(needed), tuple(together), frozenset(BOUNDED), ("bits",), whole)


def _broken(case: ExpertCase, named: np.ndarray) -> bool:
    """Whether a token that is not finite names an expert."""
    if find(case.recipe).values is not Values.BROKEN:
        return False
    x = activations.draw(case.stream("x"), Values.BROKEN, case.tokens, case.n)
    return bool((named & ~np.isfinite(x).all(axis=1)[:, None]).any())
