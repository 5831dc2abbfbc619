"""Times experts: the fused path of both tiers and its baseline, on one set of inputs (`nox -s bench`).

`STRATA_BENCH_EXECUTOR` is `auto` (the default), `lanes` or `cuda`. On a card the size is the published one and the
device time, from CUDA events, and its ratio to the baseline with all experts in one launch go to `extra_info` and to
one line each; on lanes the size is small and only the wall time of this machine is known. Pairs of what was timed have
the bits of their model.
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
from strata.executors.base import Buffer, Executor
from strata.kernels import expert_fused, expert_mmq
from strata.kernels.paths import PATHS, Path
from validation.core.memo import Memo
from validation.operations.experts import reference
from validation.operations.experts import reference_mmq as older
from validation.operations.experts.case import FF, ExpertCase, N
from validation.operations.experts.inputs import Inputs, build
from validation.operations.experts.kernels import placed

#: Tokens, experts, ranks, n and ff.
SIZES = {"cuda": (4864, 512, 10, N, FF), "lanes": (9, 7, 3, 256, 128)}
REPS = {"cuda": 15, "lanes": 2}
#: A pair of formats for each of gate and up.
PAIRS = ("iq3_xxs/iq4_nl", "iq3_s/iq4_nl", "iq4_xs/q2_0", "iq2_xxs/q2_0", "iq2_xs/iq4_nl", "iq2_s/q2_0")
#: Baseline first: the paths after it are compared with it.
ROWS = [
    f"{operation}/{mode}/{tier}"
    for mode in PAIRS
    for operation, tier in (("expert_mmq", "sm80"), ("expert_fused", "sm75"), ("expert_fused", "sm80"))
]
#: Pairs of token and rank that are compared with the model.
SAMPLED = 6

MEMO = Memo()


@dataclass(frozen=True)
class Ready:
    """A path ready to run. call: runs it once more; rows: float32 [tokens, top, n]; buffers: all it uses."""

    call: Callable[[], object]
    rows: Buffer
    buffers: list[Buffer]


@pytest.fixture(scope="session")
def executor() -> Executor:
    return open_executor(os.environ.get("STRATA_BENCH_EXECUTOR", "auto"))


def make_ready(executor: Executor, path: Path, inputs: Inputs) -> Ready:
    experts = placed(executor, inputs)
    if path.operation == "expert_fused":
        fused = expert_fused.prepare(executor, path, experts, inputs.x, inputs.ids)
        return Ready(fused.launch, fused.rows, fused.buffers())
    old = expert_mmq.prepare(executor, path, experts, inputs.x, inputs.ids)
    return Ready(lambda: expert_mmq.launch(executor, path, old), old.rows, list(old.buffers()))


def device_times(executor: Executor, ready: Ready) -> list[float] | None:
    clock = getattr(executor, "time_launches", None)
    return None if clock is None else [float(time) for time in clock(ready.call, REPS["cuda"])]


def wrong_pairs(path: Path, inputs: Inputs, rows: np.ndarray) -> list[tuple[int, int]]:
    """Sampled pairs whose row is not that of the path's exact model."""
    model: Any = reference if path.operation == "expert_fused" else older
    bad = []
    for number in np.linspace(0, inputs.pairs - 1, SAMPLED).astype(int):
        token, rank = divmod(int(number), inputs.top)
        made = inputs.matrices(int(inputs.ids[token, rank]))
        want = model.expert(made.gate, made.up, made.down, model.quantise(inputs.x[token : token + 1])).out[0]
        if want.tobytes() != np.ascontiguousarray(rows[token, rank]).tobytes():
            bad.append((token, rank))
    return bad


@pytest.mark.parametrize("name", ROWS)
def test_speed(benchmark: BenchmarkFixture, executor: Executor, capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = PATHS[name]
    case = ExpertCase("experts_plain", 1, *SIZES[executor.name])
    inputs: Inputs = MEMO.get("inputs", (case, path.mode), lambda: build(case, path.mode))
    ready = make_ready(executor, path, inputs)
    ready.call()
    times = device_times(executor, ready)
    pedantic: Any = benchmark.pedantic  # untyped in the package
    pedantic(ready.call, rounds=REPS[executor.name], iterations=1, warmup_rounds=1)
    assert wrong_pairs(path, inputs, ready.rows.host()) == []
    assert all(buffer.guards_intact() for buffer in ready.buffers)
    figures: dict[str, Any] = {
        "case": case.text(),
        **{key: value for key, value in executor.describe().items() if isinstance(value, str | int)},
    }
    if times is not None:
        older_path = PATHS[f"expert_mmq/{path.mode}/sm80"]
        old = MEMO.get(
            "baseline",
            (case, path.mode),
            lambda: device_times(executor, make_ready(executor, older_path, inputs)) if path != older_path else times,
        )
        ratio = median(old) / median(times)
        figures |= {"device_ms": times, "device_ms_median": median(times), "ratio_to_baseline": ratio}
        with capsys.disabled():
            print(f"\n{name} {case.text()}: {median(times):9.3f} ms, {ratio:5.2f} times the baseline")
    benchmark.extra_info.update(figures)
