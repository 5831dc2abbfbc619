"""The derived bound of a path on the inputs of a case, for the executor that ran it."""

from __future__ import annotations

import numpy as np

from strata.executors.base import Executor
from strata.executors.lanes import RULES, Rule
from strata.kernels.paths import Path
from strata.kernels.pool import HEAD_DIM
from validation.bounds import decode_attention as base_bounds
from validation.bounds import prompt_attention as bounds
from validation.bounds.softmax import largest_error
from validation.bounds.tensor_core import WIDEST
from validation.pools import Inputs
from validation.predict import rule_on
from validation.reference.prompt_attention import Reference, terms


def bound(path: Path, inputs: Inputs, reference: Reference, executor: Executor) -> np.ndarray:
    """float64, the shape of reference.out: the largest error that `path` may have on `executor`."""
    rule: Rule = getattr(executor, "rule", None) or RULES.get(rule_on(executor) or "", WIDEST)
    out = np.zeros(reference.out.shape)
    for index, query in enumerate(reference.queries.tolist()):
        width = int(inputs.widths[query])
        if path.operation == "prompt_attention":
            rounding = bounds.rounding(path, width, rule)
        else:
            rounding = base_bounds.rounding(width)
        of = terms(inputs.q[query], inputs.pool, inputs.ids[query], width)
        exact = reference.out[index].reshape(inputs.pool.n_head_kv, -1, HEAD_DIM)
        out[index] = largest_error(of, exact, rounding).reshape(out.shape[1:])
    return out
