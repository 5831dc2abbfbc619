"""Negative controls: wrong kernels given to the real runner on one tiny case, each with the check that must refuse it.

A control's answer is the verdict and then those of the expected checks that refused; so a kernel that is refused by
another check than the one made for it is told as well. The healthy stand-in's answer lists every check that was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from strata.executors.base import Executor, LaunchError, StrataError
from strata.kernels.paths import PATHS, Path
from validation.controls.edits import Edit, flip_last_bit, poison, put
from validation.core.arrays import frozen
from validation.core.control import Control
from validation.core.memo import Memo
from validation.core.settings import Settings
from validation.core.stub_executor import StubCard, StubExecutor
from validation.operations.attention import bound as path_bound
from validation.operations.attention import pools, stub_kernels
from validation.operations.attention.kernels import Operation, Outcome
from validation.operations.attention.operation import under_test
from validation.operations.attention.pools import Inputs
from validation.operations.attention.reference import attend
from validation.operations.attention.sampling import EVERY_QUERY
from validation.operations.attention.stub_kernels import Attended, StubOutcome
from validation.operations.kv_pack.case import Case
from validation.run import runner

PATH = PATHS["prompt_attention/q4_0/sm80"]
#: Scales of both signs over decades; past a chunk of 32 cells, two KV heads of four query heads, three queries.
CASE = Case("signed_decades", 5, 41, 3, 4, n_head_kv=2, group=4)
OTHER = replace(CASE, seed=6)
#: One query more than have a reference each.
MANY = replace(CASE, context=EVERY_QUERY + 1, queries=EVERY_QUERY + 1)

LANES = StubExecutor()
attention = Attended()
kernel = partial(stub_kernels.kernel, compute=attention)


def _healthy() -> dict[str, Operation]:
    return {"prompt_attention": kernel(), "decode_attention": kernel(order=-1)}


#: Every check of a case on lanes, in order.
ALL_CHECKS = (
    "data",
    "written",
    "guards",
    "witness",
    "repeat",
    "baseline guards",
    "baseline witness",
    "certificate",
    "bound",
    "agreement",
    "certified",
    "baseline bound",
    "self",
)


@cache
def _inputs(case: Case = CASE) -> Inputs:
    return frozen(pools.build(case, PATH.mode))


@cache
def _answer() -> tuple[np.ndarray, np.ndarray]:
    """The reference and the path's bound on CASE, which the runner works out for itself as well."""
    inputs = _inputs()
    reference = attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, np.arange(CASE.queries))
    return frozen((reference.out, path_bound.bound(PATH, inputs, reference, LANES)))


def _beyond(share: float) -> np.ndarray:
    """The right answer, its last element off by a share of its bound (and at least a float32 step further)."""
    right, bound = _answer()
    out = right.astype(np.float32)
    off = right[-1, -1, -1] + share * bound[-1, -1, -1]
    out[-1, -1, -1] = np.nextafter(np.float32(off), np.float32(np.inf))
    return out


