"""Negative and positive controls of the router and of combining: see `experts`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.kernels.combine import Combined
from strata.kernels.paths import PATHS
from strata.kernels.router import Routing
from validation.controls.expert_changes import LANES
from validation.controls.experts import said
from validation.core.control import Control
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.settings import Settings
from validation.core.stub_executor import BLOCK, ENTRY, witness
from validation.operations.combine import reference as combine_reference
from validation.operations.combine.operation import Combine
from validation.operations.experts.case import ExpertCase
from validation.operations.router import reference as router_reference
from validation.operations.router.operation import Router

#: Changes the ids and weights of the router, or the output of combining.
Spoiled = Callable[[Any], Any]


def routing(spoil: Spoiled | None = None) -> Router:
    """The model in the place of the router, its result changed by `spoil`."""

    def route(executor: Executor, logits: np.ndarray, ranks: int) -> Routing:
        due = router_reference.route(logits, ranks)
        nans, infinities = int(np.isnan(logits).sum()), int(np.isinf(logits).sum())
        made = Routing(
            due.ids, router_reference.weight_bits(logits, ranks), nans, infinities, [witness(LANES, (1, 1, 1))], True
        )
        return made if spoil is None else spoil(made)

    return Router(route, _kernel)


def combining(spoil: Spoiled | None = None) -> Combine:
    """The model in the place of combining, its result changed by `spoil`."""

    def combine(executor: Executor, *parts: Any) -> Combined:
        with np.errstate(invalid="ignore", over="ignore"):
            out = combine_reference.combine_bits(*parts)
        made = Combined(out, int((~np.isfinite(out)).sum()), [witness(LANES, (1, 1, 1))], True)
        return made if spoil is None else spoil(made)

    return Combine(combine, _kernel)


def _kernel() -> Kernel:
    return Kernel(ENTRY, ENTRY, BLOCK)


def judged(operation: Router | Combine, recipe: str) -> Findings:
    """A small case of a recipe on stand-ins."""
    case, path = ExpertCase(recipe, 5, 6, 40, 5, 256, 64), PATHS[f"{operation.name}/fp32/simt"]
    return operation.judge(Trial(operation, case, path, LANES, Settings(), Memo()))


def _said(recipe: str, operation: str, spoil: Spoiled | None, check: str) -> str:
    made = routing(spoil) if operation == "router" else combining(spoil)
    return said(judged(made, recipe), check)


def _bit(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    out.view(np.uint32).reshape(-1)[-1] ^= 1
    return out


#: fault, operation, recipe, the check that must refuse it, what is wrong.
ROWS: tuple[tuple[str, str, str, str, Spoiled], ...] = (
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


def negative() -> Iterator[Control]:
    """Faults of the router and of combining."""
    for name, operation, recipe, check, spoil in ROWS:
        yield Control(f"{operation}/{name}", partial(_said, recipe, operation, spoil, check), f"EXCEEDS by {check}")


def positive() -> Iterator[Control]:
    """The models themselves pass."""
    for recipe, operation in (("router_ties", "router"), ("combine_cancelling", "combine")):
        yield Control(f"{operation}/healthy", partial(_said, recipe, operation, None, ""), "EXACT: nothing")
