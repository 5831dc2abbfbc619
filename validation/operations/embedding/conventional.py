"""Checks in common use on embeddings: plain blocks, ids of the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels import embedding
from strata.kernels.paths import Path
from validation.core.conventional import Conventional, judge, stream_of
from validation.operations.embedding import inputs, reference

ROWS, WIDTH, VOCAB, FACTOR = 16, 512, 64, 16.0


def _run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    matrix = inputs.matrix(stream_of(seed).child("matrix"), "bell", path.mode, VOCAB, WIDTH)
    ids = stream_of(seed).child("ids").below(VOCAB, ROWS).astype(np.int32)
    due = reference.embed(path.mode, matrix[ids], FACTOR)
    return judge(embedding.run(executor, path.mode, matrix, ids, WIDTH, FACTOR).out, due)


CHECKS = Conventional(_run, flavor="checked")
