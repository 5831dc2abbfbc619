"""What checks in common use say of the sources it is imported from: NMSE <= 5e-4, and allclose(1e-2), or of experts the
limits of their published test (`usual_experts`).

A program of its own, like `quick`. One friendly case a path: K, V and q uniform in [-1, 1], cells in order, every
page resident, widths of whole tiles. The comparison is with FP64 on the packed values, as such checks do.
"""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import argparse
import json
import sys
from typing import Any

import numpy as np

from strata.arguments import whole
from strata.command import command
from strata.executors import NAMES, open_executor
from strata.executors.base import Executor
from strata.kernels import kv_pack
from strata.kernels.paths import Path, select
from strata.kernels.pool import HEAD_DIM, MODE_FORMATS, Pool
from strata.kernels.registry import taking
from validation.core.random_streams import Stream
from validation.mutants import conventional_checks_experts
from validation.operations.attention import selection
from validation.operations.attention.kernels import ATTENTION
from validation.operations.attention.pools import Inputs
from validation.operations.attention.reference import attend, values
from validation.operations.kv_pack import planes
from validation.operations.kv_pack.case import TOP
from validation.operations.kv_pack.packing import ROTATED
from validation.operations.kv_pack.pages import page_table, place
from validation.operations.kv_pack.recipes import Pages
from validation.operations.kv_pack.reference import hadamard32

#: The two limits. The first is that of a widespread backend test, the second a customary pair of rtol and atol.
NMSE = 5e-4
CLOSE = 1e-2

CELLS, QUERIES, PAGE, KV_HEADS, GROUP = 256, 4, 16, 2, 12
_GRID_BITS = 16


def judge(got: np.ndarray, want: np.ndarray) -> dict[str, Any]:
    """nmse: sum of squared errors over that of `want`, None when not finite; which of the two checks pass."""
    with np.errstate(all="ignore"):
        nmse = float(np.square(got.astype(np.float64) - want).sum() / np.square(want).sum())
        close = bool(np.allclose(got, want, rtol=CLOSE, atol=CLOSE))
    known = bool(np.isfinite(nmse))
    return {"nmse": nmse if known else None, "nmse_passes": known and nmse <= NMSE, "allclose_passes": close}


def uniform(stream: Stream, shape: tuple[int, ...]) -> np.ndarray:
    """float32 multiples of 2**-15 in [-1, 1)."""
    return ((stream.below(1 << _GRID_BITS, shape) - (1 << _GRID_BITS - 1)) / (1 << _GRID_BITS - 1)).astype(np.float32)


def run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    """Both checks on one path."""
    stream = Stream.of(seed, "usual")
    if path.operation in taking("experts"):
        x = uniform(stream.child("x"), (conventional_checks_experts.TOKENS, conventional_checks_experts.N))
        got, want = conventional_checks_experts.rows(path, executor, x, seed)
        said = judge(got, want)
        if path.operation in conventional_checks_experts.LIMITED:
            said |= conventional_checks_experts.limits(got, want)
        return {name: value for name, value in said.items() if name != "allclose_passes"}
    if path.operation == "router":
        logits = uniform(
            stream.child("logits"), (conventional_checks_experts.TOKENS, conventional_checks_experts.LOGITS)
        )
        return judge(*conventional_checks_experts.weights(executor, logits))
    if path.operation == "combine":
        return judge(*conventional_checks_experts.sums(executor, stream, uniform))
    k, v = (uniform(stream.child(name), (CELLS, KV_HEADS, HEAD_DIM)) for name in "kv")
    table, pages = page_table(stream.child("pages"), Pages.IN_ORDER, CELLS, PAGE)
    packs = path.operation == "kv_pack"
    stored = [hadamard32(x) if packs and turn else x for x, turn in zip((k, v), ROTATED[path.mode], strict=True)]
    keys, rows = (planes.pack(x, form) for x, form in zip(stored, MODE_FORMATS[path.mode], strict=True))
    pool = place(keys, rows, path.mode, table, pages, PAGE)
    if packs:
        made = kv_pack.pack(executor, path.mode, k, v, page_size=PAGE, table=table, pages=pages).pool
        return judge(_flat(made), _flat(pool))
    n_kv = np.full(QUERIES, CELLS, dtype=np.int64)
    ids = selection.id_lists(stream.child("ids"), n_kv, n_kv, TOP, CELLS)
    inputs = Inputs(
        uniform(stream.child("q"), (QUERIES, KV_HEADS * GROUP, HEAD_DIM)),
        pool,
        ids,
        selection.step_records(n_kv, n_kv),
        n_kv,
    )
    out = ATTENTION[path.operation].run(executor, path, inputs).out
    return judge(out, attend(inputs.q, pool, ids, inputs.steps, np.arange(QUERIES)).out)


def _flat(pool: Pool) -> np.ndarray:
    """float64: the values of every cell of a pool."""
    with np.errstate(all="ignore"):
        return np.stack(values(pool, np.arange(CELLS)))


@command()
def main() -> int:
    """Answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paths", required=True)
    parser.add_argument("--seed", type=whole(), default=1)
    parser.add_argument("--executor", choices=NAMES, default="lanes")
    options = parser.parse_args()
    paths = select(options.paths)
    # Cases of experts run in the checked build: the same one here, for the sake of compiling once. What it stops counts
    # as refused, though on a card it might not be.
    flavor = "checked" if paths[0].operation in taking("experts", "router", "combine") else "fast"
    executor = open_executor(options.executor, rule="sm_90", flavor=flavor)
    found = [run(path, executor, options.seed) for path in paths]
    answer = {name: all(one[name] for one in found) for name in found[0] if name.endswith("_passes")}
    numbers = [one["nmse"] for one in found]
    print(json.dumps(answer | {"nmse": None if None in numbers else max(numbers)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
