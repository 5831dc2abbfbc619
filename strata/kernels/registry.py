"""The operations: the one place where they are listed.

The order is that of the table of paths, and so of plans and pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from strata.executors.base import StrataError
from strata.kernels import (
    block_select,
    block_select_warp,
    block_topk,
    combine,
    decode_attention,
    embedding,
    expert_decode,
    expert_fused,
    expert_mmq,
    gated,
    kv_pack,
    linear,
    linear_dp4a,
    linear_f16,
    prompt_attention,
    residual,
    rms_norm,
    rope,
    router,
    softcap,
    visible_cells,
)
from strata.kernels.descriptor import Descriptor

_MODULES = (
    decode_attention, prompt_attention, kv_pack, expert_mmq, expert_fused, expert_decode, router, combine,
    block_select_warp, block_select, block_topk, linear_dp4a, linear, linear_f16,
    rms_norm, gated, softcap, residual, embedding, rope, visible_cells,
)  # fmt: skip

#: Every operation by name.
DESCRIPTORS: Mapping[str, Descriptor] = MappingProxyType(
    {module.DESCRIPTOR.name: module.DESCRIPTOR for module in _MODULES}
)


def find(operation: str) -> Descriptor:
    """The descriptor of an operation.

    Raises
    ------
    StrataError
        For a name that no operation has.
    """
    if operation not in DESCRIPTORS:
        raise StrataError(f"operation {operation!r}: expected one of {', '.join(DESCRIPTORS)}")
    return DESCRIPTORS[operation]


def taking(*inputs: str) -> tuple[str, ...]:
    """The operations that take some inputs, e.g. `experts`, in order.

    Raises
    ------
    StrataError
        For inputs that no operation takes.
    """
    known = dict.fromkeys(one.takes for one in DESCRIPTORS.values())
    for one in inputs:
        if one not in known:
            raise StrataError(f"no operation takes {one!r}: expected one of {', '.join(known)}")
    return tuple(name for name, one in DESCRIPTORS.items() if one.takes in inputs)


def first_gated() -> str:
    """The operation whose paths a parity run and a record are of, unless others are asked for."""
    return next(name for name, one in DESCRIPTORS.items() if one.gated)
