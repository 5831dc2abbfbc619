"""Times block selection: every scorer, both top-k kernels, and what unused capacity costs (`nox -s bench`).

`STRATA_BENCH_EXECUTOR` is `auto` (the default), `lanes` or `cuda`. On a card device times, from CUDA events, and their
ratios go to `extra_info` and to one line each, beside the time that reading the keys once takes at the bandwidth that
is measured in the same run; on lanes the sizes are small and only the wall time of this machine is known. What was
timed is checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from statistics import median
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from strata.executors import open_executor
from strata.executors.base import Executor
from strata.kernels import block_select, block_select_warp, compare_bytes, selection, topk_kernels
from strata.kernels.paths import PATHS, Path
from strata.kernels.selection import BLOCK
from strata.kernels.topk_kernels import KERNELS
from validation.core.memo import Memo
from validation.operations.block_select.case import SelectCase
from validation.operations.block_select.choice import choose
from validation.operations.block_select.inputs import Inputs, build

#: (context, queries) by executor: few cells, as many as the short top-k reaches, and beyond.
SIZES = {
    "cuda": {"short": (4096, 2048), "middle": (32_768, 2048), "long": (200_192, 2048)},
    "lanes": {"short": (600, 9), "middle": (900, 9), "long": (1200, 9)},
}
#: Cells of a context, queries, and the capacities in cells that it has: all but what is needed is never read.
FILLED = {"cuda": (2100, 256, (2112, 262_144)), "lanes": (210, 4, (212, 16_384))}
#: Timed calls.
REPS = {"cuda": 20, "lanes": 2}
#: Bytes of each of two buffers that are read to measure the bandwidth.
READ = {"cuda": 1 << 30, "lanes": 1 << 12}
#: Rows whose ids are held against the definition over the scores of the same launch.
CHECKED = 16
MODULES: dict[str, ModuleType] = {"block_select_warp": block_select_warp, "block_select": block_select}
#: Baseline first: the paths after it are compared with it.
SCORERS = [name for name, path in PATHS.items() if path.operation in MODULES]


class Ready(NamedTuple):
    """A path on prepared buffers. score: launches its scorer alone; both: scores and the choice."""

    score: Callable[[], object]
    both: Callable[[], object]
    given: selection.Inputs
    made: selection.Outputs


@pytest.fixture(scope="session")
def executor() -> Executor:
    return open_executor(os.environ.get("STRATA_BENCH_EXECUTOR", "auto"))


#: The last inputs, and times of baselines.
MEMO = Memo()


def case_of(context: int, queries: int, capacity: int = 0) -> SelectCase:
    return SelectCase("select_bell", 1, context, queries, capacity=capacity)


def inputs_of(case: SelectCase) -> Inputs:
    inputs: Inputs = MEMO.get("inputs", case, lambda: build(case))
    return inputs


def make_ready(executor: Executor, path: Path, inputs: Inputs, topk: str | None = None) -> Ready:
    own = MODULES[path.operation]
    given = selection.prepare(executor, inputs.q, inputs.keys, inputs.steps, inputs.cap)
    made, work = selection.outputs(executor, given), own.workspace(executor, path, given)
    return Ready(
        lambda: own.score(executor, path, given, made.scores, work),
        lambda: own.launch(executor, path, given, made, work, topk),
        given,
        made,
    )


def device_ms(executor: Executor, call: Callable[[], object]) -> float | None:
    """Median device time of a call; None without a device clock."""
    clock = getattr(executor, "time_launches", None)
    return None if clock is None else median(float(time) for time in clock(call, REPS["cuda"]))


def bandwidth(executor: Executor) -> float | None:
    """Bytes a millisecond that a kernel reads which does little else; None without a device clock."""

    def measure() -> float | None:
        size = READ[executor.name]
        one, other = (executor.array(np.zeros(size, np.uint8), name) for name in ("one", "other"))
        result, zero = executor.array(np.zeros(2, np.uint64), "result", written=True), np.uint64(0)
        args = (one, zero, other, zero, np.uint64(size), result)
        grid = (compare_bytes.blocks(size), 1, 1)
        time = device_ms(executor, lambda: executor.launch(compare_bytes.kernel(), grid, args))
        return None if time is None else 2 * size / time

    measured: float | None = MEMO.get("bandwidth", executor, measure)
    return measured


def wrong_rows(inputs: Inputs, made: selection.Outputs) -> list[int]:
    """Sampled rows whose ids are not the definition's by the scores beside them."""
    rows = np.unique(np.linspace(0, len(inputs.q) - 1, CHECKED).astype(np.int64))
    scores, ids, steps = made.scores.host()[rows], made.ids.host()[rows], inputs.steps[rows]
    due = choose(scores, steps, ids.shape[1])
    written = np.arange(ids.shape[1]) < steps[:, 3:]
    return [int(row) for row, same in zip(rows, ((ids == due) | ~written).all(axis=1), strict=True) if not same]


