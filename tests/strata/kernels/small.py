"""Small attention inputs, ways to change them that must not change the result, and how a result is judged."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from strata.cpus import usable
from strata.executors.base import Executor
from strata.kernels.paths import PATHS, Path
from strata.kernels.pool import Pool
from validation.core.random_streams import Stream
from validation.core.verdict import within
from validation.operations.attention.bound import bound
from validation.operations.attention.kernels import ATTENTION
from validation.operations.attention.pools import Inputs, build
from validation.operations.attention.reference import attend, values
from validation.operations.kv_pack.case import Case

#: Every path that computes attention, by name.
ATTENTION_PATHS = [name for name, path in PATHS.items() if path.operation in ATTENTION]
#: Cells of a small case: one chunk and a piece of the widest kind.
CONTEXT = 101


def make(
    mode: str,
    recipe: str = "signed_decades",
    *,
    seed: int = 1,
    context: int = CONTEXT,
    queries: int = 2,
    page_size: int = 4,
    n_head_kv: int = 2,
    group: int = 12,
) -> Inputs:
    """The inputs of a recipe in a mode, at a small size."""
    return build(Case(recipe, seed, context, queries, page_size, n_head_kv, group), mode)


def prebuild(executor: Executor, wanted: list[tuple[str, int]]) -> None:
    """Compile the kernels of (path name, group), several at once."""
    kernels = []
    for name, group in wanted:
        of = ATTENTION[PATHS[name].operation].kernels
        assert of is not None
        kernels += of(PATHS[name], group)
    with ThreadPoolExecutor(usable()) as workers:
        list(workers.map(executor.build, kernels))


def run(executor: Executor, name: str, inputs: Inputs) -> np.ndarray:
    """float32 [n_q, n_head, 256] of the path `name`; every guard must be intact."""
    path = PATHS[name]
    outcome = ATTENTION[path.operation].run(executor, path, inputs)
    assert outcome.guards_ok
    return outcome.out


def same_bits(one: np.ndarray, two: np.ndarray) -> bool:
    """Whether two float32 arrays have the same shape and bytes."""
    return one.shape == two.shape and np.array_equal(one.view(np.uint32), two.view(np.uint32))


def assert_right(executor: Executor, name: str, inputs: Inputs, out: np.ndarray) -> None:
    """Every output lies within its derived bound of FP64."""
    path: Path = PATHS[name]
    reference = attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, np.arange(len(inputs.q)))
    check = within("bound", out, reference.out, bound(path, inputs, reference, executor))
    assert check.verdict.passes, f"{name}: {check.reason}"


def with_widths(inputs: Inputs, widths: list[int]) -> Inputs:
    """The same queries with other numbers of ids."""
    steps = inputs.steps.copy()
    steps[:, 3] = widths
    return replace(inputs, steps=steps, widths=np.array(widths, dtype=np.int64))


def with_list(inputs: Inputs, ids: np.ndarray) -> Inputs:
    """The same queries, all with the ids of one list."""
    count = len(inputs.q)
    rows = np.ascontiguousarray(np.broadcast_to(ids.astype(np.int32), (count, len(ids))))
    return with_widths(replace(inputs, ids=rows), [len(ids)] * count)


def planes(pool: Pool, change: Callable[[np.ndarray], np.ndarray]) -> Pool:
    """The pool with `change` applied to each array but the table."""

    def scale(x: np.ndarray | None) -> np.ndarray | None:
        return None if x is None else change(x)

    return replace(pool, k=change(pool.k), v=change(pool.v), k_scale=scale(pool.k_scale), v_scale=scale(pool.v_scale))


def pages_moved(pool: Pool, stream: Stream) -> Pool:
    """The same logical content, physical pages in another order."""
    order = stream.permutation(len(pool.k))
    where = np.argsort(order)
    table = np.where(pool.table < 0, -1, where[pool.table]).astype(np.int32)
    return replace(planes(pool, lambda x: x[order]), table=table)


def kv_head(inputs: Inputs, head: int) -> Inputs:
    """One KV head and its query heads alone."""
    group = inputs.q.shape[1] // inputs.pool.n_head_kv
    pool = replace(planes(inputs.pool, lambda x: np.ascontiguousarray(x[:, head : head + 1])), n_head_kv=1)
    return replace(inputs, q=np.ascontiguousarray(inputs.q[:, head * group : (head + 1) * group]), pool=pool)


def _halves(plane: np.ndarray) -> np.ndarray:
    """uint16 view [..., 8] of the scales inside Q4_0 rows [..., 144]."""
    return plane.reshape(*plane.shape[:-1], 8, 18)[..., :2].view(np.uint16)[..., 0]


def change_scales(pool: Pool, plane: str, change: Callable[[np.ndarray], np.ndarray]) -> Pool:
    """The pool with `change` applied to the FP16 numbers that carry the scale of K or V: the scales of
    INT8 and Q4_0 (last axis: 4 or 8 groups), the values themselves of FP16."""
    data, scale = (pool.k, pool.k_scale) if plane == "k" else (pool.v, pool.v_scale)
    if scale is not None:
        new = change(scale)
        return replace(pool, k_scale=new) if plane == "k" else replace(pool, v_scale=new)
    data = data.copy()
    if data.dtype == np.uint8:
        halves = _halves(data)
        halves[...] = change(halves.view(np.float16)).view(np.uint16)
    else:
        data = change(data)
    return replace(pool, k=data) if plane == "k" else replace(pool, v=data)


def times(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    """Multiplies float16 arrays by a power of two or a sign; poison stays NaN."""

    def change(x: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            return np.asarray(x * np.float16(factor))

    return change


def v_values(inputs: Inputs, cells: np.ndarray) -> np.ndarray:
    """float64 [cells, n_head_kv, 256]: V of resident cells, from the definition of the formats."""
    return values(inputs.pool, cells)[1]