def _edited(edit: Edit) -> Operation:
    """A kernel whose output is edited in place."""

    def fault(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        edit(out)
        return out

    return kernel(fault)


def _gives(make: Callable[[], np.ndarray]) -> Operation:
    """A kernel that gives an array, whatever its inputs (a copy each time)."""
    return kernel(lambda out, inputs: make().copy())


def _raises(error: StrataError) -> Operation:
    def launch(executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        raise error

    return replace(kernel(), run=launch)


def _unlaunched(make: Callable[[Inputs], np.ndarray]) -> Operation:
    """A kernel that gives an array and launches nothing."""
    return replace(kernel(), run=lambda executor, path, inputs: StubOutcome(make(inputs), []))


def _once(edit: Edit) -> Operation:
    """A kernel whose second run is edited."""
    runs: list[int] = []

    def fault(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        runs.append(1)
        if len(runs) == 2:
            edit(out)
        return out

    return kernel(fault)


def _permute(out: np.ndarray) -> None:
    out[:] = np.roll(out, 1, axis=1)


@dataclass(frozen=True)
class Negative:
    """kernels: by operation, made when asked; checks: every one of them must refuse, with the case's verdict."""

    name: str
    kernels: Callable[[], dict[str, Operation]]
    checks: tuple[str, ...]
    verdict: str = "EXCEEDS"
    executor: Executor = field(default_factory=lambda: LANES)
    settings: Callable[[], Settings] = field(default=Settings)


def _new(name: str, make: Callable[[], Operation], *checks: str, **more: Any) -> Negative:
    return Negative(name, lambda: {"prompt_attention": make()}, checks, **more)


def _old(name: str, make: Callable[[], Operation], *checks: str, **more: Any) -> Negative:
    return Negative(name, lambda: {"decode_attention": make()}, checks, **more)


def _off_prediction(operation: str) -> dict[str, Operation]:
    """A card's kernel with one bit other than lanes give."""
    plain = _healthy()[operation]

    def launch(executor: Executor, path: Path, inputs: Inputs) -> Outcome:
        outcome = plain.run(executor, path, inputs)
        if executor.name == "cuda":
            flip_last_bit(outcome.out)
        return outcome

    return {operation: replace(plain, run=launch)}


class _Clock(StubCard):
    """A card with a clock, which runs what it times once."""

    def time_launches(self, launch: Callable[[], object], reps: int) -> list[float]:
        launch()
        return [1.0] * reps


class _Out:
    def __init__(self, out: np.ndarray) -> None:
        self._out = out

    def host(self) -> np.ndarray:
        return self._out


def _timed(order: int, edit: Callable[[np.ndarray], object]) -> Operation:
    def prepare(executor: Executor, path: Path, inputs: Inputs) -> tuple[Callable[[], object], Any]:
        out = attention(inputs, order)
        edit(out)
        return lambda: None, _Out(out)

    return replace(kernel(order=order), prepare=prepare)


def _nothing(out: np.ndarray) -> None:
    """Leave an output as it is."""


def _timing(edited: str) -> dict[str, Operation]:
    return {
        name: _timed(order, flip_last_bit if name == edited else _nothing)
        for name, order in (("prompt_attention", 1), ("decode_attention", -1))
    }


_NUMBERS = ("bound", "agreement", "certified")
_PREDICTED = partial(Settings, predict="all", predictor=lambda rule: LANES)
_CARD = StubCard()

NEGATIVE: tuple[Negative, ...] = (
    _new("writes nothing", lambda: _edited(poison(...)), "written", *_NUMBERS),
    _new("leaves the last element", lambda: _edited(poison()), "written", "bound"),
    _new("launches nothing", lambda: _unlaunched(attention), "witness"),
    _new("copies the expected buffer", lambda: _unlaunched(lambda i: _answer()[0].astype(np.float32)), "witness"),
    _new("zeros", lambda: _edited(put(..., 0)), *_NUMBERS),
    _new("a constant", lambda: _edited(put(..., 0.5)), *_NUMBERS),
    _new("NaN everywhere", lambda: _edited(put(..., np.nan)), *_NUMBERS),
    _new("one NaN", lambda: _edited(put((-1, -1, -1), np.nan)), *_NUMBERS),
    _new("one infinity", lambda: _edited(put((0, 0, 0), np.inf)), *_NUMBERS),
    _new("the answer of another seed", lambda: _gives(lambda: attention(_inputs(OTHER))), *_NUMBERS),
    _new("one stale row", lambda: _edited(lambda out: put(-1, out[0].copy())(out)), *_NUMBERS),
    _new("permuted heads", lambda: _edited(_permute), *_NUMBERS),
    _new("one flipped head", lambda: _edited(put(np.s_[:, -1], np.negative)), *_NUMBERS),
    _new("scaled by 1 + 2^-12", lambda: _edited(put(..., lambda out: out * np.float32(1 + 2.0**-12))), *_NUMBERS),
    _new("last element beyond its bound", lambda: _gives(lambda: _beyond(1.0)), "bound"),
    _new("wrong shape", lambda: kernel(lambda out, inputs: out[:2]), "shape"),
    _new("wrong shape that broadcasts", lambda: kernel(lambda out, inputs: out[:1]), "shape"),
    _new("float64", lambda: kernel(lambda out, inputs: out.astype(np.float64)), "written", "bound"),
    _new("float16", lambda: kernel(lambda out, inputs: out.astype(np.float16)), "written", "bound"),
    _new("another kernel", lambda: kernel(entry="decode_attention_chunk"), "witness"),
    _new("image of another architecture", lambda: kernel(arch="sm_75"), "witness"),
    _new("another image", lambda: kernel(image="f" * 64), "witness"),
    _new("another executor", lambda: kernel(executor="cuda"), "witness"),
    _new("fewer blocks than its grid", lambda: kernel(blocks_run=1), "witness"),
    _new("a smaller grid", lambda: kernel(grid=(1, 1, 1), blocks_run=1), "witness"),
    _new("another bit in the second run", lambda: _once(flip_last_bit), "repeat"),
    _new("NaN in the second run", lambda: _once(put((0, 0, 0), np.nan)), "repeat"),
    _new("overwritten guard", lambda: kernel(guards_ok=False), "guards"),
    _new("raises", lambda: _raises(StrataError("control")), "run", verdict="NOT_RUN"),
    _new("faults", lambda: _raises(LaunchError("control")), "run", verdict="NOT_RUN"),
    _old("baseline with a flipped head", lambda: _edited(put(np.s_[:, 0], np.negative)), "baseline bound"),
    _old("baseline of zeros", lambda: _edited(put(..., 0)), "baseline bound", "agreement"),
    _old("baseline with a NaN", lambda: _edited(put((-1, -1, -1), np.nan)), "baseline bound"),
    _old("baseline of another image", lambda: kernel(order=-1, image="f" * 64), "baseline witness"),
    _old("baseline with an overwritten guard", lambda: kernel(order=-1, guards_ok=False), "baseline guards"),
    _old("baseline raises", lambda: _raises(StrataError("control")), "run", verdict="NOT_RUN"),
    Negative(
        "path and baseline share a fault",
        lambda: dict.fromkeys(("prompt_attention", "decode_attention"), _edited(put(np.s_[:, 0], np.negative))),
        ("bound", "baseline bound"),
    ),
    Negative(
        "one bit off the prediction",
        lambda: _off_prediction("prompt_attention"),
        ("prediction",),
        executor=_CARD,
        settings=_PREDICTED,
    ),
    Negative(
        "baseline one bit off its prediction",
        lambda: _off_prediction("decode_attention"),
        ("baseline prediction",),
        executor=_CARD,
        settings=_PREDICTED,
    ),
    Negative(
        "a card without a rule",
        dict,
        ("prediction",),
        verdict="INCONCLUSIVE",
        executor=StubCard(arch="sm_999", capability=999),
        settings=_PREDICTED,
    ),
    Negative(
        "timed path gives other bits",
        lambda: _timing("prompt_attention"),
        ("timed new",),
        executor=_Clock(),
        settings=partial(Settings, reps=1),
    ),
    Negative(
        "timed baseline gives other bits",
        lambda: _timing("decode_attention"),
        ("timed old",),
        executor=_Clock(),
        settings=partial(Settings, reps=1),
    ),
)


def _run(memo: Memo, executor: Executor, settings: Settings, kernels: dict[str, Operation]) -> dict[str, Any]:
    """The runner's result. Inputs, reference and bounds are CASE's each time; the baseline is run anew."""
    memo.forget("old")
    return runner.run_case(CASE, PATH, executor, settings, memo, under_test(_healthy() | kernels))


def _refusal(memo: Memo, negative: Negative) -> str:
    result = _run(memo, negative.executor, negative.settings(), negative.kernels())
    refused = [check["name"] for check in result["checks"] if check["verdict"] == negative.verdict]
    named = [name for name in negative.checks if name in refused]
    return f"{result['verdict']} by {', '.join(named or refused) or 'nothing'}"


def negative() -> Iterator[Control]:
    """Every wrong kernel, and what refuses it."""
    memo = Memo()
    for one in NEGATIVE:
        ask = partial(_refusal, memo, one)
        yield Control(f"kernel/{one.name}", ask, f"{one.verdict} by {', '.join(one.checks)}")


def _sampled(memo: Memo) -> str:
    """What predicting some queries of a case makes of it: a sample is no proof of every bit."""
    result = runner.run_case(MANY, PATH, _CARD, replace(_PREDICTED(), predict="sample"), memo, under_test(_healthy()))
    whole = {check["figures"]["all_bits"] for check in result["checks"] if check["name"] == "prediction"}
    return f"{result['verdict']}, {'all' if whole == {True} else 'some'} bits"


def _shared() -> str:
    """Which of four cases (another seed, another mode, the first again) come to the same with one memo as alone."""
    memo, alike = Memo(), []
    for case, path in ((CASE, PATH), (OTHER, PATH), (CASE, PATHS["prompt_attention/int8/sm80"]), (CASE, PATH)):
        sides = [run_figures(case, path, one) for one in (memo, Memo())]
        if sides[0] == sides[1]:
            alike.append(path.mode)
    return f"alike: {', '.join(alike)}"


def run_figures(case: Case, path: Path, memo: Memo) -> list[Any]:
    """Everything a case came to but its times."""
    result = runner.run_case(case, path, LANES, Settings(), memo, under_test(_healthy()))
    return [result["verdict"], result["checks"], result["figures"]]


def positive() -> Iterator[Control]:
    """The healthy kernel passes, with every check made; predicted whole it is EXACT; and so is what just fits."""
    memo = Memo()

    def ask(executor: Executor, settings: Settings, kernels: dict[str, Operation]) -> str:
        result = _run(memo, executor, settings, kernels)
        made = ", ".join(check["name"] for check in result["checks"])
        red = [check["name"] for check in result["checks"] if check["verdict"] not in ("EXACT", "WITHIN_BOUND")]
        return f"{result['verdict']} after {made}" + (f"; refused by {', '.join(red)}" if red else "")

    on_lanes = f"WITHIN_BOUND after {', '.join(ALL_CHECKS)}"
    base = ALL_CHECKS.index("baseline witness") + 1
    predicted = (*ALL_CHECKS[:base], "prediction", "baseline prediction", *ALL_CHECKS[base:])
    yield Control("kernel/healthy", partial(ask, LANES, Settings(), {}), on_lanes)
    yield Control(
        "kernel/healthy, predicted", partial(ask, _CARD, _PREDICTED(), {}), f"EXACT after {', '.join(predicted)}"
    )
    yield Control("kernel/healthy, a sample predicted", lambda: _sampled(memo), "WITHIN_BOUND, some bits")
    yield Control("kernel/cases that share a memo", _shared, "alike: q4_0, q4_0, int8, q4_0")
    timed = f"{on_lanes}, timed new, timed old"
    yield Control("kernel/healthy, timed", lambda: ask(_Clock(), Settings(reps=1), _timing("")), timed)
