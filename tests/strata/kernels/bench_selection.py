"""Times block selection: every scorer, both kernels of the top-k, and room that is not used (`nox -s bench`).

`STRATA_BENCH_EXECUTOR` is `auto` (the default), `lanes` or `cuda`. On a card the sizes are those of long prompts and
the device time, from CUDA events, and its ratio to the baseline's warps (of the top-k, to the long kernel) go to
`extra_info` and to one line each, beside the time in which memory can deliver what is read and written at least; on
lanes the sizes are small and only the wall time of this machine is known. Of what was timed scores of one query have
the bits of their model where the card's rule is known, and its cells are those of the definition.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from strata.executors import open_executor
from strata.executors.base import Executor
from strata.kernels import block_select, block_select_warp, selection, topk_kernels
from strata.kernels.block_select import SPLITTER
from strata.kernels.paths import PATHS
from strata.kernels.selection import BLOCK, DIMS, HEADS, Inputs, Outputs, steps_of
from tests.strata.kernels.selection_model import SCORERS, chosen, drawn, score_bits
from validation.core.memo import Memo
from validation.numerics.tensorcore_rules import rules_for


@dataclass(frozen=True)
class Size:
    """cells: of the last query; capacity: blocks that there is room for, 0 for as many as the last query has."""

    queries: int
    cells: int
    capacity: int = 0

    def __str__(self) -> str:
        room = f" in room for {BLOCK * self.capacity}" if self.capacity else ""
        return f"{self.queries} queries of {self.cells} cells{room}"


SIZES = {
    "cuda": {
        "longest": Size(2048, 200_192),
        "usual": Size(512, 32_768),
        "few": Size(8, 32_768),
        "short": Size(256, 2100),
        "roomy": Size(256, 2100, 65_536),
    },
    "lanes": {
        "longest": Size(4, 700), "usual": Size(3, 300), "few": Size(1, 300), "short": Size(2, 50),
        "roomy": Size(2, 50, 4096),
    },
}  # fmt: skip
#: Timed calls.
REPS = {"cuda": 20, "lanes": 2}
#: What is timed: a path's scorer, a path as a whole, or a kernel of the top-k, of which the longest asks for one.
ROWS = [
    (size, what)
    for size in SIZES["cuda"]
    for what in (
        *(f"scores of {name}" for name in SCORERS),
        *SCORERS,
        *(f"top-k {name}" for name in reversed(topk_kernels.KERNELS)),
    )
    if (size, what) != ("longest", "top-k short")
]
#: Blocks of the query whose scores are compared with their model, at most.
_SEEN = 4096
#: Rows that are split to measure how fast memory is: 1 GB in and out.
_ROWS = {"cuda": 1 << 20, "lanes": 1 << 8}
#: The last size's inputs, and the baseline's times.
MEMO = Memo()


@pytest.fixture(scope="session")
def executor() -> Executor:
    return open_executor(os.environ.get("STRATA_BENCH_EXECUTOR", "auto"))


def device_ms(executor: Executor, call: Callable[[], object]) -> list[float] | None:
    """Times of the calls by the device's clock, None without one."""
    clock = getattr(executor, "time_launches", None)
    return None if clock is None else [float(time) for time in clock(call, REPS["cuda"])]


def inputs_of(executor: Executor, size: Size) -> Inputs:
    """Queries whose lengths grow by one, as a prompt's do."""

    def make() -> Inputs:
        blocks = size.cells // BLOCK
        q, keys = drawn(1, size.queries, blocks)
        roomy = np.zeros((max(blocks, size.capacity), DIMS), np.float32)
        roomy[:blocks] = keys
        cells = [max(size.cells - i, 0) for i in reversed(range(size.queries))]
        return selection.prepare(executor, q, roomy, steps_of(cells))

    inputs: Inputs = MEMO.get("inputs", (executor, size), make)
    return inputs


def call_of(executor: Executor, what: str, inputs: Inputs, made: Outputs) -> Callable[[], object]:
    """What is timed, ready to run."""
    if what.startswith("top-k "):
        module, path = block_select_warp, PATHS[SCORERS[0]]
        module.score(executor, path, inputs, made.scores)
        name = topk_kernels.choose(inputs.reach, what.removeprefix("top-k "))
        return lambda: topk_kernels.launch(executor, name, made.scores, inputs.steps, made.ids)
    path = PATHS[what.removeprefix("scores of ")]
    launch, score, workspace = (
        (block_select.launch, block_select.score, block_select.workspace)
        if path.operation == "block_select"
        else (block_select_warp.launch, block_select_warp.score, block_select_warp.workspace)
    )
    work = workspace(executor, path, inputs)
    if what in SCORERS:
        return lambda: launch(executor, path, inputs, made, work)
    return lambda: score(executor, path, inputs, made.scores, work)


