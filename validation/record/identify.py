"""Bits that tell one tensor core, and one card, from another: what a record says under `identification`.

The separating vectors have an answer under every rule (`numerics.tensorcore`), so a verifier can say which rule a
run followed. The special-function instructions have none: no model predicts them, so they are a hint of the card
that made a record, and no proof. Anybody who owns such a card can copy them.
"""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any

import numpy as np

from strata.executors.base import Executor, Kernel, StrataError
from strata.kernels import tiers
from validation.numerics.tensorcore_vectors import vector_operands, vectors

#: In the order of `special` in identify.cu.
SPECIAL = ("ex2.approx.f32", "rcp.approx.f32", "sqrt.approx.f32", "lg2.approx.f32", "sin.approx.f32")
#: Inputs of each, as float32 bits: subnormals, powers of two and their neighbours, and significands without a
#: pattern, from 2**-140 to 2**100; the signs both ways, which sqrt and lg2 answer by NaN.
INPUTS = (
    0x00000200, 0x0D800001, 0x3A83126F, 0x3DCCCCCD, 0x3EAAAAAB, 0x3F2AAAAB, 0x3F7FFFFF, 0x3F800001,
    0x3FB504F3, 0x40490FDB, 0x402DF854, 0x41C80A3D, 0x42F6E979, 0x71800003, 0xBF19999A, 0xC0E5A1CB,
)  # fmt: skip
_MOST = 16  # of k: what an operand row holds


def kernel(entry: str, tier: int) -> Kernel:
    """A kernel of identify.cu.

    Parameters
    ----------
    entry
        `identify` or `special`.
    tier
        75 without m16n8k16, 80 with it.
    """
    return Kernel("identify", entry, 32, 0, (("TIER", tier),), str(FilePath(__file__).resolve().parent))


def tier_of(executor: Executor, rule: str) -> int:
    """The tier whose instructions an executor has: 75 where m16n8k16 does not exist (on Turing, in code for it, and on
    lanes under a rule of Turing), else 80.

    Parameters
    ----------
    executor
        The executor.
    rule
        What lanes were asked to follow, as `--rule` takes it.
    """
    if executor.name == "lanes":
        return 75 if rule.startswith("sm_75") else 80
    return tiers.of_capability(int(executor.arch.rpartition("_")[2])).number


def instructions(tier: int) -> tuple[int, ...]:
    """The k of the instructions that are asked."""
    return tuple(one.fp16.k for one in tiers.TIERS.values() if one.tensor_cores and one.number <= tier)


def names(k: int) -> list[str]:
    """What the answers of m16n8k<k> are called: `k8_00` is the first of `tensorcore_vectors.vectors(8)`."""
    return [f"k{k}_{index:02d}" for index in range(len(vectors(k)))]


def identification(executor: Executor, rule: str) -> dict[str, Any]:
    """The part `identification` of a record: 8 hex digits a vector; on a card as many an input of each instruction.

    Parameters
    ----------
    executor
        What is asked.
    rule
        The rule of lanes, see `tier_of`.

    Raises
    ------
    StrataError
        When one dot product has two answers.
    """
    tier = tier_of(executor, rule)
    found: dict[str, str] = {}
    for k in instructions(tier):
        found |= dict(zip(names(k), map(_hex, answers(executor, k, tier)), strict=True))
    return {"vectors": found, "special": _special(executor, tier) if executor.name == "cuda" else {}}


def answers(executor: Executor, k: int, tier: int) -> np.ndarray:
    """What m16n8k<k> gives for every vector that it can take.

    Parameters
    ----------
    executor
        What is asked.
    k
        Products of the instruction, 8 or 16.
    tier
        75 or 80, see `kernel`.

    Returns
    -------
    uint32 array [vectors]
        The bits of float32.

    Raises
    ------
    StrataError
        For two answers to one vector.
    ValueError
        For an instruction that the tier does not have.
    """
    if k not in instructions(tier):
        raise ValueError(f"k is {k}, expected one of {instructions(tier)} for tier {tier}")
    a, b, c = vector_operands(vectors(k), _MOST)
    out = executor.empty((len(c), 128), np.float32, name="out")
    operands = [executor.array(x, name) for name, x in (("a", a.view(np.uint16)), ("b", b.view(np.uint16)), ("c", c))]
    executor.launch(kernel("identify", tier), (len(c), 1, 1), [*operands, out, np.int32(k)])
    bits = out.host().view(np.uint32)
    for index, row in enumerate(bits):
        if (row != row[0]).any():
            raise StrataError(f"the tensor core gives two answers to one dot product, {names(k)[index]}")
    return bits[:, 0]


def _special(executor: Executor, tier: int) -> dict[str, str]:
    count = len(INPUTS)
    out = executor.empty((len(SPECIAL), count), np.float32, name="out")
    values = executor.array(np.array(INPUTS, np.uint32).view(np.float32), "in")
    executor.launch(kernel("special", tier), (1, 1, 1), [values, out, np.int32(count)])
    return {name: ",".join(map(_hex, row)) for name, row in zip(SPECIAL, out.host().view(np.uint32), strict=True)}


def _hex(bits: Any) -> str:
    return f"{int(bits):08x}"
