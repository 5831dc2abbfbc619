"""Negative and positive controls of RMSNorm, gated activations, soft capping and residual sums: see `experts`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.kernels.paths import PATHS, Path
from strata.kernels.pointwise import Made
from strata.kernels.rms_norm import Normed
from validation.controls.expert_changes import LANES
from validation.controls.experts import said
from validation.core.control import Control
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.settings import Settings
from validation.core.stub_executor import BLOCK, ENTRY, witness
from validation.operations import registry
from validation.operations.gated.case import ElementCase
from validation.operations.gated.inputs import Inputs
from validation.operations.gated.launched import ELEMENTS
from validation.operations.gated.operation import OfElements
from validation.operations.rms_norm import reference
from validation.operations.rms_norm.case import NormCase
from validation.operations.rms_norm.operation import RmsNorm

#: Changes what a run gave; over: the input that it wrote over, None for a buffer of its own.
Spoiled = Callable[[Any, str | None], Any]


def norming(spoil: Spoiled | None = None) -> RmsNorm:
    """The model in the place of RMSNorm, its result changed by `spoil`."""

    def norm(
        executor: Executor,
        path: Path,
        x: np.ndarray,
        weight: np.ndarray,
        eps: float,
        residual: np.ndarray | None = None,
        over: str | None = None,
    ) -> Normed:
        out = reference.norm_bits(x, weight, residual, eps)
        made = Normed(out, reference.lost(x), [witness(LANES, (1, 1, 1))], True)
        return made if spoil is None else spoil(made, over)

    return RmsNorm(norm, _kernel)


def of_elements(name: str, spoil: Spoiled | None = None) -> OfElements:
    """The model in the place of an operation on elements, its result changed by `spoil`."""

    def run(executor: Executor, path: Path, inputs: Inputs, over: str | None) -> Made:
        made = Made(ELEMENTS[name].bits(path.mode, inputs), [witness(LANES, (1, 1, 1))], True)
        return made if spoil is None else spoil(made, over)

    return OfElements(name, registry.found()[name].rank, run, lambda path: _kernel())


def _kernel() -> Kernel:
    return Kernel(ENTRY, ENTRY, BLOCK)


def judged(operation: RmsNorm | OfElements, path: Path, recipe: str) -> Findings:
    """A small case of a recipe on stand-ins."""
    case = NormCase(recipe, 5, 6, 12) if operation.name == "rms_norm" else ElementCase(recipe, 5, 6, 9)
    return operation.judge(Trial(operation, case, path, LANES, Settings(), Memo()))


def _said(path: str, recipe: str, spoil: Spoiled | None, check: str) -> str:
    name = PATHS[path].operation
    made = norming(spoil) if name == "rms_norm" else of_elements(name, spoil)
    return said(judged(made, PATHS[path], recipe), check)


def _bit(made: Any, over: str | None) -> Any:
    out = made.out.copy()
    out.view(np.uint32).reshape(-1)[-1] ^= 1
    return made._replace(out=out)


def _only(place: str, spoil: Spoiled) -> Spoiled:
    """The fault of runs over one input alone."""
    return lambda made, over: spoil(made, over) if over == place else made


def _out(change: Callable[[np.ndarray], np.ndarray]) -> Spoiled:
    return lambda made, over: made._replace(out=change(made.out))


def _unsigned(out: np.ndarray) -> np.ndarray:
    return np.where(out == 0, np.float32(0), out)


def _guards(made: Any, over: str | None) -> Any:
    return made._replace(guards_ok=False)


def _nothing_launched(made: Any, over: str | None) -> Any:
    return made._replace(witnesses=[])


_NORM, _ADDED = "rms_norm/plain/simt", "rms_norm/residual/simt"
_GELU, _SWIGLU = "gated/gelu_tanh/simt", "gated/swiglu/simt"
_CAP, _SUM = "softcap/fp32/simt", "residual/fp32/simt"

#: fault, path, recipe, the check that must refuse it, what is wrong.
ROWS: tuple[tuple[str, str, str, str, Spoiled], ...] = (
    ("one bit", _NORM, "rms_bell", "bits", _bit),
    ("zeros", _NORM, "rms_outliers", "bound", _out(np.zeros_like)),
    ("half of it", _ADDED, "rms_bell", "bound", _out(lambda out: out / 2)),
    ("losses not counted", _NORM, "rms_broken", "lost", lambda made, over: made._replace(lost=0)),
    ("losses not counted over x", _NORM, "rms_broken", "lost over x", _only("x", lambda m, over: m._replace(lost=0))),
    ("rows that overflow are zero", _NORM, "rms_overflow", "bits", _out(np.nan_to_num)),
    ("another NaN", _NORM, "rms_broken", "bits", _out(lambda out: np.where(np.isnan(out), np.float32(np.nan), out))),
    ("signs of zeros lost", _NORM, "rms_zeros", "bits", _out(_unsigned)),
    ("one bit over x", _NORM, "rms_bell", "over x", _only("x", _bit)),
    ("one bit over the residual", _ADDED, "rms_bell", "over residual", _only("residual", _bit)),
    ("guards", _ADDED, "rms_bell", "guards", _guards),
    ("guards over the residual", _ADDED, "rms_bell", "guards over residual", _only("residual", _guards)),
    ("nothing launched", _NORM, "rms_bell", "witness", _nothing_launched),
    ("one bit", _GELU, "gated_bell", "bits", _bit),
    ("zeros", _SWIGLU, "gated_bell", "bound", _out(np.zeros_like)),
    ("NaN hidden", _SWIGLU, "gated_broken", "bits", _out(np.nan_to_num)),
    ("signs of zeros lost", _GELU, "gated_zeros", "bits", _out(_unsigned)),
    ("one bit over the gate", _GELU, "gated_bell", "over gate", _only("gate", _bit)),
    ("one bit over the up", _SWIGLU, "gated_bell", "over up", _only("up", _bit)),
    ("nothing launched over the up", _SWIGLU, "gated_bell", "witness over up", _only("up", _nothing_launched)),
    ("one bit", _CAP, "softcap_bell", "bits", _bit),
    ("values beyond the cap", _CAP, "softcap_bell", "bound", _out(lambda out: out * np.float32(2))),
    ("signs of zeros lost", _CAP, "softcap_ladder", "bits", _out(_unsigned)),
    ("one bit over x", _CAP, "softcap_bell", "over x", _only("x", _bit)),
    ("one bit", _SUM, "residual_bell", "bits", _bit),
    ("zeros", _SUM, "residual_bell", "bound", _out(np.zeros_like)),
    ("signs of zeros lost", _SUM, "residual_ends", "bits", _out(_unsigned)),
    ("one bit over a", _SUM, "residual_bell", "over a", _only("a", _bit)),
    ("one bit over b", _SUM, "residual_bell", "over b", _only("b", _bit)),
    ("guards over b", _SUM, "residual_bell", "guards over b", _only("b", _guards)),
)  # fmt: skip


def negative() -> Iterator[Control]:
    """Faults of each operation, in a buffer of its own and over each input."""
    for name, path, recipe, check, spoil in ROWS:
        yield Control(f"{path}/{name}", partial(_said, path, recipe, spoil, check), f"EXCEEDS by {check}")


def positive() -> Iterator[Control]:
    """The models themselves pass."""
    rows = (
        (_NORM, "rms_overflow"),
        (_ADDED, "rms_bell"),
        (_GELU, "gated_edges"),
        (_SWIGLU, "gated_ladder"),
        (_CAP, "softcap_edges"),
        (_SUM, "residual_cancelling"),
    )
    for path, recipe in rows:
        yield Control(f"{path}/healthy", partial(_said, path, recipe, None, ""), "EXACT: nothing")