def gigabytes_a_second(executor: Executor) -> float | None:
    """What memory takes in and gives out, measured by splitting rows; None without a device clock."""

    def measure() -> float | None:
        count = _ROWS[executor.name]
        rows = executor.array(np.zeros((count, DIMS), np.float32), "rows")
        parts = executor.empty((count, 2, DIMS), np.uint16, name="parts")
        exponents = executor.empty((count,), np.int32, name="exponents")
        program = block_select.kernel(PATHS["block_select/fp32/sm75"], SPLITTER)
        grid = (-(-count * 32 // program.block), 1, 1)
        times = device_ms(executor, lambda: executor.launch(program, grid, (rows, parts, exponents, np.int32(count))))
        return None if times is None else (rows.nbytes + parts.nbytes + exponents.nbytes) / median(times) / 1e6

    found: float | None = MEMO.get("bandwidth", (executor,), measure)
    return found


def assert_right(executor: Executor, what: str, inputs: Inputs, made: Outputs) -> None:
    """Scores of one query have the bits of their model, and its cells follow from its scores."""
    query = inputs.queries // 2
    steps = inputs.steps.host()[query : query + 1]
    scores = made.scores.host()[query : query + 1]
    if not what.startswith("top-k "):
        path = PATHS[what.removeprefix("scores of ")]
        seen = np.unique(np.linspace(0, int(steps[0, 2]) - 1, _SEEN).astype(int))
        q, keys = inputs.q.host()[query : query + 1], inputs.keys.host()[seen]
        for rule in ("sm_90",) if executor.capability is None else rules_for(path, executor)[:1]:
            assert np.array_equal(scores.view(np.uint32)[:, seen], score_bits(path.name, q, keys, rule))
    if not what.startswith("scores of "):
        assert np.array_equal(made.ids.host()[query : query + 1], chosen(scores, steps, inputs.cap))


def baseline_ms(executor: Executor, what: str, size: Size, inputs: Inputs, made: Outputs) -> list[float] | None:
    """Times of what it is compared with: the baseline's scorer or the baseline; the long top-k."""
    kinds = {"top-k ": "top-k long", "scores": f"scores of {SCORERS[0]}"}
    name = kinds.get(what[:6], SCORERS[0])
    times: list[float] | None = MEMO.get(
        name, (executor, size), lambda: device_ms(executor, call_of(executor, name, inputs, made))
    )
    return times


def least_bytes(what: str, inputs: Inputs) -> int:
    """What is read and written at least: keys and q once, scores, and the cells."""
    scores = 4 * int(inputs.steps.host()[:, 2].astype(np.int64).sum())
    ids = 4 * int(inputs.steps.host()[:, 3].astype(np.int64).sum())
    read = 4 * DIMS * (inputs.reach + HEADS * inputs.queries)
    return scores + (0 if what.startswith("top-k ") else read) + (0 if what.startswith("scores of ") else ids)


@pytest.mark.parametrize(("name", "what"), ROWS)
def test_speed(
    benchmark: BenchmarkFixture, executor: Executor, capsys: pytest.CaptureFixture[str], name: str, what: str
) -> None:
    size = SIZES[executor.name][name]
    inputs = inputs_of(executor, size)
    made = selection.outputs(executor, inputs)
    call = call_of(executor, what, inputs, made)
    times = device_ms(executor, call)
    pedantic: Any = benchmark.pedantic  # untyped in the package
    pedantic(call, rounds=REPS[executor.name], iterations=1, warmup_rounds=1)
    assert_right(executor, what, inputs, made)
    figures: dict[str, Any] = {
        "size": str(size),
        "least_bytes": least_bytes(what, inputs),
        **{key: value for key, value in executor.describe().items() if isinstance(value, str | int)},
    }
    base, speed = baseline_ms(executor, what, size, inputs, made), gigabytes_a_second(executor)
    if times is not None and base is not None and speed is not None:
        least = figures["least_bytes"] / speed / 1e6
        figures |= {
            "device_ms": times,
            "device_ms_median": median(times),
            "least_ms": least,
            "gigabytes_a_second": speed,
        }
        figures["ratio_to_baseline"] = median(base) / median(times)
        with capsys.disabled():
            told = f"{median(times):9.3f} ms, {figures['ratio_to_baseline']:6.2f} times the baseline"
            print(f"\n{what}, {size}: {told}; memory alone {least:.3f} ms at {speed:,.0f} GB/s")
    benchmark.extra_info.update(figures)
