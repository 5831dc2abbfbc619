"""The derived bound of a path on the inputs of a case, for the executor that ran it, and of the reference.

With R the reference's bound and K the kernel's, both per element: |ref - true| <= R, |new - true| <= K,
so |new - ref| <= K + R.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from strata.cpus import usable
from strata.executors.base import Executor
from strata.executors.lanes import RULES, Rule
from strata.kernels import tiers
from strata.kernels.paths import PATHS, Path
from strata.kernels.pool import HEAD_DIM
from strata.kernels.prompt_attention import cells_per_chunk
from validation.core.memo import Memo
from validation.core.unknown_operation import UnknownOperationError
from validation.numerics.roundoff import WIDENED
from validation.numerics.tensorcore_bound import WIDEST
from validation.numerics.tensorcore_rules import rule_on
from validation.operations.attention.bounds import decode_attention as base_bounds
from validation.operations.attention.bounds import of_reference as reference_bounds
from validation.operations.attention.bounds import prompt_attention as bounds
from validation.operations.attention.bounds.scores import score_error
from validation.operations.attention.bounds.softmax import largest_error
from validation.operations.attention.kernels import ATTENTION
from validation.operations.attention.pools import Inputs
from validation.operations.attention.reference import Reference, terms
from validation.operations.attention.terms import Terms

#: Threads beyond these wait for memory more than they compute; fewer cells than these take less than a thread's start.
THREADS, FEW_CELLS = 8, 4096


def _rows(inputs: Inputs, reference: Reference, limit_of: Callable[[int, int, Terms], np.ndarray]) -> np.ndarray:
    """float64, the shape of reference.out: `limit_of` row, width and terms of each of its queries.

    Wide queries go to several threads: nearly all their time is NumPy's, which lets others run.
    """
    out = np.zeros(reference.out.shape)

    def fill(row: int) -> None:
        query = int(reference.queries[row])
        width = int(inputs.widths[query])
        limit = limit_of(row, width, terms(inputs.q[query], inputs.pool, inputs.ids[query], width))
        out[row] = limit.reshape(out.shape[1:])

    if int(inputs.widths[reference.queries].sum()) < FEW_CELLS:
        for row in range(len(out)):
            fill(row)
    else:
        with ThreadPoolExecutor(min(THREADS, usable())) as workers:
            list(workers.map(fill, range(len(out))))
    return out


def reference_bound(inputs: Inputs, reference: Reference) -> np.ndarray:
    """The largest error that the reference itself may have.

    The exact output is taken to be as large as sum w |V| allows, since it is not known.

    Parameters
    ----------
    inputs
        The inputs of the case.
    reference
        FP64 results on some of the case's queries.

    Returns
    -------
    float64 array
        Of the shape of `reference.out`.
    """

    def limit_of(row: int, width: int, of: Terms) -> np.ndarray:
        largest = reference.magnitude[row].reshape(inputs.pool.n_head_kv, -1, HEAD_DIM) * WIDENED
        return largest_error(of, largest, reference_bounds.rounding(width))

    return _rows(inputs, reference, limit_of)


def kernel_bound(path: Path, inputs: Inputs, reference: Reference, own: np.ndarray, executor: Executor) -> np.ndarray:
    """The largest error that a path may have.

    Parameters
    ----------
    path
        The path.
    inputs
        The inputs of the case.
    reference
        FP64 results on some of the case's queries.
    own
        float64 of the shape of `reference.out`: `reference_bound` of the same inputs.
    executor
        What ran the path, whose tensor core's rule counts.

    Returns
    -------
    float64 array
        Of the shape of `reference.out`.

    Raises
    ------
    UnknownOperationError
        For a path that is not of attention.
    """
    rule: Rule = getattr(executor, "rule", None) or RULES.get(rule_on(executor) or "", WIDEST)

    def limit_of(row: int, width: int, of: Terms) -> np.ndarray:
        scores: np.ndarray | float = 0.0
        chunk = 1
        if path.operation == "prompt_attention":
            chunk = cells_per_chunk(path.mode, path.tier_number)
            rounding, scores = bounds.rounding(path, width, rule), score_error(of, tiers.find(path.tier).fp16.k, rule)
        elif path.operation == "decode_attention":
            rounding = base_bounds.rounding(width)
        else:
            raise UnknownOperationError(path, "bound", ATTENTION)
        largest = (np.abs(reference.out[row]) + own[row]).reshape(inputs.pool.n_head_kv, -1, HEAD_DIM)
        return largest_error(of, largest, rounding + reference_bounds.rounding(width), scores, chunk)

    return _rows(inputs, reference, limit_of)


def bound(path: Path, inputs: Inputs, reference: Reference, executor: Executor) -> np.ndarray:
    """How far a path may be from the reference.

    Parameters
    ----------
    path
        The path.
    inputs
        The inputs of the case.
    reference
        FP64 results on some of the case's queries.
    executor
        What ran the path, whose tensor core's rule counts.

    Returns
    -------
    float64 array
        Of the shape of `reference.out`.

    Raises
    ------
    UnknownOperationError
        For a path that is not of attention.
    """
    own = reference_bound(inputs, reference)
    return np.asarray(kernel_bound(path, inputs, reference, own, executor) + own)


class Limits(NamedTuple):
    """Derived bounds of a case, float64 of the reference's shape.

    Parameters
    ----------
    own
        Of the reference from the true value.
    kernel
        Of the path from the true value.
    path, base
        Of path and baseline from the reference, None where there is no baseline.
    """

    own: np.ndarray
    kernel: np.ndarray
    path: np.ndarray
    base: np.ndarray | None


def limits(
    path: Path, inputs: Inputs, reference: Reference, executor: Executor, memo: Memo, key: Hashable, based: bool = True
) -> Limits:
    """The bounds of a path on the inputs of a case, of which the memo keeps those that its paths share.

    Parameters
    ----------
    path
        The path.
    inputs
        The inputs of the case.
    reference
        FP64 results on some of the case's queries.
    executor
        What ran the path, whose tensor core's rule counts.
    memo
        What keeps bounds that paths share.
    key
        What tells these inputs and this reference from others that the memo may hold.
    based
        Whether the baseline's is asked for as well.

    Raises
    ------
    UnknownOperationError
        For a path that is not of attention.
    """
    own: np.ndarray = memo.get("reference bound", key, lambda: reference_bound(inputs, reference))
    kernel = kernel_bound(path, inputs, reference, own, executor)
    base: np.ndarray | None = None
    if path.baseline and based:
        of = PATHS[path.baseline]
        base = memo.get("baseline bound", (key, of), lambda: kernel_bound(of, inputs, reference, own, executor) + own)
    return Limits(own, kernel, kernel + own, base)
