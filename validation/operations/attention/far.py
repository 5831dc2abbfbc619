"""Attention with its rows at the end of a pool of nearly 2^31 rows, and its queries at the end of 2^29."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from strata.executors.lanes import LanesExecutor
from strata.kernels import attention, decode_attention, prompt_attention
from strata.kernels.attention import Inputs
from strata.kernels.paths import Path
from strata.kernels.pool import Pool, PoolBuffers
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.operations.attention import pools
from validation.operations.attention.kernels import ATTENTION
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.pages import MOST_ROWS
from validation.operations.kv_pack.recipes import find

#: Queries: four 32-bit words of each step record are more bytes than 32 bits count, and so is everything else.
QUERIES = 1 << 29
#: The checks of prompt attention.
NAMES = ("far",)


def prompt(case: Case, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """The last queries of a launch of 2^29; of the KV heads the last one, whose blocks are the last ones."""

    def ask() -> Any:
        inputs, near, buffers = _near(case, path, executor)
        moved, out = _far(executor, inputs, buffers, case.queries)
        program = prompt_attention.kernel(path.mode, path.tier_number, moved.group)
        args = (moved.q, *moved.pool, moved.ids, moved.steps, out, np.int32(moved.cap), np.int32(moved.page_size))
        first = QUERIES * moved.kv_heads - case.queries
        executor.launch_end(program, (QUERIES, moved.kv_heads, 1), args, first)
        heads = slice(-moved.group, None)
        pairs = [("outputs", out.view()[-case.queries :, heads], near[:, heads])]
        return same("far", pairs, [*moved.buffers(), out])

    return [Part("far", ask)]


def decode(case: Case, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """The last queries of 2^29, which the kernels are told by number."""

    def ask() -> Any:
        inputs, near, buffers = _near(case, path, executor)
        moved, out = _far(executor, inputs, buffers, case.queries)
        work = decode_attention.Workspace(executor, buffers)
        chunk, merge = decode_attention.kernels(path.mode, moved.group)
        first = np.int32(QUERIES - case.queries)
        args = (
            moved.q, *moved.pool, moved.ids, moved.steps, work.sums, work.maxima, work.weights,
            np.int32(moved.cap), np.int32(moved.page_size), first,
        )  # fmt: skip
        executor.launch(chunk, (work.chunks, moved.kv_heads, case.queries), args)
        merged = (
            work.sums, work.maxima, work.weights, out, np.int32(moved.kv_heads), np.int32(work.chunks), first,
        )  # fmt: skip
        executor.launch(merge, (moved.kv_heads * moved.group, case.queries, 1), merged)
        return same("far", [("outputs", out.view()[-case.queries :], near)], [*moved.buffers(), out])

    return [Part("far", ask)]


def _near(case: Case, path: Path, executor: LanesExecutor) -> tuple[pools.Inputs, np.ndarray, Inputs]:
    """The case's arrays, the path's output on them, and the buffers that it takes."""
    inputs = pools.build(case, path.mode)
    near = ATTENTION[path.operation].run(executor, path, inputs).out
    return inputs, near, attention.prepare(executor, inputs.q, inputs.pool, inputs.ids, inputs.steps)


def _far(executor: LanesExecutor, inputs: pools.Inputs, near: Inputs, queries: int) -> tuple[Inputs, Mapped]:
    """The same at the far end of larger buffers, and room for the output."""

    def last(host: np.ndarray, name: str) -> Mapped:
        made = Mapped((QUERIES, *host.shape[1:]), host.dtype, name)
        made.view()[-queries:] = host
        return made

    out = Mapped((QUERIES, *inputs.q.shape[1:]), np.float32, "out")
    q, ids, steps = (last(getattr(inputs, name), name) for name in ("q", "ids", "steps"))
    return near._replace(q=q, pool=far_pool(executor, inputs.pool), ids=ids, steps=steps), out


def far_pool(executor: LanesExecutor, pool: Pool) -> PoolBuffers:
    """A pool's pages as the last ones of as many rows as a pool may have, and its table of them."""
    pages = (MOST_ROWS - 1) // (pool.n_head_kv * pool.page_size)
    shift = pages - len(pool.k)

    def last(plane: np.ndarray | None, name: str) -> Mapped | None:
        if plane is None:
            return None
        made = Mapped((pages, *plane.shape[1:]), plane.dtype, name)
        made.view()[shift:] = plane
        return made

    k, v = last(pool.k, "k pool"), last(pool.v, "v pool")
    assert k is not None
    assert v is not None
    table = executor.array(np.where(pool.table >= 0, pool.table + shift, -1).astype(np.int32), "page table")
    return PoolBuffers(k, last(pool.k_scale, "k scales"), v, last(pool.v_scale, "v scales"), table)


def names(recipe: str) -> tuple[str, ...]:
    """The checks that cases of a recipe are asked on lanes."""
    return NAMES if find(recipe).far else ()
