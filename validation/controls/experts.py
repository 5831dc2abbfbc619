"""Negative controls of expert paths: wrong results given to the real runner, each with the check that must refuse it.

A control's answer is the verdict and whether the check made for the fault refused, else the checks that did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels.paths import PATHS, Path
from validation.controls.edits import flip_last_bit, poison, put
from validation.controls.expert_changes import (
    LANES,
    Wrong,
    code_one_off,
    edited,
    ends_swapped,
    first_twice,
    first_two_swapped,
    for_nan,
    gate_beyond,
    grouping,
    having,
    in_shape,
    later,
    minus_zeros,
    no_witness,
    not_counting,
    one_bit_when,
    scale_one_step,
    scales_in_fp16,
    up_one_step,
    witnesses,
)
from validation.core.control import Control
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.settings import Settings
from validation.operations.experts import stub_kernels
from validation.operations.experts.arithmetic import FUSED, MMQ, Arithmetic
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import Inputs, build
from validation.operations.experts.operation import judged
from validation.operations.experts.under_test import ExpertOperation, Outcome, Shape
from validation.run import runner

PATH = PATHS["expert_fused/iq3_xxs/iq4_nl/sm80"]
#: Signed scales; ids that name nobody; tokens that are not finite.
CASE = ExpertCase("experts_decades", 5, 5, 4, 2, 256, 64)
STRAY, BROKEN = replace(CASE, recipe="experts_stray"), replace(CASE, recipe="experts_broken")
REPEATED = replace(CASE, recipe="experts_repeated")
SHAPES = (2, 4)


@dataclass
class _Kept:
    """Outcomes of the few inputs that the controls have: computed once each."""

    held: dict[tuple[bytes, ...], Outcome] = field(default_factory=dict)

    def __call__(self, inputs: Inputs, executor: Executor, arithmetic: Any) -> Outcome:
        key = (inputs.blobs[-1].tobytes(), inputs.x.tobytes(), inputs.ids.tobytes(), repr(arithmetic).encode())
        if key not in self.held:
            self.held[key] = stub_kernels.outcome(inputs, executor, arithmetic)
        made = self.held[key]
        out, gate, up = (None if x is None else x.copy() for x in (made.out, made.gate, made.up))
        assert out is not None
        assert made.h is not None
        return replace(made, out=out, gate=gate, up=up, h=replace(made.h, q=made.h.q.copy(), scale=made.h.scale.copy()))


_kept = _Kept()
_memo = Memo()


def _kernel(wrong: Wrong | None = None, arithmetic: Arithmetic = FUSED) -> ExpertOperation:
    """A stand-in whose results are kept, with a fault."""
    calls: list[int] = []
    usual = stub_kernels.kernel(shapes=SHAPES)

    def run(executor: Executor, path: Path, inputs: Inputs, shape: Shape | None, trace: bool) -> Outcome:
        calls.append(1)
        made = _kept(inputs, executor, arithmetic)
        made = made if wrong is None else wrong(made, inputs, shape, len(calls))
        return made if trace else replace(made, gate=None, up=None)

    return replace(usual, run=run, arithmetic=arithmetic)


def _run(case: ExpertCase, wrong: Wrong | None, base: Wrong | None = None, memo: Memo | None = None) -> Findings:
    # Inputs, bits and models are kept from control to control; what a kernel gave is not.
    held = memo or _memo
    for kind in ("old", "expert tiers"):
        held.forget(kind)
    operations = {"expert_fused": _kernel(wrong), "expert_mmq": replace(_kernel(base, MMQ), refuses_strays=False)}
    return judged(case, PATH, LANES, Settings(), held, operations)


def said(found: Findings, check: str) -> str:
    """A control's answer: the verdict, and whether `check` refused, else the checks that did."""
    refused = [one.name for one in found.checks if not one.verdict.passes]
    verdict = runner.settle(found.checks).value
    return f"{verdict} by {check}" if check in refused else f"{verdict}: {', '.join(refused) or 'nothing'}"


