"""The router at the last tokens of so many that every array has more than 2^32 elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strata.executors.lanes import LanesExecutor
from strata.kernels import router
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.core.verdict import Check
from validation.operations.experts.case import ExpertCase
from validation.operations.router import inputs

#: Tokens, the largest number that the kernels are told in 32 bits but for what fills the last block.
TOKENS = (1 << 31) - router.WARPS
#: Tokens that the most blocks of a launch take before each warp takes a further one.
TURN = (1 << 16) * router.WARPS
#: Seconds that a few blocks never take.
ENDLESS_S = 30.0


def parts(case: ExpertCase, executor: LanesExecutor) -> Sequence[Part]:
    """A launch with a warp for each token, of which the last blocks run; one of a single block, whose warps take
    token after token; and one of 65,536 blocks, the most there are, whose last take two turns."""

    def ask() -> Check:
        logits = inputs.logits(case)
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
        logits = inputs.logits(case)
        near, one = (router.run(executor, logits, case.top, blocks=blocks) for blocks in (None, 1))
        return same("few blocks", [("ids", one.ids, near.ids), ("weights", one.weights, near.weights)], [])

    def turns() -> Check:
        logits = inputs.logits(case)
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
