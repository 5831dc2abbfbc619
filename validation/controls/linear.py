"""Negative and positive controls of dense products: wrong products and codes given to the real runner, each with the
check that must refuse it; see `experts`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from strata.kernels.paths import PATHS
from validation.controls.experts import said
from validation.core.control import Control
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.outcome import Outcome
from validation.core.settings import Settings
from validation.core.stub_executor import StubExecutor
from validation.operations.linear.case import LinearCase
from validation.operations.linear.kernels import UNITS, Multiplier
from validation.operations.linear.operation import Linear
from validation.operations.linear.stub_kernels import Asked, Fault, multiplier

LANES = StubExecutor()
TENSOR, OFFSET, HALVES = PATHS["linear/q6_k/sm80"], PATHS["linear/q4_k/sm75"], PATHS["linear_f16/f16/simt"]


def case(recipe: str) -> LinearCase:
    """A small case of two blocks a row."""
    return LinearCase(recipe, 5, 5, 6, 512)


def judged(own: Multiplier, recipe: str, base: Multiplier | None = None, path: str = TENSOR.name) -> Findings:
    """A case on stand-ins. base: of the baseline, healthy by default."""
    name = PATHS[path].operation
    kernels = {each: multiplier() for each in ("linear_dp4a", "linear", "linear_f16")}
    operation = Linear(name, {**kernels, "linear_dp4a": base or multiplier(), name: own})
    return operation.judge(Trial(operation, case(recipe), PATHS[path], LANES, Settings(), Memo()))


def _asked(recipe: str, path: str, check: str, fault: Fault | None) -> str:
    return said(judged(multiplier(fault), recipe, path=path), check)


def _always(asked: Asked) -> bool:
    return True


def changed(change: Callable[[np.ndarray], None], name: str = "out", when: Callable[[Asked], bool] = _always) -> Fault:
    """One output changed in place, in some runs."""

    def fault(made: Outcome, asked: Asked) -> Outcome:
        if not when(asked):
            return made
        outputs = {each: array.copy() for each, array in made.outputs.items()}
        change(outputs[name])
        return replace(made, outputs=outputs)

    return fault


def one_bit(out: np.ndarray) -> None:
    """The last bit of the last element."""
    out.reshape(-1).view(np.uint8)[-4] ^= 1


def _code(units: np.ndarray) -> None:
    """The first code of the last row by one."""
    units[-1, 0, 32] += 1


def _sum(units: np.ndarray) -> None:
    """The first sum of codes of the last row by one."""
    units[-1, 0, 16] += 1


def _zeros(out: np.ndarray) -> None:
    out[...] = 0


def _halved(out: np.ndarray) -> None:
    out *= np.float32(0.5)


def _rolled(out: np.ndarray) -> None:
    """Each output's product for the one behind it."""
    out[...] = np.roll(out, 1, axis=1)


def _finite(out: np.ndarray) -> None:
    out[np.isnan(out)] = 0


def _later(asked: Asked) -> bool:
    return asked.run > 1 and asked.cut is None


def _in_parts(asked: Asked) -> bool:
    return asked.cut is not None


#: fault, recipe, the check that must refuse it, what is wrong.
ROWS: tuple[tuple[str, str, str, Fault], ...] = (
    ("one bit of a product", "linear_bell", "bits", changed(one_bit)),
    ("a code one off", "linear_bell", "units", changed(_code, UNITS)),
    ("a sum of codes one off", "linear_bell", "units", changed(_sum, UNITS)),
    ("zeros", "linear_decades", "bound", changed(_zeros)),
    ("half of it", "linear_extreme", "bound", changed(_halved)),
    ("another output's product", "linear_bell", "bound", changed(_rolled)),
    ("a NaN as zero", "linear_broken", "bits", changed(_finite)),
    ("losses not counted", "linear_broken", "lost", lambda made, asked: replace(made, counts={"lost": 0})),
    ("one bit in another order of rows", "linear_bell", "repeat", changed(one_bit, when=_later)),
    ("a code in another order of rows", "linear_bell", "repeat of units", changed(_code, UNITS, _later)),
    ("one bit of rows from one on", "linear_bell", "parts", changed(one_bit, when=_in_parts)),
    ("nothing launched", "linear_bell", "witness", lambda made, asked: replace(made, witnesses=[])),
    ("memory beside a buffer", "linear_bell", "guards", lambda made, asked: replace(made, guards_ok=False)),
    (
        "memory beside a buffer of rows from one on",
        "linear_bell",
        "guards of parts",
        lambda made, asked: replace(made, guards_ok=not _in_parts(asked)),
    ),
)


def _wrong_baseline(fault: Fault, check: str) -> str:
    return said(judged(multiplier(), "linear_bell", multiplier(fault)), check)


def negative() -> Iterator[Control]:
    """Faults of products, of codes, and of the baseline."""
    for name, recipe, check, fault in ROWS:
        yield Control(f"linear/{name}", partial(_asked, recipe, TENSOR.name, check, fault), f"EXCEEDS by {check}")
    for check, change in (("baseline bits", one_bit), ("baseline bound", _rolled)):
        ask = partial(_wrong_baseline, changed(change), check)
        yield Control(f"linear/a wrong baseline: {check}", ask, f"EXCEEDS by {check}")
    for check, change in (("bits", one_bit), ("bound", _rolled)):
        ask = partial(_asked, "linear_bell", HALVES.name, check, changed(change))
        yield Control(f"linear/wrong products of FP16: {check}", ask, f"EXCEEDS by {check}")


def positive() -> Iterator[Control]:
    """The models themselves pass."""
    for recipe, path in (("linear_broken", TENSOR), ("linear_ladder", OFFSET), ("linear_extreme", HALVES)):
        yield Control(
            f"linear/healthy {recipe} of {path.mode}", partial(_asked, recipe, path.name, "", None), "EXACT: nothing"
        )
