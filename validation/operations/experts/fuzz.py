"""Fuzzed experts: each configuration run twice, and every bit compared with the exact model in NumPy.

The two runs have other work shapes, other cuts of experts into launches, other addresses of blobs and another order of
tokens; the second is on lanes, in the checked build under a permuted schedule where the first is on lanes too. Compared
are outputs, gates, ups, codes and scales of h, the grouping, and what is counted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.executors.lanes import LanesExecutor
from strata.kernels import expert_decode, expert_fused, expert_mmq
from strata.kernels.experts import Experts, Geometry, place
from strata.kernels.paths import Path
from strata.kernels.registry import taking
from validation.core.arrays import frozen
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.core.handed import handed
from validation.core.random_streams import Stream
from validation.core.unknown_operation import UnknownOperationError
from validation.numerics.fma import plain
from validation.operations.experts import kernels, stub_kernels
from validation.operations.experts.checks import grouped
from validation.operations.experts.fuzz_inputs import Configuration, configuration, draw
from validation.operations.experts.inputs import Inputs
from validation.operations.experts.reference import Codes
from validation.operations.experts.under_test import Outcome

SHAPES = (None, *expert_fused.SHAPES, *kernels.MIXED)
#: A blob lies at an even address; so many of them are tried.
PLACES = 160
#: Orders of lanes and blocks, one of which the second run has.
SCHEDULES = 8


@lru_cache(3)
def due(seed: int, what: Configuration, operation: str) -> tuple[Inputs, Outcome]:
    """What an operation is given of a configuration, and what it must make of it. One that refuses ids that name
    nobody is given experts' in their place."""
    inputs, how = draw(seed, what), kernels.OPERATIONS[operation]
    if how.refuses_strays:
        ids = np.mod(inputs.ids, what.experts).astype(np.int32)
        inputs = replace(inputs, ids=ids)
    return frozen((inputs, stub_kernels.due(inputs, how.arithmetic)))


@handed
def _run(executor: Executor, path: Path, inputs: Inputs, stream: Stream) -> Outcome:
    """One run, whose addresses, work shape and cuts a stream draws."""
    places = stream.child("places").below(PLACES, inputs.experts) * 2
    geometry = Geometry(inputs.n, inputs.ff)
    experts = Experts(inputs.gate_up, inputs.down, geometry, list(inputs.blobs), places.tolist())
    held = place(executor, experts)
    if path.operation == "expert_fused":
        shape: Any = SHAPES[int(stream.child("shape").below(len(SHAPES), ()))]
        edges = np.sort(stream.child("cuts").below(inputs.experts + 1, int(stream.child("count").below(4, ()))))
        cuts = list(pairwise([0, *edges.tolist(), inputs.experts]))  # empty ones among them
        ready = expert_fused.prepare(executor, path, held, inputs.x, inputs.ids, shape, cuts, True)
        return kernels.outcome(ready.result(ready.launch()))
    if path.operation == "expert_decode":
        return kernels.outcome(expert_decode.run(executor, path, held, inputs.x, inputs.ids, trace=True))
    if path.operation != "expert_mmq":
        raise UnknownOperationError(path, "configuration", taking("experts"))
    together = 1 + int(stream.child("together").below(inputs.experts, ()))
    return kernels.outcome(expert_mmq.run(executor, path, held, inputs.x, inputs.ids, trace=True, together=together))


@lru_cache(SCHEDULES)
def _checked(rule: Any, schedule: int) -> LanesExecutor:
    return LanesExecutor(rule=rule, flavor="checked", seed=schedule)


@lru_cache(1)
def _lanes() -> LanesExecutor:
    return LanesExecutor()


def other(executor: Executor, schedule: int) -> LanesExecutor:
    """Where the second run is made: no rule of a tensor core plays a part."""
    return _checked(executor.rule, schedule) if isinstance(executor, LanesExecutor) else _lanes()


def compare(executor: Executor, seed: int, what: Configuration, path: Path) -> Compared:
    """A path of the configuration's mode, run twice and held against the model."""
    inputs, want = due(seed, what, path.operation)
    stream = Stream.of(seed, "fuzz runs", what.index)
    order = stream.child("order").permutation(what.tokens)
    second = other(executor, 1 + int(stream.child("schedule").below(SCHEDULES, ())))
    turned = inputs.tokens(order)
    one = _run(executor, path, inputs, stream.child("first"))
    two = _run(second, path, turned, stream.child("second"))
    asked = [_differing(inputs, one, want), _differing(turned, two, _turned(want, order, what.top))]
    return Compared(
        what.text(),
        path.name,
        2 * want.out.size,
        sum(count for count, _ in asked),
        int((~np.isfinite(want.out)).sum()),
        one.guards_ok and two.guards_ok,
        "; ".join(f"{name} run: {said}" for name, (_, said) in zip(("first", "second"), asked, strict=True) if said),
        tuple(sorted({witness.arch for witness in one.witnesses})),
    )


def _turned(want: Outcome, order: np.ndarray, top: int) -> Outcome:
    """What is due of tokens in another order."""
    assert want.gate is not None
    assert want.up is not None
    assert want.h is not None
    pairs = (order[:, None] * top + np.arange(top)).reshape(-1)
    h = Codes(want.h.q[pairs], want.h.scale[pairs])
    rows = (want.gate[order], want.up[order])
    return Outcome(want.out[order], [], True, want.ignored, *rows, h, None, want.lost)


def _differing(inputs: Inputs, got: Outcome, want: Outcome) -> tuple[int, str]:
    """How many outputs differ, and in words whatever else does."""
    out = _count(got.out, want.out)
    assert got.h is not None
    assert want.h is not None
    steps = {
        "gates": (got.gate, want.gate),
        "ups": (got.up, want.up),
        "codes of h": (got.h.q, want.h.q),
        "scales of h": (got.h.scale, want.h.scale),
    }
    said = [f"{_count(a, b)} {name} differ" for name, (a, b) in steps.items() if _count(a, b)]
    if got.ignored != want.ignored:
        said.append(f"{got.ignored} pairs ignored, expected {want.ignored}")
    if got.lost != want.lost:
        said.append(f"lost of x, h and outputs {got.lost}, expected {want.lost}")
    if got.grouping is not None and not grouped(inputs, got.grouping).verdict.passes:
        said.append(grouped(inputs, got.grouping).reason)
    return out, ", ".join(said)


def _count(got: np.ndarray | None, want: np.ndarray | None) -> int:
    """How many elements of two arrays differ in a bit; a NaN is as good as another."""
    if got is None or want is None or got.shape != want.shape or got.dtype != want.dtype:
        return 0 if want is None else want.size
    if got.dtype == np.float32:
        got, want = plain(got).view(np.uint32), plain(want).view(np.uint32)
    return int((got != want).sum())


KIND = FuzzKind(configuration, compare)
