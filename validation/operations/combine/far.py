"""Combining at the last tokens of so many that every array has more than 2^32 elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from strata.executors.lanes import LanesExecutor
from strata.kernels import combine
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.core.verdict import Check
from validation.operations.combine.inputs import sums
from validation.operations.experts.case import ExpertCase

#: Elements of the largest array: its offsets need more than 32 bits in elements too.
_ELEMENTS = 1 << 33


def parts(case: ExpertCase, executor: LanesExecutor) -> Sequence[Part]:
    """The last tokens of so many that outputs have more than 2^33 elements."""

    def ask() -> Check:
        data = sums(case)
        near = combine.run(executor, data.rows, data.weights, data.shared, data.gate)
        tokens = -(-_ELEMENTS // case.n) + case.tokens

        def last(host: np.ndarray | None, name: str) -> Mapped | None:
            if host is None:
                return None
            made = Mapped((tokens, *host.shape[1:]), host.dtype, name)
            made.view()[-case.tokens :] = host
            return made

        held = [
            last(getattr(data, field), name)
            for field, name in (("rows", "rows"), ("weights", "weights"), ("shared", "shared"), ("gate", "shared_gate"))
        ]
        out = Mapped((tokens, case.n), np.float32, "out")
        lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
        items = tokens * (case.n // 4)
        first = (tokens - case.tokens) * (case.n // 4) // combine.THREADS
        sizes = (np.int32(tokens), np.int32(case.top), np.int32(case.n))
        grid = -(-items // combine.THREADS)
        executor.launch_end(combine.kernel(), (grid, 1, 1), (*held, out, lost, *sizes), first)
        buffers = [buffer for buffer in (*held, out, lost) if buffer is not None]
        return same("far", [("outputs", out.view()[-case.tokens :], near.out)], buffers)

    ranks = [Part(name, partial(_ranks, case, executor, name)) for name in ("far ranks", "far columns")]
    return [Part("far", ask), *ranks]


def _ranks(case: ExpertCase, executor: LanesExecutor, name: str) -> Check:
    """One token with rows so long that the second begins beyond 2^31 bytes and the third beyond 2^32 elements; of its
    columns those of the first block are added, or those of the last."""
    columns, ranks = (1 << 31) - 4, case.top
    grid, last = -(-columns // 4 // combine.THREADS), name == "far columns"
    some = columns - 4 * combine.THREADS * (grid - 1) if last else 4 * combine.THREADS
    here = slice(columns - some, columns) if last else slice(some)
    stream = case.stream(name)
    data = {part: stream.child(part).normals(shape) for part, shape in _shapes(ranks, some).items()}
    near = combine.run(executor, *data.values())
    far = {part: Mapped((*data[part].shape[:-1], columns), np.float32, part) for part in ("rows", "shared")}
    for part, buffer in far.items():
        buffer.view()[..., here] = data[part]
    out = Mapped((1, columns), np.float32, "out")
    lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
    weights, gate = (executor.array(data[part], part) for part in ("weights", "shared_gate"))
    args = (far["rows"], weights, far["shared"], gate, out, lost, np.int32(1), np.int32(ranks), np.int32(columns))
    if last:
        executor.launch_end(combine.kernel(), (grid, 1, 1), args, grid - 1)
    else:
        executor.launch(combine.kernel(), (1, 1, 1), args)
    return same(name, [("outputs", out.view()[:, here], near.out)], [*far.values(), out, lost])


def _shapes(ranks: int, columns: int) -> dict[str, tuple[int, ...]]:
    """Shapes of what one token's sum takes, in the order of `combine.run`."""
    return {"rows": (1, ranks, columns), "weights": (1, ranks), "shared": (1, columns), "shared_gate": (1,)}
