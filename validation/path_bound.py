"""The derived bound of a path on the inputs of a case, for the executor that ran it, and of the reference.

With R the reference's bound and K the kernel's, both per element: |ref - true| <= R, |new - true| <= K,
so |new - ref| <= K + R.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from strata.executors.base import Executor
from strata.executors.lanes import RULES, Rule
from strata.kernels.paths import Path
from strata.kernels.pool import HEAD_DIM
from strata.kernels.prompt_attention import cells_per_chunk
from validation.bounds import decode_attention as base_bounds
from validation.bounds import prompt_attention as bounds
from validation.bounds import reference as reference_bounds
from validation.bounds.scores import score_error
from validation.bounds.softmax import WIDENED, Terms, largest_error
from validation.bounds.tensor_core import WIDEST
from validation.pools import Inputs
from validation.predict import rule_on
from validation.reference.prompt_attention import Reference, terms


def _terms(inputs: Inputs, reference: Reference) -> Iterator[tuple[int, int, Terms]]:
    """Row of the reference, width and terms of each of its queries."""
    for row, query in enumerate(reference.queries.tolist()):
        width = int(inputs.widths[query])
        yield row, width, terms(inputs.q[query], inputs.pool, inputs.ids[query], width)


def reference_bound(inputs: Inputs, reference: Reference) -> np.ndarray:
    """float64, the shape of reference.out: the largest error that the reference itself may have.

    The exact output is taken to be as large as sum w |V| allows, since it is not known.
    """
    out = np.zeros(reference.out.shape)
    for row, width, of in _terms(inputs, reference):
        largest = reference.magnitude[row].reshape(inputs.pool.n_head_kv, -1, HEAD_DIM) * WIDENED
        out[row] = largest_error(of, largest, reference_bounds.rounding(width)).reshape(out.shape[1:])
    return out


def kernel_bound(path: Path, inputs: Inputs, reference: Reference, own: np.ndarray, executor: Executor) -> np.ndarray:
    """float64, the shape of reference.out: the largest error that `path` may have on `executor`.

    own: `reference_bound` of the same inputs.
    """
    rule: Rule = getattr(executor, "rule", None) or RULES.get(rule_on(executor) or "", WIDEST)
    out = np.zeros(reference.out.shape)
    for row, width, of in _terms(inputs, reference):
        scores: np.ndarray | float = 0.0
        chunk = 1
        if path.operation == "prompt_attention":
            chunk = cells_per_chunk(path.mode, int(path.tier.removeprefix("sm")))
            rounding, scores = bounds.rounding(path, width, rule), score_error(of, bounds.PRODUCTS[path.tier], rule)
        else:
            rounding = base_bounds.rounding(width)
        largest = (np.abs(reference.out[row]) + own[row]).reshape(inputs.pool.n_head_kv, -1, HEAD_DIM)
        limit = largest_error(of, largest, rounding + reference_bounds.rounding(width), scores, chunk)
        out[row] = limit.reshape(out.shape[1:])
    return out


def bound(path: Path, inputs: Inputs, reference: Reference, executor: Executor) -> np.ndarray:
    """float64, the shape of reference.out: how far `path` on `executor` may be from the reference."""
    own = reference_bound(inputs, reference)
    return np.asarray(kernel_bound(path, inputs, reference, own, executor) + own)
