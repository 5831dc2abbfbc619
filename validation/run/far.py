"""Whether kernels count and address beyond 16, 31 and 32 bits, on lanes, with buffers that nobody has to fill.

A case of a recipe that is marked `far` is run once more with its data at the far end of buffers of up to 2^31 rows, and
must give the bits that it gave at the near end. No card has memory for it, so only lanes are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from strata.executors.base import Executor, LaunchError, StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import Path
from validation.core.far_checks import Part
from validation.core.verdict import Check, Verdict
from validation.operations import registry
from validation.operations.attention import far as attention
from validation.operations.attention.case import Case
from validation.operations.experts import far as experts
from validation.operations.experts import far_baseline as older_experts
from validation.operations.experts.case import AnyCase, ExpertCase
from validation.operations.kv_pack import far as packing
from validation.operations.router import far as around

_OF_POOLS: Mapping[str, Callable[[Case, Path, LanesExecutor], Sequence[Part]]] = {
    "prompt_attention": attention.prompt,
    "decode_attention": attention.decode,
    "kv_pack": packing.parts,
}
_OF_EXPERTS: Mapping[str, Callable[[ExpertCase, Path, LanesExecutor], Sequence[Part]]] = {
    "expert_fused": experts.parts,
    "expert_mmq": older_experts.mmq,
    "expert_decode": older_experts.decode,
    "router": around.router_parts,
    "combine": around.combine_parts,
}


def asks(case: AnyCase, executor: Executor) -> bool:
    """Whether a case on an executor is asked far checks."""
    return registry.find(case.recipe).far and isinstance(executor, LanesExecutor) and executor.flavor != "sanitize"


def names(recipe: str, operation: str) -> tuple[str, ...]:
    """The checks that a recipe's cases are asked on lanes, of an operation that records are of."""
    if not registry.find(recipe).far:
        return ()
    return attention.NAMES if operation == "prompt_attention" else experts.NAMES[recipe]


def checks(case: AnyCase, path: Path, executor: Executor) -> list[Check]:
    """The far checks of a case that is asked them. Raises StrataError for a path of an unknown operation."""
    assert isinstance(executor, LanesExecutor)
    if isinstance(case, ExpertCase):
        made = _OF_EXPERTS.get(path.operation)
        found = None if made is None else made(case, path, executor)
    else:
        known = _OF_POOLS.get(path.operation)
        found = None if known is None else known(case, path, executor)
    if found is None:
        raise StrataError(f"{path.name} has no far checks, expected one of {', '.join((*_OF_POOLS, *_OF_EXPERTS))}")
    return [_asked(part) for part in found]


def _asked(part: Part) -> Check:
    """A kernel that leaves its buffers is a verdict on it; what cannot run at all is none."""
    try:
        return part.ask()
    except LaunchError as error:
        return Check(part.name, Verdict.EXCEEDS, str(error))
