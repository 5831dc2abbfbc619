"""Negative controls of expert paths: wrong results given to the real runner, each with the check that must refuse it.

A control's answer is the verdict and whether the check made for the fault refused, else the checks that did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from strata.executors.base import POISON_OUTPUT, Executor, Witness
from strata.kernels.combine import Combined
from strata.kernels.paths import PATHS, Path
from strata.kernels.router import Routing
from validation import around_case, expert_case, runner
from validation.around_case import Around
from validation.attention_case import Memo
from validation.controls.control import Control
from validation.controls.stand_in import StubExecutor, witness
from validation.experts import stand_in
from validation.experts.arithmetic import FUSED, MMQ, Arithmetic
from validation.experts.case import ExpertCase
from validation.experts.inputs import Inputs, build
from validation.experts.operation import ExpertOperation, Outcome, Shape
from validation.findings import Findings
from validation.reference import combine as combine_reference
from validation.reference import router as router_reference
from validation.settings import Settings

LANES = StubExecutor()
PATH = PATHS["expert_fused/iq3_xxs/iq4_nl/sm80"]
#: Signed scales; ids that name nobody; tokens that are not finite.
CASE = ExpertCase("experts_decades", 5, 5, 4, 2, 256, 64)
STRAY, BROKEN = replace(CASE, recipe="experts_stray"), replace(CASE, recipe="experts_broken")
REPEATED = replace(CASE, recipe="experts_repeated")
SHAPES = (2, 4)

#: Changes an outcome; call: the how-manyth run of the kernel it is, from 1 on.
Wrong = Callable[[Outcome, Inputs, Shape | None, int], Outcome]


@dataclass
class _Kept:
    """Outcomes of the few inputs that the controls have: computed once each."""

    held: dict[tuple[bytes, ...], Outcome] = field(default_factory=dict)

    def __call__(self, inputs: Inputs, executor: Executor, arithmetic: Any) -> Outcome:
        key = (inputs.blobs[-1].tobytes(), inputs.x.tobytes(), inputs.ids.tobytes(), repr(arithmetic).encode())
        if key not in self.held:
            self.held[key] = stand_in.outcome(inputs, executor, arithmetic)
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
    usual = stand_in.kernel(shapes=SHAPES)

    def run(executor: Executor, path: Path, inputs: Inputs, shape: Shape | None, trace: bool) -> Outcome:
        calls.append(1)
        made = _kept(inputs, executor, arithmetic)
        made = made if wrong is None else wrong(made, inputs, shape, len(calls))
        return made if trace else replace(made, gate=None, up=None)

    return replace(usual, run=run, arithmetic=arithmetic)


def _run(case: ExpertCase, wrong: Wrong | None, base: Wrong | None = None, memo: Memo | None = None) -> Findings:
    # Inputs, bits and models are kept from control to control; what a kernel gave is not.
    held = memo or _memo
    for kind in ("expert old", "expert tiers"):
        held.forget(kind)
    operations = {"expert_fused": _kernel(wrong), "expert_mmq": replace(_kernel(base, MMQ), refuses_strays=False)}
    return expert_case.run(case, PATH, LANES, Settings(), held, operations)


def _said(found: Findings, check: str) -> str:
    refused = [one.name for one in found.checks if not one.verdict.passes]
    verdict = runner.settle(found.checks).value
    return f"{verdict} by {check}" if check in refused else f"{verdict}: {', '.join(refused) or 'nothing'}"


def _edited(edit: Callable[[np.ndarray], object]) -> Wrong:
    """The output edited in place."""

    def wrong(made: Outcome, inputs: Inputs, shape: Shape | None, call: int) -> Outcome:
        edit(made.out)
        return made

    return wrong


def _set(index: Any, value: Any) -> Wrong:
    def edit(out: np.ndarray) -> None:
        out[index] = value(out[index]) if callable(value) else value

    return _edited(edit)


def _flip(out: np.ndarray) -> None:
    out.view(np.uint32)[-1, -1, -1] ^= 1


def _for_nan(out: np.ndarray, value: float) -> np.ndarray:
    return np.where(np.isnan(out), np.float32(value), out)


def _poison(out: np.ndarray) -> None:
    out.view(np.uint32)[-1, -1, -1] = POISON_OUTPUT


def _when(applies: Callable[[Shape | None, int], bool]) -> Wrong:
    """One bit wrong in some of the runs."""

    def wrong(made: Outcome, inputs: Inputs, shape: Shape | None, call: int) -> Outcome:
        if applies(shape, call):
            _flip(made.out)
        return made

    return wrong


def _with(**changes: Callable[[Outcome, Inputs], Any]) -> Wrong:
    """Fields replaced."""

    def wrong(made: Outcome, inputs: Inputs, shape: Shape | None, call: int) -> Outcome:
        fields: dict[str, Any] = {name: change(made, inputs) for name, change in changes.items()}
        return replace(made, **fields)

    return wrong


def _in_shape(asked: Shape, **changes: Callable[[Outcome, Inputs], Any]) -> Wrong:
    """Fields replaced in one work shape alone."""
    change = _with(**changes)
    return lambda made, inputs, shape, call: change(made, inputs, shape, call) if shape == asked else made


def _later(after: int, **changes: Callable[[Outcome, Inputs], Any]) -> Wrong:
    """Fields replaced in every run after so many."""
    change = _with(**changes)
    return lambda made, inputs, shape, call: change(made, inputs, shape, call) if call > after else made


def _code(made: Outcome, inputs: Inputs) -> Any:
    """One code of h one off, where no tie is near: the largest of its block."""
    assert made.h is not None
    q = made.h.q.copy()
    row, at = (int(i) for i in np.argwhere(np.abs(q.astype(int)) == 127)[-1])
    q[row, at] -= np.sign(q[row, at])
    return replace(made.h, q=q)


def _scale(made: Outcome, inputs: Inputs) -> Any:
    """One scale of h one float32 step off."""
    assert made.h is not None
    scale = made.h.scale.copy()
    scale.view(np.uint32)[-1, -1] += 1
    return replace(made.h, scale=scale)


def _coarse(made: Outcome, inputs: Inputs) -> Any:
    """Scales of h rounded to FP16."""
    assert made.h is not None
    with np.errstate(over="ignore"):
        return replace(made.h, scale=made.h.scale.astype(np.float16).astype(np.float32))


def _far(made: Outcome, inputs: Inputs) -> np.ndarray:
    """One accumulator of gate off by 2**-16 of itself."""
    assert made.gate is not None
    gate = made.gate.copy()
    gate[-1, -1, -1] *= np.float32(1 + 2.0**-16)
    return gate


def _step(made: Outcome, inputs: Inputs) -> np.ndarray:
    """One accumulator of up one float32 step off."""
    assert made.up is not None
    up = made.up.copy()
    up.view(np.uint32)[-1, -1, -1] += 1
    return up


def _grouping(**edits: Callable[[np.ndarray], np.ndarray]) -> Wrong:
    def change(made: Outcome, inputs: Inputs) -> Any:
        assert made.grouping is not None
        parts: dict[str, Any] = {name: edit(getattr(made.grouping, name).copy()) for name, edit in edits.items()}
        return replace(made.grouping, **parts)

    return _with(grouping=change)


def _witnesses(**changes: Any) -> Wrong:
    return _with(witnesses=lambda made, inputs: [witness(LANES, (1, 1, 1), **changes)])


def _none(made: Outcome, inputs: Inputs) -> list[Witness]:
    return []


def _first_two_swapped(x: np.ndarray) -> np.ndarray:
    x[[0, 1]] = x[[1, 0]]
    return x


def _first_twice(x: np.ndarray) -> np.ndarray:
    x[1] = x[0]
    return x


def _swapped(x: np.ndarray) -> np.ndarray:
    x[[0, -1]] = x[[-1, 0]]
    return x


def _lost(stage: int) -> Wrong:
    """One stage's count of what is not finite as 0."""

    def change(made: Outcome, inputs: Inputs) -> Any:
        assert made.lost is not None
        return tuple(0 if index == stage else count for index, count in enumerate(made.lost))

    return _with(lost=change)


