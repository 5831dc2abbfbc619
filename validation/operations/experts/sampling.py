"""Which pairs of a case are computed again: all of a small one, some of every expert of a large one."""

from __future__ import annotations

import numpy as np

from validation.core.random_streams import Stream
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import Inputs

#: Multiply-adds up to which every pair is predicted bit for bit, and up to which every one has an FP64 reference.
PREDICTED = 1 << 34
REFERENCED = 1 << 31
#: Pairs of an expert that are taken of larger cases: the first, the last and one between.
_OF_EXPERT = 3


def work(case: ExpertCase, pairs: int) -> int:
    """Multiply-adds of so many pairs."""
    return 3 * pairs * case.n * case.ff


def modelled(case: ExpertCase, data: Inputs, everything: bool) -> tuple[np.ndarray, bool]:
    """Pairs whose bits are predicted, sorted, and whether they are all that name an expert."""
    named = np.flatnonzero(data.named)
    if everything or work(case, len(named)) <= PREDICTED:
        return named, True
    return _some(case.stream("modelled"), data, named), False


def referenced(case: ExpertCase, data: Inputs, pairs: np.ndarray) -> np.ndarray:
    """Of `pairs` the sound ones that are held against FP64, sorted; whole tokens among them where all are taken."""
    kept = pairs[data.sound.reshape(-1)[pairs]]
    if work(case, len(kept)) <= REFERENCED:
        return np.asarray(kept)
    some = _some(case.stream("referenced"), data, kept)
    most = max(REFERENCED // work(case, 1), 1)
    first = kept[: data.top]  # a whole token, for the battery
    return np.asarray(np.union1d(first, some[:: max(len(some) // most, 1)]))


def _some(stream: Stream, data: Inputs, pairs: np.ndarray) -> np.ndarray:
    """A few pairs of every expert that has any."""
    ids = data.ids.reshape(-1)[pairs]
    order = np.argsort(ids, kind="stable")
    edges = np.searchsorted(ids[order], np.unique(ids))
    found = []
    for first, end in zip(edges.tolist(), [*edges.tolist()[1:], len(ids)], strict=True):
        between = first + int(stream.child(first).below(end - first, ()))
        found += [order[first], order[end - 1], order[between]]
    assert len(found) == _OF_EXPERT * len(edges)
    return np.unique(pairs[np.array(found)])
