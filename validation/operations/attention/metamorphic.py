"""Metamorphic relations: exact changes of a case's inputs after which the output bits are known from those before.

Neither a reference nor a bound takes part, so a relation sees what both could share with the kernel, and
what a bound is too wide for. Each relation says why it holds, from the arithmetic of the kernels
(`prompt_attention.cu`, `decode_attention.cu`) and the rules of tensor cores (docs/arithmetic.md), and when:
a relation that the data of a case do not allow makes the case VOID.

Facts that several relations use. Rounding to nearest and cutting towards zero commute with negation, and with
powers of two while every number stays normal. A tensor-core step takes its addends in any order, leaves
products of zero out, and gives +0 for zero. Adding +-0 to a number that is not zero changes nothing,
and the sign of a zero score changes no weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from strata.executors.base import Executor
from strata.executors.lanes import RULES
from strata.kernels import decode_attention, tiers
from strata.kernels.paths import Path
from strata.kernels.prompt_attention import cells_per_chunk
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import AXES, Check, Verdict, identical
from validation.numerics.tensorcore_rules import readings
from validation.operations.attention import fp16_fields, zero_weight_cells
from validation.operations.attention.kernels import ATTENTION
from validation.operations.attention.one_hot import one_hot
from validation.operations.attention.pools import Inputs
from validation.operations.attention.reference import terms

#: Powers of two that a relation multiplies by, at most.
LARGEST_POWER = 4
#: log2 of the smallest weight over the largest that the relation of V's powers allows. 2^-64 of a weight times 2^-14 of
#: a value, cut 2^-24 below, times 2^-4 is 2^-106: no product or partial sum that has bits is subnormal.
LARGEST_GAP = 64
#: Threads of a row in the softmax of prompt_attention.cu; each takes CELLS / 8 neighbouring cells.
SOFT_THREADS = 8
#: Exponents of q that keep clear of the kernel's floor of -100 and of overflow of FP32 scores in the baseline.
_Q_EXPONENTS = (-64, 64)


@dataclass(frozen=True)
class Ground:
    """What relations start from. out: float32 [n_q, n_head, 256], the path's output on `inputs`; chunk: cells that
    the path takes at once; step: cells that one tensor-core step adds, under every rule the executor may follow."""

    path: Path
    inputs: Inputs
    out: np.ndarray
    chunk: int
    step: int


@dataclass(frozen=True)
class Changed:
    """Inputs after a relation's change, and the bits then due. signed_zeros: whether the signs of zeros are too."""

    inputs: Inputs
    expected: np.ndarray
    signed_zeros: bool = True


#: A change, or why the data do not allow it.
Relation = Callable[[Ground], Changed | str]


def ground(path: Path, inputs: Inputs, out: np.ndarray, executor: Executor) -> Ground:
    """The ground of one case on an executor. Raises UnknownOperationError for a path that is not of attention."""
    if path.operation == "decode_attention":
        return Ground(path, inputs, out, decode_attention.CELLS, 1)
    if path.operation != "prompt_attention":
        raise UnknownOperationError(path, "law", ATTENTION)
    tier = tiers.find(path.tier)
    k = tier.fp16.k
    rule = getattr(executor, "rule", None)
    # A card without an established rule may add as few as any known one: 4.
    blocks = [rule.block] if rule is not None else [RULES[name].block for name in readings(executor)] or [4]
    step = min(k if block == 0 else min(block, k) for block in blocks)
    return Ground(path, inputs, out, cells_per_chunk(path.mode, tier.number), step)


