"""Checks in common use on attention: K, V and q uniform in [-1, 1], cells in order, widths of whole tiles.

The comparison is with FP64 on the packed values, as such checks do it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels.paths import Path
from strata.kernels.pool import HEAD_DIM
from validation.core.conventional import Conventional, judge, stream_of, uniform
from validation.operations.attention import selection
from validation.operations.attention.kernels import ATTENTION
from validation.operations.attention.pools import Inputs
from validation.operations.attention.reference import attend
from validation.operations.kv_pack import conventional as packing
from validation.operations.kv_pack.case import TOP
from validation.operations.kv_pack.conventional import CELLS, KV_HEADS

QUERIES, GROUP = 4, 12


def _run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    stream = stream_of(seed)
    pool = packing.pool(packing.friendly(stream), path.mode)
    n_kv = np.full(QUERIES, CELLS, dtype=np.int64)
    ids = selection.id_lists(stream.child("ids"), n_kv, n_kv, TOP, CELLS)
    q = uniform(stream.child("q"), (QUERIES, KV_HEADS * GROUP, HEAD_DIM))
    inputs = Inputs(q, pool, ids, selection.step_records(n_kv, n_kv), n_kv)
    out = ATTENTION[path.operation].run(executor, path, inputs).out
    return judge(out, attend(inputs.q, pool, ids, inputs.steps, np.arange(QUERIES)).out)


CHECKS = Conventional(_run)