#: fault, the check that must refuse it, case, what is wrong.
ROWS: tuple[tuple[str, str, ExpertCase, Wrong], ...] = (
    ("zeros", "bound", CASE, edited(put(np.s_[:], 0))),
    ("a NaN at the end", "bound", CASE, edited(put((-1, -1, -1), np.nan))),
    ("infinity at the beginning", "bits", CASE, edited(put((0, 0, 0), np.inf))),
    ("one bit", "bits", CASE, edited(flip_last_bit)),
    ("poison at the end", "written", CASE, edited(poison())),
    ("tokens shifted", "bound", CASE, edited(lambda out: out.__setitem__(np.s_[:], np.roll(out, 1, axis=0)))),
    ("ranks swapped", "bound", CASE, edited(lambda out: out.__setitem__(np.s_[:], out[:, ::-1].copy()))),
    ("columns shifted", "bound", CASE, edited(lambda out: out.__setitem__(np.s_[:], np.roll(out, 1, axis=2)))),
    ("last row stale", "bits", CASE, edited(lambda out: out.__setitem__(np.s_[-1, -1], out[0, 0].copy()))),
    ("one rank negated", "bits", CASE, edited(put(np.s_[:, 1], lambda x: -x))),
    ("weighted rows", "bits", CASE, edited(put(np.s_[:], lambda x: x * np.float32(0.5)))),
    ("fewer rows", "shape", CASE, having(out=lambda made, inputs: made.out[:-1])),
    ("another dtype", "written", CASE, having(out=lambda made, inputs: made.out.astype(np.float64))),
    ("memory beside a buffer", "guards", CASE, having(guards_ok=lambda made, inputs: False)),
    ("nothing launched", "witness", CASE, having(witnesses=no_witness)),
    ("another image", "images", CASE, witnesses(image="f" * 64)),
    ("another entry", "images", CASE, witnesses(entry="expert_mmq")),
    ("another executor", "witness", CASE, witnesses(executor="cuda")),
    ("the second run differs", "repeat", CASE, one_bit_when(lambda shape, call: call == 2)),
    ("a work shape differs", "shape 4", CASE, one_bit_when(lambda shape, call: shape == SHAPES[-1])),
    ("a cut differs", "in parts", CASE, one_bit_when(lambda shape, call: shape is None and call > 2)),
    ("launched twice", "images", CASE, having(witnesses=lambda made, inputs: made.witnesses * 2)),
    ("a repeat beside its memory", "repeat run", CASE, later(1, guards_ok=lambda made, inputs: False)),
    ("a repeat without a launch", "repeat run", CASE, later(1, witnesses=no_witness)),
    ("a work shape beside its memory", "shape 4 run", CASE, in_shape(4, guards_ok=lambda made, inputs: False)),
    ("a work shape not launched", "shape 4 run", CASE, in_shape(4, witnesses=no_witness)),
    ("a work shape counts nothing lost", "shape 2 run", BROKEN, in_shape(2, lost=lambda made, inputs: (0, 0, 0))),
    ("a work shape ignores others", "shape 2 run", STRAY, in_shape(2, ignored=lambda made, inputs: 77)),
    ("a part counts nothing lost", "in parts run", BROKEN, later(4, lost=lambda made, inputs: (0, 0, 0))),
    ("a code of h one off", "h", CASE, having(h=code_one_off)),
    ("a code of h one off, bits", "bits of h", CASE, having(h=code_one_off)),
    ("a scale of h one step off", "bits of the scales of h", CASE, having(h=scale_one_step)),
    ("scales of h in FP16", "h", CASE, having(h=scales_in_fp16)),
    ("a gate beyond its bound", "gate", CASE, having(gate=gate_beyond)),
    ("an up one step off", "bits of up", CASE, having(up=up_one_step)),
    ("rows of two pairs are one", "grouping", CASE, grouping(slot=lambda slot: np.where(slot == 1, 0, slot))),
    ("rows beside their expert's", "grouping", CASE, grouping(slot=lambda slot: slot[::-1])),
    ("two pairs of a token share a row", "grouping", REPEATED, grouping(slot=first_twice)),
    ("pairs of a token swapped", "grouping", CASE, grouping(slot=first_two_swapped)),
    ("rows of other tokens", "grouping", CASE, grouping(source=ends_swapped)),
    ("first rows shifted", "grouping", CASE, grouping(offsets=lambda at: np.roll(at, 1))),
    ("ignored pairs not counted", "ignored", STRAY, having(ignored=lambda made, inputs: 0)),
    ("rows of nobody -0", "nobody's rows", STRAY, having(out=minus_zeros)),
    ("broken tokens give zeros", "broken rows", BROKEN, having(out=lambda made, inputs: np.nan_to_num(made.out))),
    ("zeros where NaN is due", "bits", BROKEN, having(out=lambda made, inputs: for_nan(made.out, 0))),
    ("infinities where NaN is due", "bits", BROKEN, having(out=lambda made, inputs: for_nan(made.out, np.inf))),
    ("broken blocks not counted", "lost x", BROKEN, not_counting(0)),
    ("broken h not counted", "lost h", BROKEN, not_counting(1)),
)  # fmt: skip


def negative() -> Iterator[Control]:
    """Every fault, refused by its check; and faults of the baseline and of a tier."""
    for name, check, case, wrong in ROWS:
        yield Control(f"expert/{name}", partial(_negative, case, wrong, check), f"EXCEEDS by {check}")
    yield Control("expert/baseline wrong", _baseline, "EXCEEDS by baseline bits")
    yield Control("expert/baseline NaN", _baseline_nan, "EXCEEDS by baseline bound")
    yield Control("expert/tiers differ", _tiers, "EXCEEDS by as sm75")
    yield Control("expert/soft data", _soft, "VOID by data")


def _negative(case: ExpertCase, wrong: Wrong, check: str) -> str:
    return said(_run(case, wrong), check)


def _baseline() -> str:
    return said(_run(CASE, None, edited(flip_last_bit)), "baseline bits")


def _baseline_nan() -> str:
    return said(_run(CASE, None, edited(put((0, 0, 0), np.nan))), "baseline bound")


def _tiers() -> str:
    """The other tier ran the case just before, and one bit of it was another."""
    memo = Memo()
    turing = PATHS[PATH.name.replace("sm80", "sm75")]
    judged(CASE, turing, LANES, Settings(), memo, {"expert_fused": _kernel(edited(flip_last_bit))})
    found = judged(CASE, PATH, LANES, Settings(), memo, {"expert_fused": _kernel()})
    return said(found, "as sm75")


def _soft() -> str:
    """Inputs whose experts are all the same."""
    memo, data = Memo(), build(CASE, PATH.mode)
    data.blobs[:] = data.blobs[:1]
    memo.get("expert inputs", (CASE, PATH.mode), lambda: data)
    return said(judged(CASE, PATH, LANES, Settings(), memo, {"expert_fused": _kernel()}), "data")


def positive() -> Iterator[Control]:
    """The model itself passes, on every kind of case."""
    for case in (CASE, STRAY, BROKEN):
        yield Control(f"expert/healthy {case.recipe}", partial(_healthy, case), "EXACT: nothing")


def _healthy(case: ExpertCase) -> str:
    return said(_run(case, None), "")