def pages(on: Ground) -> Changed | str:
    """Physical pages change places, poisoned ones too, and the table follows: equal bits, on every path.

    Which row a cell lives in enters no arithmetic. Pages shared by two logical ones move once.
    """
    pool = on.inputs.pool
    count = pool.k.shape[0]
    if count < 2 or not (pool.table >= 0).any():
        return "no resident page can move"
    to = (np.arange(count) + max(1, count // 2)) % count
    source = np.argsort(to)

    def moved(plane: np.ndarray | None) -> np.ndarray | None:
        return None if plane is None else np.ascontiguousarray(plane[source])

    table = np.where(pool.table >= 0, to[pool.table], -1).astype(np.int32)
    k, v = np.ascontiguousarray(pool.k[source]), np.ascontiguousarray(pool.v[source])
    other = replace(pool, k=k, v=v, k_scale=moved(pool.k_scale), v_scale=moved(pool.v_scale), table=table)
    return Changed(replace(on.inputs, pool=other), on.out)


def order(on: Ground) -> Changed | str:
    """Cells change places inside a tensor-core step: equal bits, on prompt attention.

    A score depends on its own cell alone, a maximum on no order. The numerator adds the cells of an
    aligned group of `step` in one tensor-core step, in which order is free; the groups keep their places. In
    the denominator a thread adds its share of chunk / 8 neighbouring cells to +0 one after another, so
    its first two may change places, (0 + a) + b = (0 + b) + a. Then a butterfly adds the shares of
    8 threads: lane t adds lane t ^ 4, then t ^ 2, then t ^ 1, and all lanes end equal because each addition
    commutes. With the shares of all threads t and t ^ m exchanged, lane t holds after each round what
    lane t ^ m held, so the sum is the same; m = step / share - 1 keeps every share in its group. Only
    whole chunks exchange shares. The largest V scale of a chunk has no order either.

    Not a relation of decode attention: its numerator is a chain of fused multiply-adds in list order, and
    fma(a, b, rn(c d)) differs from fma(c, d, rn(a b)).
    """
    share = on.chunk // SOFT_THREADS
    mask = max(1, on.step // share) - 1
    ids = on.inputs.ids.copy()
    for query, width in enumerate(on.inputs.widths.tolist()):
        row = on.inputs.ids[query, :width].copy()
        whole = width // on.chunk * on.chunk
        shares = row[:whole].reshape(-1, SOFT_THREADS, share)
        row[:whole] = shares[:, np.arange(SOFT_THREADS) ^ mask].reshape(-1)
        first = np.arange(0, width - 1, share)
        row[first], row[first + 1] = row[first + 1], row[first]
        ids[query, :width] = row
    if (ids == on.inputs.ids).all():
        return "no list has two cells that may change places"
    return Changed(replace(on.inputs, ids=ids), on.out)


def key_signs(on: Ground) -> Changed | str:
    """K scales (FP16: values) and q negated: equal bits, on every path.

    Every product of a score keeps its value. Where a scale stands outside of the sum, sum and scale are both
    negated; only the sign of a zero can differ, and that of a zero score has no effect.
    """
    bits = fp16_fields.halves(on.inputs.pool, "k")
    if not (bits[_rows(on.inputs)] & 0x7FFF).any() or not on.inputs.q.any():
        return "q or every K is zero"
    return Changed(_with(on.inputs, "k", fp16_fields.negated(bits), -on.inputs.q), on.out)


def value_signs(on: Ground) -> Changed | str:
    """V scales (FP16: values) negated: the output negated but for the signs of zeros, on every path.

    V enters linearly and each rounding commutes with negation. A zero sum of a tensor core is +0 either way.
    """
    return Changed(_with(on.inputs, "v", fp16_fields.negated(fp16_fields.halves(on.inputs.pool, "v"))), -on.out, False)


def key_powers(on: Ground) -> Changed | str:
    """K scales (FP16: values) times 2^k and q times 2^-k: equal bits, on every path.

    Prompt attention brings q up by the exponent of its largest element, so halves of q are the same; raw scores
    are 2^k times as large and the factor that takes q's power back 2^-k times. Decode attention multiplies
    values times 2^k by q times 2^-k. No FP16 number may be subnormal (a tensor core does not normalise
    it), none may become so or overflow, and q stays clear of the kernel's floor of 2^-100.
    """
    power = _power(on.inputs, "k")
    if isinstance(power, str):
        return power
    size = np.abs(on.inputs.q)
    head = size.max(axis=-1)
    low, high = (np.float32(2.0**exponent) for exponent in _Q_EXPONENTS)
    if not ((head >= low) & (head <= high)).all():
        return f"the largest |q| of a head lies outside of 2^{_Q_EXPONENTS[0]}..2^{_Q_EXPONENTS[1]}"
    q = np.ldexp(on.inputs.q, -power)
    if (np.ldexp(q, power) != on.inputs.q).any():
        return "an element of q becomes subnormal"
    return Changed(
        _with(on.inputs, "k", fp16_fields.shifted(fp16_fields.halves(on.inputs.pool, "k"), power), q), on.out
    )


def value_powers(on: Ground) -> Changed | str:
    """V scales (FP16: values) times 2^k: the output times 2^k, on every path.

    Prompt attention takes the exponent of a chunk's largest scale out, so p' is the same and the unit of the
    sum 2^k times as large; all else is linear in V. FP16 values and FP32 sums must stay normal: no subnormal
    halves before or after, and no weight below 2^-64 of the largest.
    """
    power = _power(on.inputs, "v")
    if isinstance(power, str):
        return power
    gap = widest_gap(on.inputs)
    if gap > LARGEST_GAP:
        return f"the smallest weight is 2^-{gap:.0f} of the largest, expected 2^-{LARGEST_GAP} or more"
    expected = np.ldexp(on.out, power)
    if (np.ldexp(expected, -power) != on.out).any():
        return f"an output times 2^{power} is no normal number"
    return Changed(_with(on.inputs, "v", fp16_fields.shifted(fp16_fields.halves(on.inputs.pool, "v"), power)), expected)


def zero_weights(on: Ground) -> Changed | str:
    """Cells of weight zero appended, more than once: equal bits, on every path.

    `zero_weight_cells` says which cells and why.
    """
    made = zero_weight_cells.append(on.inputs, on.chunk, folded=on.path.operation == "prompt_attention")
    return made if isinstance(made, str) else Changed(made, on.out)


def locator(on: Ground) -> Changed | str:
    """Equal keys, and V one at one cell, head and dim: the quotient of two counts there, zeros elsewhere.

    Equal keys have equal scores, so every weight is 2^0 = 1, and sums of ones are exact. On every path.
    """
    made = one_hot(on.inputs)
    return made if isinstance(made, str) else Changed(*made, signed_zeros=False)


RELATIONS: dict[str, Relation] = {
    "pages": pages,
    "order": order,
    "key signs": key_signs,
    "value signs": value_signs,
    "key powers": key_powers,
    "value powers": value_powers,
    "zero weights": zero_weights,
    "locator": locator,
}


def of_path(path: Path) -> Sequence[str]:
    """Names of the relations that hold on a path. Raises UnknownOperationError for a path that is not of attention."""
    if path.operation not in ATTENTION:
        raise UnknownOperationError(path, "law", ATTENTION)
    return [name for name in RELATIONS if name != "order" or path.operation == "prompt_attention"]


def checks(on: Ground, run: Callable[[Inputs], np.ndarray]) -> list[Check]:
    """One check a relation: EXACT or EXCEEDS, and VOID where the data do not allow it.

    Parameters
    ----------
    run
        The path, inputs to output.
    """
    return [_check(name, on, run) for name in of_path(on.path)]


def _check(name: str, on: Ground, run: Callable[[Inputs], np.ndarray]) -> Check:
    if not np.isfinite(on.out).all() or not on.out.any():
        return Check(f"law {name}", Verdict.VOID, "does not apply: the output is zero throughout or not finite")
    changed = RELATIONS[name](on)
    if isinstance(changed, str):
        return Check(f"law {name}", Verdict.VOID, f"does not apply: {changed}")
    got, want = run(changed.inputs), changed.expected
    if not changed.signed_zeros:
        got, want = got + np.float32(0), want + np.float32(0)  # -0 + 0 is +0
    # Its element is of other inputs, so neither reference nor prediction is of this place.
    return replace(identical(f"law {name}", got, want, axes=AXES), at=None)


def widest_gap(inputs: Inputs) -> float:
    """The largest distance of two scores of a query and head, in powers of two of the weight."""
    gap = 0.0
    for query, width in enumerate(inputs.widths.tolist()):
        scores = terms(inputs.q[query], inputs.pool, inputs.ids[query], width).scores
        if scores.shape[-1]:
            gap = max(gap, float(np.ptp(scores, axis=-1).max()) * zero_weight_cells.LOG2_E)
    return gap


def _rows(inputs: Inputs) -> tuple[np.ndarray, slice, np.ndarray]:
    """The index of pool rows in use, in arrays [pages, kv, page_size, ...]."""
    page, slot = np.nonzero(fp16_fields.in_use(inputs))
    return page, slice(None), slot


def _with(inputs: Inputs, plane: str, bits: np.ndarray, q: np.ndarray | None = None) -> Inputs:
    pool = fp16_fields.with_halves(inputs.pool, plane, bits)
    return replace(inputs, pool=pool, q=inputs.q if q is None else q)


def _power(inputs: Inputs, plane: str) -> int | str:
    """The power that every half in use can take and stay normal, up or down, where there is more room; or why none."""
    bits = fp16_fields.halves(inputs.pool, plane)[_rows(inputs)]
    field = fp16_fields.exponents(bits)[(bits & 0x7FFF) != 0]
    if field.size == 0:
        return f"every {plane.upper()} is zero"
    smallest, largest = int(field.min()), int(field.max())
    if smallest == fp16_fields.SUBNORMAL or largest == fp16_fields.SPECIAL:
        return f"a half of {plane.upper()} is subnormal or not finite"
    up, down = fp16_fields.SPECIAL - 1 - largest, smallest - 1
    power = min(up, LARGEST_POWER) if up >= down else -min(down, LARGEST_POWER)
    return power or f"halves of {plane.upper()} have every exponent, so none can move"