def told(
    benchmark: BenchmarkFixture, executor: Executor, capsys: pytest.CaptureFixture[str], line: str, **figures: Any
) -> None:
    """Keep what was measured, and print a line of it where there is a device clock."""
    facts = {key: value for key, value in executor.describe().items() if isinstance(value, str | int)}
    benchmark.extra_info.update(facts | figures)
    if line:
        with capsys.disabled():
            print(f"\n{line}")


def run(benchmark: BenchmarkFixture, executor: Executor, call: Callable[[], object]) -> None:
    pedantic: Any = benchmark.pedantic  # untyped in the package
    pedantic(call, rounds=REPS[executor.name], iterations=1, warmup_rounds=1)


@pytest.mark.parametrize(("size", "name"), [(size, name) for size in SIZES["cuda"] for name in SCORERS])
def test_scorers(
    benchmark: BenchmarkFixture, executor: Executor, capsys: pytest.CaptureFixture[str], size: str, name: str
) -> None:
    """Scores alone, as a ratio to the warp scorer of the same inputs."""
    case = case_of(*SIZES[executor.name][size])
    inputs = inputs_of(case)
    ready = make_ready(executor, PATHS[name], inputs)
    time = device_ms(executor, ready.score)
    run(benchmark, executor, ready.both)
    assert wrong_rows(inputs, ready.made) == []
    assert all(buffer.guards_intact() for buffer in (*ready.given[:3], *ready.made))
    first = MEMO.get(
        "warp", (executor, case), lambda: device_ms(executor, make_ready(executor, PATHS[SCORERS[0]], inputs).score)
    )
    line = ""
    figures: dict[str, Any] = {"case": case.text()}
    if time is not None:
        speed, read = bandwidth(executor), inputs.blocks * inputs.keys.shape[1] * 4
        assert speed is not None
        figures |= {"device_ms": time, "ratio_to_warp": first / time, "keys_bytes": read, "keys_ms": read / speed}
        line = (
            f"{name} {case.context}/{case.queries}: {time:9.3f} ms, {first / time:5.2f} times the warp scorer;"
            f" {read:,} bytes of keys take {read / speed:.4f} ms at {speed / 1e6:,.0f} GB/s"
        )
    told(benchmark, executor, capsys, line, **figures)


@pytest.mark.parametrize(
    ("size", "kernel"), [*((size, kernel) for size in ("short", "middle") for kernel in KERNELS), ("long", "long")]
)
def test_topk(
    benchmark: BenchmarkFixture, executor: Executor, capsys: pytest.CaptureFixture[str], size: str, kernel: str
) -> None:
    """Each top-k kernel that can reach so far, on the scores of the warp scorer, as a ratio to the first of them."""
    case = case_of(*SIZES[executor.name][size])
    inputs = inputs_of(case)
    ready = make_ready(executor, PATHS[SCORERS[0]], inputs)
    ready.score()

    def call() -> object:
        return topk_kernels.launch(
            executor, ready.made.scores, ready.given.steps, ready.made.ids, ready.given.reach, kernel
        )

    time = device_ms(executor, call)
    run(benchmark, executor, call)
    assert wrong_rows(inputs, ready.made) == []
    first = MEMO.get("topk", (executor, case), lambda: time)  # the short one where it can reach so far
    line = ""
    figures: dict[str, Any] = {"case": case.text(), "kernel": kernel}
    if time is not None:
        figures |= {"device_ms": time, "ratio_to_first": first / time}
        line = f"block_topk {kernel} {case.context}/{case.queries}: {time:9.3f} ms, {first / time:5.2f} times the first"
    told(benchmark, executor, capsys, line, **figures)


@pytest.mark.parametrize("name", SCORERS)
def test_unused_capacity(
    benchmark: BenchmarkFixture, executor: Executor, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The same queries with room for little more than they have, and for a hundred times as much."""
    context, queries, capacities = FILLED[executor.name]
    path, times, kernels = PATHS[name], list[float | None](), list[str]()
    for capacity in capacities:
        inputs = inputs_of(case_of(context, queries, capacity))
        ready = make_ready(executor, path, inputs)
        times.append(device_ms(executor, ready.both))
        kernels.append(topk_kernels.choose(ready.given.reach))
        if capacity == capacities[-1]:
            run(benchmark, executor, ready.both)
        else:
            ready.both()
        assert wrong_rows(inputs, ready.made) == []
    assert len(set(kernels)) == 1  # the reach decides, whatever there is room for
    line = ""
    figures: dict[str, Any] = {"capacities": list(capacities), "kernel": kernels[0]}
    tight, wide = times
    if tight is not None and wide is not None:
        figures |= {"device_ms": times, "ratio": wide / tight}
        line = (
            f"{name} {context}/{queries}: {wide:9.3f} ms with room for {capacities[1]:,} cells, {wide / tight:5.2f} of"
            f" the time with {capacities[0]:,}; the {kernels[0]} top-k, for {-(-context // BLOCK)} blocks"
        )
    told(benchmark, executor, capsys, line, **figures)
