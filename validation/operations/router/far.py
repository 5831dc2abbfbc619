"""The router and combining at the last tokens of so many that every array has more than 2^32 elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from strata.executors.lanes import LanesExecutor
from strata.kernels import combine, router
from strata.kernels.paths import Path
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.core.verdict import Check
from validation.operations.experts.case import ExpertCase
from validation.operations.router import inputs as around

#: Tokens, the largest number that the kernels are told in 32 bits but for what fills the last block.
TOKENS = (1 << 31) - router.WARPS
#: Elements of the largest array of combining: its offsets need more than 32 bits in elements too.
_ELEMENTS = 1 << 33
#: Tokens that the most blocks of a launch take before each warp takes a further one.
TURN = (1 << 16) * router.WARPS
#: Seconds that a few blocks never take.
ENDLESS_S = 30.0


def router_parts(case: ExpertCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """A launch with a warp for each token, of which the last blocks run; one of a single block, whose warps take
    token after token; and one of 65,536 blocks, the most there are, whose last take two turns."""

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

    def turns() -> Check:
        logits = around.logits(case)
        halves = (logits, logits[::-1])
        near = [router.run(executor, np.ascontiguousarray(half), case.top) for half in halves]
        ends = [slice(TURN - case.tokens, TURN), slice(2 * TURN - case.tokens, 2 * TURN)]
        source = Mapped((2 * TURN, case.experts), np.float32, "logits")
        for end, half in zip(ends, halves, strict=True):
            source.view()[end] = half
        ids = Mapped((2 * TURN, case.top), np.int32, "ids")
        weights = Mapped((2 * TURN, case.top), np.float32, "weights")
        counts = executor.array(np.zeros(2, np.int32), "counts", written=True)
        sizes = (np.int32(2 * TURN), np.int32(case.experts), np.int32(case.top))
        first = (TURN - case.tokens) // router.WARPS
        with source.readable_for(ENDLESS_S):
            grid = (TURN // router.WARPS, 1, 1)
            executor.launch_end(router.kernel(), grid, (source, ids, weights, counts, *sizes), first)
        pairs = []
        for turn, end, due in zip(("first", "second"), ends, near, strict=True):
            pairs += [
                (f"ids of the {turn} turn", ids.view()[end], due.ids),
                (f"weights of the {turn} turn", weights.view()[end], due.weights),
            ]
        return same("most blocks", pairs, [source, ids, weights, counts])

    return [Part("far", ask), Part("few blocks", few), Part("most blocks", turns)]


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
