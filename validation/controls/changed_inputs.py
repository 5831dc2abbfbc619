"""Controls of what candidates are handed: kernels of every operation that change what they were given.

Each computes from the changed values, so that it is right of what it left behind: only what it could not reach tells.
The faults are of the host's arrays, in the first run or in a later one, left so or put back; of an executor's memory;
of memory that is timed; and of a result that a later run writes over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from strata.executors.base import Executor, Kernel, StrataError
from strata.kernels.embedding import Embedded
from strata.kernels.kv_pack import Packed
from strata.kernels.paths import PATHS, Path
from strata.kernels.selection import Result
from validation.controls import between, stub_packing
from validation.controls.experts import said
from validation.controls.linear import judged as judged_products
from validation.controls.positions import embedded, seeing, turning
from validation.controls.positions import judged as judged_positions
from validation.controls.router import combining, judged, routing
from validation.controls.selection import chosen
from validation.controls.selection import judged as judged_selection
from validation.core.control import Control
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.outcome import Outcome as Product
from validation.core.settings import Settings
from validation.core.stub_executor import BLOCK, ENTRY, StubBuffer, StubCard, StubExecutor
from validation.operations.attention import stub_kernels
from validation.operations.attention.kernels import Operation, Outcome
from validation.operations.attention.operation import judged as judged_attention
from validation.operations.attention.pools import Inputs
from validation.operations.block_select.stub_kernels import chooser, scorer
from validation.operations.experts import stub_kernels as expert_stubs
from validation.operations.experts.arithmetic import DECODE, FUSED, MMQ
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import Inputs as Routed
from validation.operations.experts.operation import judged as experts_judged
from validation.operations.experts.under_test import Outcome as Rows
from validation.operations.experts.under_test import Shape
from validation.operations.gated.inputs import Inputs as Elements
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.operation import judged as judged_packing
from validation.operations.kv_pack.packing import Packing
from validation.operations.linear.inputs import Inputs as Rowed
from validation.operations.linear.stub_kernels import multiplier
from validation.run import runner

LANES = StubExecutor()
#: Bits of a float32 that a fault clears.
LOW = 0x7FF
#: Runs from here on are a fault's: the first, or the one that repeats it.
FIRST, SECOND = 1, 2


class Meddler:
    """A fault. `before` and `after` are called around each run, with what was given; it acts from run `first` on."""

    def __init__(self, first: int = FIRST) -> None:
        self._first, self._runs = first, 0

    def before(self, executor: Executor, given: np.ndarray) -> None:
        self._runs += 1
        if self._runs >= self._first:
            self.act(executor, given)

    def act(self, executor: Executor, given: np.ndarray) -> None:
        """Clear low bits, and leave it so."""
        given.view(np.uint32)[...] &= ~np.uint32(LOW)

    def after(self, executor: Executor, given: np.ndarray) -> None:
        """Leave everything as it is."""


class Restoring(Meddler):
    """Clears low bits, and puts them back when the run is over."""

    def before(self, executor: Executor, given: np.ndarray) -> None:
        self._then = given.copy()
        super().before(executor, given)

    def after(self, executor: Executor, given: np.ndarray) -> None:
        given[...] = self._then


class Overwriting(Meddler):
    """Launches on a copy in the executor's memory, the last byte of which is another afterwards."""

    def act(self, executor: Executor, given: np.ndarray) -> None:
        overwritten(executor, given)


class OverwritingLast(Meddler):
    """Does so at the end of its run, when whatever it ran itself is over."""

    def act(self, executor: Executor, given: np.ndarray) -> None:
        """Leave everything as it is, so far."""

    def after(self, executor: Executor, given: np.ndarray) -> None:
        overwritten(executor, given)


class OverwritingBoth(Meddler):
    """Does so to the array of its own as well that the memory was made from."""

    def act(self, executor: Executor, given: np.ndarray) -> None:
        octets = np.ascontiguousarray(given).reshape(-1).view(np.uint8).copy()
        buffer = executor.array(octets, "given")
        executor.launch(Kernel(ENTRY, ENTRY, BLOCK), (1, 1, 1), [buffer])
        octets[-1] ^= 1
        buffer.write(octets)


