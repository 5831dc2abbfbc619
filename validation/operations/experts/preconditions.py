"""What a recipe promises of its data, looked for in the data that a case was given: see `attention.preconditions`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from strata.formats import FORMATS
from validation.core.verdict import Check, Verdict
from validation.operations.experts import activations, blobs, routing
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import Inputs
from validation.operations.experts.recipes import Routing, Values, Weights, find
from validation.operations.experts.reference import BLOCK, LARGEST

#: Draws from which on chance all but never leaves one of two sides out (2**-32).
DRAWS = 32
#: Binades that scales of LADDER span at least: all but one at each end, and where a matrix has few blocks.
LADDER_BINADES = blobs.LADDER[1] - blobs.LADDER[0] - 3


def kept(case: ExpertCase, data: Inputs) -> Check:
    """EXACT when the inputs are what the case's recipe promises, else VOID naming the first promise broken."""
    recipe = find(case.recipe)

    def broken() -> Iterator[str]:
        yield from _blobs(recipe.weights, data)
        yield from _ids(recipe.routing, case, data)
        yield from _tokens(recipe.values, data.x)

    first = next(broken(), None)
    if first is None:
        return Check("data", Verdict.EXACT, "", {"pairs": data.pairs, "named": int(data.named.sum())})
    return Check("data", Verdict.VOID, f"this recipe promises {first}")


def _blobs(kind: Weights, data: Inputs) -> Iterator[str]:
    if len(data.blobs) > 1 and any(np.array_equal(data.blobs[0], other) for other in data.blobs[1:]):
        yield "experts of their own, two have the same bytes"
    for form, part in ((data.gate_up, _gate_up(data)), (data.down, _down(data))):
        half = np.ascontiguousarray(part[:, :2]).view("<u2")[:, 0]
        sign, size = half >> 15, half & 0x7FFF
        if (size >= 0x7C00).any():
            yield f"finite scales, those of {form} hold others"
        if len(half) < DRAWS:
            continue
        if kind in (Weights.PLAIN,) and (sign.any() or not size.all()):
            yield f"positive scales, those of {form} are not"
        if kind in (Weights.DECADES, Weights.EXTREMES, Weights.FAINT, Weights.LADDER) and (
            sign.all() or not sign.any()
        ):
            yield f"scales of both signs, those of {form} have one"
        if kind is Weights.FAINT and ((size == 0).any() or (size >= 0x400).any()):
            yield f"subnormal scales, those of {form} hold others"
        if kind is Weights.EXTREMES and not ((size == 0).any() and (size == 0x7BFF).any()):
            yield f"every class of scale, those of {form} lack the largest or zero"
        if kind is Weights.DECADES and _binades(size) < 5:
            yield f"scales over decades, those of {form} span {_binades(size)} binades"
        if kind is Weights.LADDER and _binades(size) < LADDER_BINADES:
            yield f"scales on a ladder, those of {form} span {_binades(size)} binades"


def _binades(size: np.ndarray) -> int:
    """How many binades FP16 numbers of some magnitudes span, zeros left out, subnormal ones by their value."""
    return int(np.ptp(np.frexp(size[size > 0].view(np.float16).astype(np.float32))[1]))


def _gate_up(data: Inputs) -> np.ndarray:
    """uint8 [blocks, bytes]: blocks of gate and up of the first experts."""
    made = FORMATS[data.gate_up]
    return data.blobs[:4, : 2 * data.ff * made.row_bytes(data.n)].reshape(-1, made.nbytes)


def _down(data: Inputs) -> np.ndarray:
    made = FORMATS[data.down]
    return data.blobs[:4, -data.n * made.row_bytes(data.ff) :].reshape(-1, made.nbytes)


def _ids(kind: Routing, case: ExpertCase, data: Inputs) -> Iterator[str]:
    named, ids = data.named, data.ids
    counts = np.bincount(ids[named], minlength=case.experts)
    if kind not in (Routing.STRAY, Routing.NOBODY, Routing.EDGES) and not named.all():
        yield f"ids of experts, {int((~named).sum())} are not"
    if kind is Routing.STRAY and case.tokens > 1 and (named.all() or not named.any()):
        yield "some stray ids, there are none or no others"
    if kind is Routing.NOBODY and named.any():
        yield f"no id of an expert, {int(named.sum())} are"
    if kind is Routing.ONE and (counts > 0).sum() != 1:
        yield f"one expert, {int((counts > 0).sum())} are named"
    if kind is Routing.HOT and counts[case.experts - routing.unused(case.experts) :].any():
        yield "the last experts unused, they are named"
    if kind is Routing.EDGES:
        due = [routing.EDGE_COUNTS[expert % len(routing.EDGE_COUNTS)] for expert in range(case.experts)]
        if counts.tolist() != due:
            yield f"pairs at the tiles' edges {due}, they are {counts.tolist()}"
    enough = case.experts - routing.unused(case.experts) >= case.top
    repeated = any(len(set(row)) != case.top for row in ids[:DRAWS].tolist())
    if kind in (Routing.EVEN, Routing.HOT) and enough and repeated:
        yield "distinct ids in a token, some are repeated"
    if kind is Routing.REPEATED and case.top > 1 and all(len(set(row)) == case.top for row in ids.tolist()):
        yield "repeated ids in a token, all are distinct"


def _tokens(kind: Values, x: np.ndarray) -> Iterator[str]:
    fine = np.isfinite(x)
    if kind is Values.BROKEN:
        if fine.all() or (not fine.all(axis=1).any() and len(x) > 1):
            yield "some tokens that are not finite beside others, there are none or all are"
        return
    if not fine.all():
        yield f"finite tokens, {int((~fine).sum())} values are not"
        return
    blocks = x.reshape(len(x), -1, BLOCK)
    amax = np.abs(blocks).max(axis=-1)
    if kind is Values.ONE_SIDED:
        if (np.abs(x) < 1e4).any() or (np.abs(x) > 1e5).any() or (np.sign(x) != np.sign(x[:, :1])).any():
            yield "values of 1e4 to 1e5 of one sign a token, some are others"
    elif kind is Values.ONE_HOT:
        if (np.count_nonzero(x, axis=1) != 1).any():
            yield "one value a token, some have others"
    elif kind is Values.ZEROS:
        if amax.all() or not amax.any() or not np.signbit(x[x == 0]).any():
            yield "zero blocks beside others and zeros of both signs, there are not"
    elif kind is Values.TINY:
        if not ((amax > 0) & (amax < 2.0**-121)).any() or not (amax >= 2.0**-121).any():
            yield "blocks on both sides of the smallest reciprocal, there are not"
    elif kind is Values.TIES:
        steps = blocks.astype(np.float64) * (2 * LARGEST / amax[..., None].astype(np.float64))
        if (np.mod(steps, 2) == 1).mean() < 0.9:
            yield "values half way between codes, fewer than nine in ten are"
    elif kind is Values.LADDER:
        due = np.ldexp(1.0, activations.ladder(activations.LADDER, len(x)))
        largest = amax.max(axis=1)
        if not ((largest >= due) & (largest <= 3 * due)).all():
            yield "tokens on a ladder of sizes, some are not"
    elif not ((x > 0).any() and (x < 0).any()):
        yield "values of both signs, there is one"
