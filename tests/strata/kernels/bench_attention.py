"""Times attention: each mode's baseline and tiers, on one set of inputs (`nox -s bench`).

`STRATA_BENCH_EXECUTOR` is `auto` (the default), `lanes` or `cuda`. On a card the sizes are those of the published
program and the device time, from CUDA events, and its ratio to the baseline go to `extra_info` and to one line
each; on lanes the sizes are small and only the wall time of this machine is known. What was timed is checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from statistics import median
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from strata.executors import open_executor
from strata.executors.base import Buffer, Executor
from strata.kernels import attention, decode_attention, prompt_attention
from strata.kernels.paths import PATHS, Path
from strata.kernels.pool import MODES
from validation.core.memo import Memo
from validation.core.verdict import Check, identical
from validation.operations.attention import gates
from validation.operations.attention.bound import bound
from validation.operations.attention.bounds.prompt_attention import PUBLISHED_QUERIES
from validation.operations.attention.plan import PUBLISHED, SIZED_RECIPE
from validation.operations.attention.pools import Inputs, build
from validation.operations.attention.reference import Reference, attend
from validation.operations.attention.sampling import sampled
from validation.operations.kv_pack.case import Case

#: (context, queries) by executor; the published ones on a card.
SIZES = {"cuda": {"long": PUBLISHED[0], "short": PUBLISHED[1]}, "lanes": {"long": (1100, 4), "short": (211, 4)}}
#: Timed calls.
REPS = {"cuda": 20, "lanes": 3}
#: Inputs are rotated until their bytes exceed the second-level cache this many times.
CACHES = 2
#: Baseline first: the paths after it are compared with it.
ROWS = [
    (size, f"{operation}/{mode}/{tier}")
    for size in ("long", "short")
    for mode in MODES
    for operation, tier in (("decode_attention", "simt"), ("prompt_attention", "sm75"), ("prompt_attention", "sm80"))
]


@dataclass(frozen=True)
class Ready:
    """A path ready to run: copies of one set of inputs, with an output each. call: runs it on the next copy."""

    call: Callable[[], object]
    outs: list[Buffer]
    input_bytes: int


@dataclass(frozen=True)
class Measured:
    """out: float32 [n_q, n_head, 256], what was timed; device_ms: of each timed call, None without a device clock."""

    out: np.ndarray
    device_ms: list[float] | None


@pytest.fixture(scope="session")
def executor() -> Executor:
    return open_executor(os.environ.get("STRATA_BENCH_EXECUTOR", "auto"))


#: The last inputs, reference and baseline: those of one case and mode follow one another.
MEMO = Memo()


def inputs_of(case: Case, mode: str) -> Inputs:
    inputs: Inputs = MEMO.get("inputs", (case, mode), lambda: build(case, mode))
    return inputs


def reference_of(case: Case, mode: str) -> Reference:
    i = inputs_of(case, mode)
    rows = sampled(i.widths)
    reference: Reference = MEMO.get("reference", (case, mode), lambda: attend(i.q, i.pool, i.ids, i.steps, rows))
    return reference


def make_ready(executor: Executor, path: Path, inputs: Inputs) -> Ready:
    """As many copies of the inputs as the cache asks for, at least two, in buffers of the executor."""
    copies: list[attention.Inputs] = []
    l2_bytes = int(executor.describe().get("l2_bytes", 0))
    total = 0
    while len(copies) < 2 or total <= CACHES * l2_bytes:
        copies.append(attention.prepare(executor, inputs.q, inputs.pool, inputs.ids, inputs.steps))
        total += sum(buffer.nbytes for buffer in copies[-1].buffers())
    outs = [executor.empty(copies[0].shape, np.float32, name="out") for _ in copies]
    turn = count()
    if path.operation == "decode_attention":
        workspace = decode_attention.Workspace(executor, copies[0])

        def call() -> object:
            i = next(turn) % len(copies)
            return decode_attention.launch(executor, path, copies[i], outs[i], workspace)

    else:

        def call() -> object:
            i = next(turn) % len(copies)
            return prompt_attention.launch(executor, path, copies[i], outs[i])

    return Ready(call, outs, total)


def time_path(executor: Executor, ready: Ready) -> Measured:
    """Device times, if there is a clock, and the output of every copy, which must be one and the same."""
    clock = getattr(executor, "time_launches", None)
    times = None if clock is None else [float(time) for time in clock(ready.call, REPS["cuda"])]
    for _ in ready.outs:  # each copy has run at least once
        ready.call()
    out = ready.outs[0].host()
    for other in ready.outs[1:]:
        check = identical("copies", other.host(), out)
        assert check.verdict.passes, check.reason
    assert all(buffer.guards_intact() for buffer in ready.outs)
    return Measured(out, times)


def baseline_of(executor: Executor, case: Case, mode: str) -> Measured:
    def measure() -> Measured:
        path = PATHS[f"decode_attention/{mode}/simt"]
        return time_path(executor, make_ready(executor, path, inputs_of(case, mode)))

    measured: Measured = MEMO.get("baseline", (executor, case, mode), measure)
    return measured


def checks_of(executor: Executor, path: Path, case: Case, new: np.ndarray, old: np.ndarray) -> list[Check]:
    """The verdict of the parity run on what was timed: against FP64 on sampled queries, and against the baseline."""
    inputs, reference = inputs_of(case, path.mode), reference_of(case, path.mode)
    base = bound(PATHS[f"decode_attention/{path.mode}/simt"], inputs, reference, executor)
    if path.baseline is None:
        return [gates.baseline_within_bound(new, gates.Truth(reference, base, base))]
    own = bound(path, inputs, reference, executor)
    return gates.gates(new, old, gates.Truth(reference, own, base, case.queries >= PUBLISHED_QUERIES))


@pytest.mark.parametrize(("size", "name"), ROWS)
def test_speed(
    benchmark: BenchmarkFixture, executor: Executor, capsys: pytest.CaptureFixture[str], size: str, name: str
) -> None:
    path = PATHS[name]
    context, queries = SIZES[executor.name][size]
    case = Case(SIZED_RECIPE, 1, context, queries)
    old = baseline_of(executor, case, path.mode)
    ready = make_ready(executor, path, inputs_of(case, path.mode))
    measured = time_path(executor, ready)
    pedantic: Any = benchmark.pedantic  # untyped in the package
    pedantic(ready.call, rounds=REPS[executor.name], iterations=1, warmup_rounds=1)
    again = identical("after timing", ready.outs[0].host(), measured.out)
    for check in [again, *checks_of(executor, path, case, measured.out, old.out)]:
        assert check.verdict.passes, f"{name}: {check.name} {check.reason}"
    figures: dict[str, Any] = {
        "case": case.text(),
        "copies": len(ready.outs),
        "input_bytes": ready.input_bytes,
        **{key: value for key, value in executor.describe().items() if isinstance(value, str | int)},
    }
    if measured.device_ms is not None and old.device_ms is not None:
        figures["device_ms"] = measured.device_ms
        figures["device_ms_median"] = median(measured.device_ms)
        figures["ratio_to_baseline"] = median(old.device_ms) / median(measured.device_ms)
        with capsys.disabled():
            told = f"{figures['device_ms_median']:9.3f} ms, {figures['ratio_to_baseline']:5.2f} times the baseline"
            print(f"\n{name} {context}/{queries}: {told}")
    benchmark.extra_info.update(figures)