def overwritten(executor: Executor, given: np.ndarray) -> None:
    """A launch that changes the last byte of its input, of an odd number of bytes."""
    octets = np.ascontiguousarray(given).reshape(-1).view(np.uint8)[:-1]
    buffer = executor.array(octets, "given")
    executor.launch(Kernel(ENTRY, ENTRY, BLOCK), (1, 1, 1), [buffer])
    other = octets.copy()
    other[-1] ^= 1
    buffer.write(other)


_CASE = Case("signed_decades", 5, 41, 3, 4, n_head_kv=2, group=4)
_PACKED = Case("pack_bell", 5, 7, 0, 4, group=1)
_ROUTED = ExpertCase("experts_decades", 5, 5, 4, 2, 256, 64)


def _orders() -> dict[str, int]:
    return {"prompt_attention": 1, "decode_attention": -1}


def _attention(operation: str, path: Path, meddler: Meddler) -> Findings:
    plain = stub_kernels.kernel(order=_orders()[operation])

    def run(executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        meddler.before(executor, inputs.q)
        made = plain.run(executor, path, inputs)
        meddler.after(executor, inputs.q)
        return made

    operations = stub_kernels.healthy(**{operation: replace(plain, run=run)})
    return judged_attention(_CASE, path, LANES, Settings(), Memo(), operations)


def _pack(operation: str, path: Path, meddler: Meddler) -> Findings:
    healthy = stub_packing.packing()

    def around_k(run: Callable[..., Packed], k: int) -> Callable[..., Packed]:
        def call(executor: Executor, *args: Any, **named: Any) -> Packed:
            meddler.before(executor, args[k])
            made = run(executor, *args, **named)
            meddler.after(executor, args[k])
            return made

        return call

    own = Packing(around_k(healthy.pack, 1), around_k(healthy.append, 1), healthy.hadamard)
    return judged_packing(_PACKED, path, LANES, packing=own)


def _expert(operation: str, path: Path, meddler: Meddler) -> Findings:
    arithmetic = {"expert_fused": FUSED, "expert_mmq": MMQ, "expert_decode": DECODE}[operation]
    plain = expert_stubs.kernel(arithmetic=arithmetic)

    def run(executor: Executor, path: Path, inputs: Routed, shape: Shape | None, trace: bool) -> Rows:
        meddler.before(executor, inputs.x)
        made = plain.run(executor, path, inputs, shape, trace)
        meddler.after(executor, inputs.x)
        return made

    own = {operation: replace(plain, run=run)}
    return experts_judged(_ROUTED, replace(path, baseline=None), LANES, Settings(), Memo(), own)


def _meddled(run: Callable[..., Any], meddler: Meddler) -> Callable[..., Any]:
    def call(executor: Executor, given: np.ndarray, *rest: Any) -> Any:
        meddler.before(executor, given)
        made = run(executor, given, *rest)
        meddler.after(executor, given)
        return made

    return call


def _router(operation: str, path: Path, meddler: Meddler) -> Findings:
    own = routing()
    own.route = _meddled(own.route, meddler)
    return judged(own, "router_bell")


def _combine(operation: str, path: Path, meddler: Meddler) -> Findings:
    own = combining()
    own.combine = _meddled(own.combine, meddler)
    return judged(own, "combine_decades")


def _norm(operation: str, path: Path, meddler: Meddler) -> Findings:
    own = between.norming()
    plain = own.norm

    def norm(executor: Executor, path: Path, x: np.ndarray, *rest: Any) -> Any:
        meddler.before(executor, x)
        made = plain(executor, path, x, *rest)
        meddler.after(executor, x)
        return made

    own.norm = norm
    return between.judged(own, path, "rms_bell")


def _elements(operation: str, path: Path, meddler: Meddler) -> Findings:
    own = between.of_elements(operation)
    plain = own.made

    def run(executor: Executor, path: Path, inputs: Elements, over: str | None) -> Any:
        first = inputs.arrays[own.elements.operands[0]]
        meddler.before(executor, first)
        made = plain(executor, path, inputs, over)
        meddler.after(executor, first)
        return made

    own.made = run
    return between.judged(own, path, f"{operation}_bell")


def _select(operation: str, path: Path, meddler: Meddler) -> Findings:
    plain = scorer()

    def run(executor: Executor, path: Path, q: np.ndarray, *rest: Any, **named: Any) -> Result:
        meddler.before(executor, q)
        made = plain.run(executor, path, q, *rest, **named)
        meddler.after(executor, q)
        return made

    return judged_selection(replace(plain, run=run), "select_bell", path=path.name)


def _choose(operation: str, path: Path, meddler: Meddler) -> Findings:
    plain = chooser()

    def select(executor: Executor, scores: np.ndarray, *rest: Any, **named: Any) -> Result:
        meddler.before(executor, scores)
        made = plain(executor, scores, *rest, **named)
        meddler.after(executor, scores)
        return made

    return chosen(select, "topk_digits")


def _linear(operation: str, path: Path, meddler: Meddler) -> Findings:
    plain = multiplier()

    def run(executor: Executor, path: Path, inputs: Rowed) -> Product:
        meddler.before(executor, inputs.x)
        made = plain.run(executor, path, inputs)
        meddler.after(executor, inputs.x)
        return made

    return judged_products(replace(plain, run=run), "linear_bell", path=path.name)


def _turn(operation: str, path: Path, meddler: Meddler) -> Findings:
    own = turning()
    own.turn = _meddled(own.turn, meddler)
    return judged_positions(own, "rope_decades")


def _embed(operation: str, path: Path, meddler: Meddler) -> Findings:
    own = embedded()
    plain = own.embed

    def embed(executor: Executor, form: str, matrix: np.ndarray, *rest: Any) -> Embedded:
        return cast(
            Embedded, _meddled(lambda on, given, *more: plain(on, form, given, *more), meddler)(executor, matrix, *rest)
        )

    own.embed = embed
    return judged_positions(own, "embedding_bell")


def _see(operation: str, path: Path, meddler: Meddler) -> Findings:
    own = seeing()
    own.see = _meddled(own.see, meddler)
    return judged_positions(own, "cells_chunk")


#: Of each operation a path, what runs its case, the input that is changed, and the check that refuses a fault which
#: leaves no trace in its inputs.
OPERATIONS: Mapping[str, tuple[str, Callable[[str, Path, Meddler], Findings], str, str]] = {
    "prompt_attention": ("prompt_attention/q4_0/sm80", _attention, "q", "bound"),
    "decode_attention": ("decode_attention/q4_0/simt", _attention, "q", "bound"),
    "kv_pack": ("kv_pack/int8/simt", _pack, "k", "bytes"),
    "expert_fused": ("expert_fused/iq3_xxs/iq4_nl/sm80", _expert, "x", "bits"),
    "expert_mmq": ("expert_mmq/iq3_xxs/iq4_nl/sm80", _expert, "x", "bits"),
    "expert_decode": ("expert_decode/iq3_xxs/iq4_nl/simt", _expert, "x", "bits"),
    "router": ("router/fp32/simt", _router, "logits", "bits"),
    "combine": ("combine/fp32/simt", _combine, "rows", "bits"),
    "block_select": ("block_select/fp32/simt", _select, "q", "scores"),
    "block_select_warp": ("block_select_warp/fp32/simt", _select, "q", "scores"),
    "block_topk": ("block_topk/fp32/simt", _choose, "scores", "bits"),
    "linear_dp4a": ("linear_dp4a/q4_0/simt", _linear, "x", "bits"),
    "linear": ("linear/q4_0/sm80", _linear, "x", "bits"),
    "linear_f16": ("linear_f16/f16/simt", _linear, "x", "bits"),
    "rms_norm": ("rms_norm/residual/simt", _norm, "x", "bits"),
    "gated": ("gated/gelu_tanh/simt", _elements, "gate", "bits"),
    "softcap": ("softcap/fp32/simt", _elements, "x", "bits"),
    "residual": ("residual/fp32/simt", _elements, "a", "bits"),
    "rope": ("rope/fp32/simt", _turn, "x", "bits"),
    "embedding": ("embedding/q5_1/simt", _embed, "blocks", "bits"),
    "visible_cells": ("visible_cells/causal/simt", _see, "cells", "bits"),
}


def _asked(operation: str, make: Callable[[], Meddler], check: str) -> str:
    path, run, _, _ = OPERATIONS[operation]
    return said(runner.answered(lambda: run(operation, PATHS[path], make())), check)


class Clock(StubCard):
    """A card with a clock, which runs what it times once."""

    def time_launches(self, launch: Callable[[], object], reps: int) -> list[float]:
        launch()
        return [1.0] * reps


def _timed() -> str:
    """The launches that are timed, and they alone, change their input."""

    def operation(name: str, changes: bool) -> Operation:
        def prepare(executor: Executor, path: Path, inputs: Inputs) -> tuple[Callable[[], object], Any]:
            out = StubBuffer(stub_kernels.attention(inputs, _orders()[name]))
            return (lambda: overwritten(executor, inputs.q) if changes else None), out

        return replace(stub_kernels.kernel(order=_orders()[name]), prepare=prepare)

    operations = {name: operation(name, name == "prompt_attention") for name in _orders()}
    path = PATHS[OPERATIONS["prompt_attention"][0]]
    settings = Settings(reps=1)
    return said(runner.answered(lambda: judged_attention(_CASE, path, Clock(), settings, Memo(), operations)), "inputs")


def _same_result() -> str:
    """Every run gives the same array again, and the second writes another bit into it. One query has one order."""
    plain, kept = stub_kernels.kernel(), []

    def run(executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        made = plain.run(executor, path, inputs)
        kept.append(made)
        if len(kept) > 1:
            kept[0].out.view(np.uint32)[-1, -1, -1] ^= 1
        return kept[0]

    operations = stub_kernels.healthy(prompt_attention=replace(plain, run=run))
    case, path = replace(_CASE, queries=1), PATHS[OPERATIONS["prompt_attention"][0]]
    found = runner.answered(lambda: judged_attention(case, path, LANES, Settings(), Memo(), operations))
    return said(found, "repeat")


def _after_a_failure() -> str:
    """A run that changes its inputs and fails, and a healthy one on the same data: what it is given is whole."""
    plain, memo = stub_kernels.kernel(), Memo()

    def fails(executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        Meddler().act(executor, inputs.q)
        raise StrataError("control")

    path = PATHS[OPERATIONS["prompt_attention"][0]]
    answers = []
    for run in (fails, plain.run):
        operations = stub_kernels.healthy(prompt_attention=replace(plain, run=run))
        found = runner.answered(partial(judged_attention, _CASE, path, LANES, Settings(), memo, operations))
        answers.append(said(found, "run"))
    return ", then ".join(answers)


def changing() -> Iterator[Control]:
    """Every fault in every operation, refused by the check made for it."""
    for operation, (_, _, given, bits) in OPERATIONS.items():
        rows: tuple[tuple[str, Callable[[], Meddler], str], ...] = (
            (f"low bits of {given} cleared", Meddler, "inputs"),
            (f"low bits of {given} cleared in a later run", partial(Meddler, SECOND), "inputs"),
            (f"low bits of {given} cleared and put back", Restoring, bits),
            (f"memory that holds {given} overwritten", Overwriting, "inputs"),
            (f"memory that holds {given} overwritten at the end", OverwritingLast, "inputs"),
            (f"memory that holds {given} overwritten, and what it was made from", OverwritingBoth, "inputs"),
            (f"memory that holds {given} overwritten in a later run", partial(Overwriting, SECOND), "inputs"),
        )
        for name, make, check in rows:
            yield Control(f"inputs/{operation}: {name}", partial(_asked, operation, make, check), f"EXCEEDS by {check}")
    yield Control("inputs/timed launches change their input", _timed, "EXCEEDS by inputs")
    yield Control("inputs/a result that a later run writes over", _same_result, "EXCEEDS by repeat")
    due = "NOT_RUN by run, then WITHIN_BOUND: nothing"
    yield Control("inputs/a failure keeps its changes to itself", _after_a_failure, due)


def _unchanged(operation: str) -> str:
    class Idle(Meddler):
        def act(self, executor: Executor, given: np.ndarray) -> None:
            """Launch on a copy in the executor's memory, and change nothing."""
            buffer = executor.array(given, "given")
            executor.launch(Kernel(ENTRY, ENTRY, BLOCK), (1, 1, 1), [buffer])

    return _asked(operation, Idle, "")


def unchanging() -> Iterator[Control]:
    """Kernels that keep memory on the executor and change none of it pass."""
    for operation in OPERATIONS:
        passes = "WITHIN_BOUND" if operation.endswith("attention") else "EXACT"
        yield Control(f"inputs/{operation}: nothing changed", partial(_unchanged, operation), f"{passes}: nothing")
