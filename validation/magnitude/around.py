"""The router and combining at the last tokens of so many that every array has more than 2^32 elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strata.executors.lanes import LanesExecutor
from strata.kernels import combine, router
from strata.kernels.paths import Path
from validation.experts import around
from validation.experts.case import ExpertCase
from validation.magnitude.mapped import Mapped
from validation.magnitude.parts import Part, same
from validation.verdict import Check

#: Tokens, the largest number that the kernels are told in 32 bits but for what fills the last block.
TOKENS = (1 << 31) - router.WARPS
#: Elements of the largest array of combining: its offsets need more than 32 bits in elements too.
_ELEMENTS = 1 << 33


def router_parts(case: ExpertCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """A launch with a warp for each token, of which the last blocks run; and one of a single block, whose warps take
    token after token as those of 65,536 blocks do of more tokens."""

    def ask() -> Check:
        logits = around.logits(case)
        near = router.run(executor, logits, case.top)
        source = Mapped((TOKENS, case.experts), np.float32, "logits")
        source.view()[-case.tokens :] = logits
        ids = Mapped((TOKENS, case.top), np.int32, "ids")
        weights = Mapped((TOKENS, case.top), np.float32, "weights")
        counts = executor.array(np.zeros(2, np.int32), "counts", written=True)
        sizes = (np.int32(TOKENS), np.int32(case.experts), np.int32(case.top))
        grid = -(-TOKENS // router.WARPS)
        first = (TOKENS - case.tokens) // router.WARPS
        executor.launch_end(router.kernel(), (grid, 1, 1), (source, ids, weights, counts, *sizes), first)
        pairs = [
            ("ids", ids.view()[-case.tokens :], near.ids),
            ("weights", weights.view()[-case.tokens :], near.weights),
        ]
        return same("far", pairs, [source, ids, weights, counts])

    def few() -> Check:
        logits = around.logits(case)
        near, one = (router.run(executor, logits, case.top, blocks=blocks) for blocks in (None, 1))
        return same("few blocks", [("ids", one.ids, near.ids), ("weights", one.weights, near.weights)], [])

    return [Part("far", ask), Part("few blocks", few)]


def combine_parts(case: ExpertCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """The last tokens of so many that outputs have more than 2^33 elements."""

    def ask() -> Check:
        data = around.sums(case)
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

    return [Part("far", ask), Part("far ranks", lambda: _ranks(case, executor))]


def _ranks(case: ExpertCase, executor: LanesExecutor) -> Check:
    """One token with rows so long that the second begins beyond 2^31 bytes and the third beyond 2^32 elements; of its
    columns the first are added."""
    columns, some, ranks = (1 << 31) - 4, 4 * combine.THREADS, case.top
    stream = case.stream("far ranks")
    rows, weights = stream.child("rows").normals((1, ranks, some)), stream.child("weights").normals((1, ranks))
    near = combine.run(executor, rows, weights)
    far, out = Mapped((1, ranks, columns), np.float32, "rows"), Mapped((1, columns), np.float32, "out")
    far.view()[..., :some] = rows
    lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
    sizes = (np.int32(1), np.int32(ranks), np.int32(columns))
    args = (far, executor.array(weights, "weights"), None, None, out, lost, *sizes)
    executor.launch(combine.kernel(), (1, 1, 1), args)
    return same("far ranks", [("outputs", out.view()[:, :some], near.out)], [far, out])
