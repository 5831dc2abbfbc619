"""Checks in common use on the router: logits uniform in [-1, 1]."""

from __future__ import annotations

from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels import router
from strata.kernels.paths import Path
from validation.core.conventional import Conventional, judge, stream_of, uniform
from validation.operations.router import reference

TOKENS, LOGITS, RANKS = 16, 64, 8


def _run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    """Weights at their experts, [TOKENS, LOGITS], zeros elsewhere, and what they must come to."""
    logits = uniform(stream_of(seed).child("logits"), (TOKENS, LOGITS))
    due = reference.route(logits, RANKS)
    got = router.run(executor, logits, RANKS)
    sides = []
    for ids, values in ((np.clip(got.ids, 0, LOGITS - 1), got.weights), (due.ids, due.weights)):
        wide = np.zeros(logits.shape)
        np.put_along_axis(wide, ids.astype(np.int64), values.astype(np.float64), axis=1)
        sides.append(wide)
    return judge(sides[0], sides[1])


CHECKS = Conventional(_run, flavor="checked")
