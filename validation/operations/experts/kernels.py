"""The expert kernels as the runner calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from strata.executors.base import Executor, Kernel
from strata.expert_engine import probes
from strata.kernels import expert_decode, expert_fused, expert_mmq
from strata.kernels.expert_probe import Probes
from strata.kernels.experts import Experts, Geometry, PlacedExperts, Routed, formats_of, place
from strata.kernels.paths import Path
from validation.operations.experts.arithmetic import DECODE, FUSED, MMQ
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import Inputs
from validation.operations.experts.recipes import Routing, find
from validation.operations.experts.reference import Codes
from validation.operations.experts.under_test import ExpertOperation, Grouping, Outcome, Shape

#: Even bytes from an aligned address to each expert in turn: everything that an address may be in 16 bytes.
OFFSETS = (0, 2, 260, 6, 520, 10, 268, 14)
#: Gate and up in one work shape and down in the other: between them every kernel of a path.
MIXED = ((4, 2), (2, 4))
#: Experts of a launch of the baseline when it is told to take several.
_TOGETHER = 3
#: Launches of the older kernels beside the baseline's products: x and h to int8, and SwiGLU.
_PASSES = 3


#: Experts placed last, with what they were placed for: a case runs its paths several times over the same ones.
_held: list[tuple[Executor, object, PlacedExperts]] = []
_MOST_HELD = 2
#: What the last card that was asked about its work shapes says of them.
_probed: list[tuple[Executor, Probes]] = []


def placed(executor: Executor, inputs: Inputs) -> PlacedExperts:
    """The case's experts on the executor, each in memory of its own that ends where it ends. Kept for the next run."""
    for one, blobs, held in _held:
        if one is executor and blobs is inputs.blobs:
            return held
    made = _place(executor, inputs)
    _held[:] = [*_held[1 - _MOST_HELD :], (executor, inputs.blobs, made)]
    return made


def _place(executor: Executor, inputs: Inputs) -> PlacedExperts:
    offsets = [OFFSETS[expert % len(OFFSETS)] for expert in range(inputs.experts)]
    geometry = Geometry(inputs.n, inputs.ff)
    return place(executor, Experts(inputs.gate_up, inputs.down, geometry, list(inputs.blobs), offsets))


def outcome(got: Routed) -> Outcome:
    """What the runner looks at of a run."""
    h = None
    if got.h_codes is not None and got.h_scales is not None:
        q, scale = (x.reshape(-1, x.shape[-1]) for x in (got.h_codes, got.h_scales))
        h = Codes(q, scale)
    grouping = None
    if got.slot is not None and got.source is not None and got.offsets is not None:
        grouping = Grouping(got.slot, got.source, got.offsets)
    status = got.status
    return Outcome(got.rows, got.witnesses, got.guards_ok, got.ignored, got.gate, got.up, h, grouping, status)


def _run_fused(executor: Executor, path: Path, inputs: Inputs, shape: Shape | None, trace: bool) -> Outcome:
    ready = expert_fused.prepare(
        executor, path, placed(executor, inputs), inputs.x, inputs.ids, shape, _cuts(inputs.experts, shape), trace
    )
    return outcome(ready.result(ready.launch()))


def _cuts(experts: int, shape: Shape | None) -> list[tuple[int, int]] | None:
    """Experts of each launch: as the path has it, but for a forced work shape in parts like those of the published
    test."""
    edges = sorted({0, min(1, experts), min(20, experts), experts})
    return None if shape is None else list(pairwise(edges))


def forced_shapes(case: ExpertCase) -> Sequence[Shape]:
    """The mixed work shapes, in which every kernel of a path runs; at the tiles' edges both products in one as well."""
    edges = find(case.recipe).routing is Routing.EDGES
    return (*MIXED, *expert_fused.SHAPES) if edges else MIXED