def _minus(made: Outcome, inputs: Inputs) -> np.ndarray:
    """-0 in the rows of ids that name nobody."""
    return np.where(inputs.named[..., None], made.out, np.float32(-0.0))


#: fault, the check that must refuse it, case, what is wrong.
ROWS: tuple[tuple[str, str, ExpertCase, Wrong], ...] = (
    ("zeros", "bound", CASE, _set(np.s_[:], 0)),
    ("a NaN at the end", "bound", CASE, _set((-1, -1, -1), np.nan)),
    ("infinity at the beginning", "bits", CASE, _set((0, 0, 0), np.inf)),
    ("one bit", "bits", CASE, _edited(_flip)),
    ("poison at the end", "written", CASE, _edited(_poison)),
    ("tokens shifted", "bound", CASE, _edited(lambda out: out.__setitem__(np.s_[:], np.roll(out, 1, axis=0)))),
    ("ranks swapped", "bound", CASE, _edited(lambda out: out.__setitem__(np.s_[:], out[:, ::-1].copy()))),
    ("columns shifted", "bound", CASE, _edited(lambda out: out.__setitem__(np.s_[:], np.roll(out, 1, axis=2)))),
    ("last row stale", "bits", CASE, _edited(lambda out: out.__setitem__(np.s_[-1, -1], out[0, 0].copy()))),
    ("one rank negated", "bits", CASE, _set(np.s_[:, 1], lambda x: -x)),
    ("weighted rows", "bits", CASE, _set(np.s_[:], lambda x: x * np.float32(0.5))),
    ("fewer rows", "shape", CASE, _with(out=lambda made, inputs: made.out[:-1])),
    ("another dtype", "written", CASE, _with(out=lambda made, inputs: made.out.astype(np.float64))),
    ("memory beside a buffer", "guards", CASE, _with(guards_ok=lambda made, inputs: False)),
    ("nothing launched", "witness", CASE, _with(witnesses=_none)),
    ("another image", "images", CASE, _witnesses(image="f" * 64)),
    ("another entry", "images", CASE, _witnesses(entry="expert_mmq")),
    ("another executor", "witness", CASE, _witnesses(executor="cuda")),
    ("the second run differs", "repeat", CASE, _when(lambda shape, call: call == 2)),
    ("a work shape differs", "shape 4", CASE, _when(lambda shape, call: shape == SHAPES[-1])),
    ("a cut differs", "in parts", CASE, _when(lambda shape, call: shape is None and call > 2)),
    ("launched twice", "images", CASE, _with(witnesses=lambda made, inputs: made.witnesses * 2)),
    ("a repeat beside its memory", "repeat run", CASE, _later(1, guards_ok=lambda made, inputs: False)),
    ("a repeat without a launch", "repeat run", CASE, _later(1, witnesses=_none)),
    ("a work shape beside its memory", "shape 4 run", CASE, _in_shape(4, guards_ok=lambda made, inputs: False)),
    ("a work shape not launched", "shape 4 run", CASE, _in_shape(4, witnesses=_none)),
    ("a work shape counts nothing lost", "shape 2 run", BROKEN, _in_shape(2, lost=lambda made, inputs: (0, 0, 0))),
    ("a work shape ignores others", "shape 2 run", STRAY, _in_shape(2, ignored=lambda made, inputs: 77)),
    ("a part counts nothing lost", "in parts run", BROKEN, _later(4, lost=lambda made, inputs: (0, 0, 0))),
    ("a code of h one off", "h", CASE, _with(h=_code)),
    ("a code of h one off, bits", "bits of h", CASE, _with(h=_code)),
    ("a scale of h one step off", "bits of the scales of h", CASE, _with(h=_scale)),
    ("scales of h in FP16", "h", CASE, _with(h=_coarse)),
    ("a gate beyond its bound", "gate", CASE, _with(gate=_far)),
    ("an up one step off", "bits of up", CASE, _with(up=_step)),
    ("rows of two pairs are one", "grouping", CASE, _grouping(slot=lambda slot: np.where(slot == 1, 0, slot))),
    ("rows beside their expert's", "grouping", CASE, _grouping(slot=lambda slot: slot[::-1])),
    ("two pairs of a token share a row", "grouping", REPEATED, _grouping(slot=_first_twice)),
    ("pairs of a token swapped", "grouping", CASE, _grouping(slot=_first_two_swapped)),
    ("rows of other tokens", "grouping", CASE, _grouping(source=_swapped)),
    ("first rows shifted", "grouping", CASE, _grouping(offsets=lambda at: np.roll(at, 1))),
    ("ignored pairs not counted", "ignored", STRAY, _with(ignored=lambda made, inputs: 0)),
    ("rows of nobody -0", "nobody's rows", STRAY, _with(out=_minus)),
    ("broken tokens give zeros", "broken rows", BROKEN, _with(out=lambda made, inputs: np.nan_to_num(made.out))),
    ("zeros where NaN is due", "bits", BROKEN, _with(out=lambda made, inputs: _for_nan(made.out, 0))),
    ("infinities where NaN is due", "bits", BROKEN, _with(out=lambda made, inputs: _for_nan(made.out, np.inf))),
    ("broken blocks not counted", "lost x", BROKEN, _lost(0)),
    ("broken h not counted", "lost h", BROKEN, _lost(1)),
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
    return _said(_run(case, wrong), check)


def _baseline() -> str:
    return _said(_run(CASE, None, _edited(_flip)), "baseline bits")


def _baseline_nan() -> str:
    return _said(_run(CASE, None, _set((0, 0, 0), np.nan)), "baseline bound")


def _tiers() -> str:
    """The other tier ran the case just before, and one bit of it was another."""
    memo = Memo()
    turing = PATHS[PATH.name.replace("sm80", "sm75")]
    expert_case.run(CASE, turing, LANES, Settings(), memo, {"expert_fused": _kernel(_edited(_flip))})
    found = expert_case.run(CASE, PATH, LANES, Settings(), memo, {"expert_fused": _kernel()})
    return _said(found, "as sm75")


def _soft() -> str:
    """Inputs whose experts are all the same."""
    memo = Memo()
    data: Inputs = memo.get("expert inputs", (CASE, PATH.mode), lambda: build(CASE, PATH.mode))
    data.blobs[:] = data.blobs[:1]
    return _said(expert_case.run(CASE, PATH, LANES, Settings(), memo, {"expert_fused": _kernel()}), "data")


def positive() -> Iterator[Control]:
    """The model itself passes, on every kind of case."""
    for case in (CASE, STRAY, BROKEN):
        yield Control(f"expert/healthy {case.recipe}", partial(_healthy, case), "EXACT: nothing")
    for recipe, operation in (("router_ties", "router"), ("combine_cancelling", "combine")):
        yield Control(f"{operation}/healthy", partial(_around, recipe, operation, None, ""), "EXACT: nothing")


def _healthy(case: ExpertCase) -> str:
    return _said(_run(case, None), "")


#: Changes the ids and weights of the router, or the output of combining.
Spoiled = Callable[[Any], Any]


def _around(recipe: str, operation: str, spoil: Spoiled | None, check: str) -> str:
    case = ExpertCase(recipe, 5, 6, 40, 5, 256, 64)

    def route(executor: Executor, logits: np.ndarray, ranks: int) -> Routing:
        due = router_reference.route(logits, ranks)
        nans, infinities = int(np.isnan(logits).sum()), int(np.isinf(logits).sum())
        made = Routing(
            due.ids, router_reference.weight_bits(logits, ranks), nans, infinities, [witness(LANES, (1, 1, 1))], True
        )
        return made if spoil is None else spoil(made)

    def combine(executor: Executor, *parts: Any) -> Combined:
        with np.errstate(invalid="ignore", over="ignore"):
            out = combine_reference.combine_bits(*parts)
        made = Combined(out, int((~np.isfinite(out)).sum()), [witness(LANES, (1, 1, 1))], True)
        return made if spoil is None else spoil(made)

    kernels = Around(route, combine, lambda name: list(stand_in.kernel().kernels(PATH, None, None)))
    return _said(around_case.run(case, PATHS[f"{operation}/fp32/simt"], LANES, Settings(), kernels), check)


def _bit(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    out.view(np.uint32).reshape(-1)[-1] ^= 1
    return out


AROUND: tuple[tuple[str, str, str, str, Spoiled], ...] = (
    ("larger ids of ties", "router", "router_ties", "ids", lambda r: r._replace(ids=r.ids[:, ::-1].copy())),
    ("an id twice", "router", "router_bell", "ids", lambda r: r._replace(ids=np.repeat(r.ids[:, :1], 5, axis=1))),
    ("one bit of a weight", "router", "router_bell", "bits", lambda r: r._replace(weights=_bit(r.weights))),
    ("weights not renormalised", "router", "router_bell", "bound", lambda r: r._replace(weights=r.weights / 2)),
    ("NaN not counted", "router", "router_broken", "nans", lambda r: r._replace(nans=0)),
    ("infinities not counted", "router", "router_broken", "infinities", lambda r: r._replace(infinities=0)),
    ("nothing launched", "router", "router_bell", "witness", lambda r: r._replace(witnesses=[])),
    ("one bit of a sum", "combine", "combine_decades", "bits", lambda c: c._replace(out=_bit(c.out))),
    ("zeros", "combine", "combine_decades", "bound", lambda c: c._replace(out=np.zeros_like(c.out))),
    ("losses not counted", "combine", "combine_broken", "lost", lambda c: c._replace(lost=0)),
    (
        "infinities hidden",
        "combine",
        "combine_broken",
        "broken",
        lambda c: c._replace(out=np.nan_to_num(c.out), lost=0),
    ),
    (
        "a NaN for an infinity",
        "combine",
        "combine_broken",
        "bits",
        lambda c: c._replace(out=np.where(np.isinf(c.out), np.float32(np.nan), c.out)),
    ),
    ("guards", "combine", "combine_alone", "guards", lambda c: c._replace(guards_ok=False)),
)


def around() -> Iterator[Control]:
    """Faults of the router and of combining."""
    for name, operation, recipe, check, spoil in AROUND:
        yield Control(f"{operation}/{name}", partial(_around, recipe, operation, spoil, check), f"EXCEEDS by {check}")
