"""Embeddings of the last rows of a matrix, and at the last tokens, of so many that 32 bits do not hold their places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from strata.executors.lanes import LanesExecutor
from strata.formats import device_table
from strata.kernels import embedding
from strata.kernels.embedding import GROUP, HALVES, THREADS
from strata.kernels.paths import Path
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.core.verdict import Check
from validation.operations.embedding import inputs
from validation.operations.embedding.case import EmbeddingCase, values_of_block

#: Tokens and rows of a matrix at most; how many are looked at.
_MOST, _ROWS = (1 << 31) - 1, 3


def parts(case: EmbeddingCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """The last rows of the largest matrix, and the last of the most tokens."""
    rows = {"far ids": _ROWS, "far rows": _MOST}
    return [Part(name, partial(_far, case, path, executor, name, count)) for name, count in rows.items()]


def _far(case: EmbeddingCase, path: Path, executor: LanesExecutor, name: str, rows: int) -> Check:
    """Tokens `rows`, of which the last take the last rows of the matrix."""
    mode, width = path.mode, values_of_block(path.mode)
    data = inputs.matrix(case.stream(name, mode), "bell", mode, _ROWS, width)
    ids = np.arange(_ROWS, dtype=np.int32)[::-1].copy()
    near = embedding.run(executor, mode, data, ids, width, 1.5)
    matrix = Mapped((_MOST, data.shape[1]), np.uint8, "blocks")
    matrix.view()[-_ROWS:] = data
    words = np.empty(0, np.uint32) if mode == HALVES else device_table(mode)
    table = executor.array(words, "table") if words.size else None
    far_ids, out = Mapped((rows,), np.int32, "ids"), Mapped((rows, width), np.float32, "out")
    far_ids.view()[-_ROWS:] = ids + np.int32(_MOST - _ROWS)
    lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
    first = (rows - _ROWS) * (width // GROUP) // THREADS
    sizes = (np.int32(rows), np.int32(width), np.int32(data.shape[1]), np.int32(_MOST), np.float32(1.5))
    grid = (embedding.blocks_of(rows, width), 1, 1)
    executor.launch_end(embedding.kernel(mode), grid, (matrix, table, far_ids, out, lost, *sizes), first)
    buffers = [buffer for buffer in (matrix, table, far_ids, out, lost) if buffer is not None]
    return same(
        name, [("values", out.view()[-_ROWS:], near.out), ("lost", lost.host(), np.zeros(1, np.int32))], buffers
    )