def lacks(executor: Executor, path: Path, shape: Shape) -> str:
    """Why a card of compute capability 7.5 has no work shape of a path: its probe says that a format's kernel does not
    fit or cannot be launched, and the format stays at the small shape; "" for a shape that must run.

    A kernel that was launched and gave wrong rows must run, and be seen to be wrong; so must the small shape, which the
    path needs. From 8.0 on every kernel of a path fits.
    """
    if executor.name == "lanes" or (executor.capability or 0) >= 80:
        return ""
    tried = _probes(executor)
    both = (shape, shape) if isinstance(shape, int) else shape
    for form, each in zip(formats_of(path.mode), both, strict=True):
        if each == expert_fused.SMALL:
            continue
        found = tried(form, each)
        if not (found.passed or found.wrong or found.lost):
            return f"{form} stays at the small shape here: {found.reason}"
    return ""


def _probes(executor: Executor) -> Probes:
    """Made once for an executor."""
    for one, made in _probed:
        if one is executor:
            return made
    _probed[:] = [(executor, probes(executor))]
    return _probed[0][1]


def _fused_kernels(path: Path, inputs: Inputs | None, shape: Shape | None) -> Sequence[Kernel]:
    if inputs is None:
        return list(expert_fused.kernels(path, tuple(expert_fused.SHAPES)))
    tier = path.tier_number
    chosen = expert_fused.default_shape(tier, inputs.pairs, inputs.experts) if shape is None else shape
    both = (chosen, chosen) if isinstance(chosen, int) else chosen
    products = [
        expert_fused.kernel(form, tier, each) for form, each in zip((inputs.gate_up, inputs.down), both, strict=True)
    ]
    return [expert_fused.prepare_kernel(), *products]


def _fused_launches(inputs: Inputs, shape: Shape | None) -> int:
    """Grouping, and two products of every cut."""
    return 1 + 2 * len(_cuts(inputs.experts, shape) or [()])


def _mmq_launches(inputs: Inputs, shape: Shape | None) -> int:
    """Two products of every range of experts that has a row, and the passes."""
    step = shape if isinstance(shape, int) else inputs.experts
    return _PASSES + 2 * len({expert // step for expert in inputs.ids[inputs.named].tolist()})


def _prepare_fused(executor: Executor, path: Path, inputs: Inputs) -> tuple[Any, Any]:
    ready = expert_fused.prepare(executor, path, placed(executor, inputs), inputs.x, inputs.ids)
    return ready.launch, ready.rows


def _run_mmq(executor: Executor, path: Path, inputs: Inputs, shape: Shape | None, trace: bool) -> Outcome:
    together = shape if isinstance(shape, int) else None
    return outcome(
        expert_mmq.run(executor, path, placed(executor, inputs), inputs.x, inputs.ids, trace=trace, together=together)
    )


def _run_decode(executor: Executor, path: Path, inputs: Inputs, shape: Shape | None, trace: bool) -> Outcome:
    return outcome(expert_decode.run(executor, path, placed(executor, inputs), inputs.x, inputs.ids, trace=trace))


def _prepare_decode(executor: Executor, path: Path, inputs: Inputs) -> tuple[Any, Any]:
    ready = expert_decode.prepare(executor, path, placed(executor, inputs), inputs.x, inputs.ids)
    return lambda: expert_decode.launch(executor, path, ready), ready.rows


def _prepare_mmq(executor: Executor, path: Path, inputs: Inputs) -> tuple[Any, Any]:
    ready = expert_mmq.prepare(executor, path, placed(executor, inputs), inputs.x, inputs.ids)
    return lambda: expert_mmq.launch(executor, path, ready), ready.rows


#: Expert operations by name.
OPERATIONS: Mapping[str, ExpertOperation] = {
    "expert_fused": ExpertOperation(
        _run_fused, FUSED, _fused_kernels, forced_shapes, _fused_launches, _prepare_fused, lacks=lacks
    ),
    "expert_decode": ExpertOperation(
        _run_decode,
        DECODE,
        lambda path, inputs, shape: expert_decode.kernels(path),
        launches=lambda inputs, shape: _PASSES + 2,
        prepare=_prepare_decode,
        refuses_strays=True,
    ),
    "expert_mmq": ExpertOperation(
        _run_mmq,
        MMQ,
        lambda path, inputs, shape: expert_mmq.kernels(path),
        lambda case: (_TOGETHER,),
        _mmq_launches,
        _prepare_mmq,
        refuses_strays=True,
    ),
}
