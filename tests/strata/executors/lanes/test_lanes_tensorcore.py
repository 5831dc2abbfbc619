"""The tensor core of lanes against the NumPy bit model, through kernels that gather real fragments."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from strata.executors.base import Executor
from strata.executors.lanes import LanesExecutor
from tests.strata.executors.lanes.sources import kernel
from validation.numerics.tensorcore import Params, mma
from validation.numerics.tensorcore_data import FAMILIES, FINITE, Tiles, tiles
from validation.numerics.tensorcore_model import rounded
from validation.numerics.tensorcore_parts import CANONICAL_NAN

Array = np.ndarray[Any, Any]
Step = tuple[int, int, int, int]  # operation, index of a, of b, of the accumulator

RULES = [(8, 24), (8, 25), (16, 25), (4, 24), (8, 23), (16, 26)]
SHAPES = ("k8", "k16", "k8 twice")
#: Instructions of one warp in the tests of arithmetic, and warps: 12 families of 26,112 outputs.
PER_WARP, WARPS = 12, 17
JOIN: Step = (0, 0, 0, 0)


@dataclass(frozen=True)
class Operands:
    """a uint16 [warps, n, 16, 16], b uint16 [warps, n, 16, 8], c uint32 [warps, accumulators, 16, 8]."""

    a: Array
    b: Array
    c: Array

    @staticmethod
    def of(t: Tiles, warps: int) -> Operands:
        each = len(t.a) // warps
        return Operands(*(x.reshape(warps, each, *x.shape[1:]) for x in (t.a, t.b, t.c)))


def run(executor: Executor, x: Operands, program: Sequence[Step], twist: int = 0, tier: int = 80) -> Array:
    """Accumulators after the program, uint32 of the shape of `x.c`."""
    out = executor.empty(x.c.shape, np.uint32, name="d")
    arrays = [executor.array(v, name) for v, name in ((x.a, "a"), (x.b, "b"), (x.c, "c"))]
    steps = executor.array(np.array(program, np.int32), "program")
    sizes = [np.int32(n) for n in (len(program), x.a.shape[1], x.b.shape[1], x.c.shape[1], twist)]
    executor.launch(kernel("matrix", tier=tier), (len(x.a), 1, 1), [*arrays, out, steps, *sizes])
    assert out.guards_intact()
    return out.host()


def program_of(shape: str, count: int) -> list[Step]:
    """Instruction i takes operands i into accumulator i."""
    if shape == "k8 twice":
        # The second half of k lies in operands of its own, behind the first ones.
        return [step for i in range(count) for step in ((8, i, i, i), (8, count + i, count + i, i))] + [JOIN]
    return [({"k8": 8, "k16": 16}[shape], i, i, i) for i in range(count)] + [JOIN]


@functools.cache
def family_operands(family: str) -> tuple[Tiles, Operands, Operands]:
    """Tiles of k = 16 as they are, and their halves of k apart for two m16n8k8."""
    t = tiles(family, WARPS * PER_WARP, 16, 11)
    whole = Operands.of(t, WARPS)
    a, b = np.zeros_like(whole.a), np.zeros_like(whole.b)
    a[..., :8], b[:, :, :8] = whole.a[..., 8:], whole.b[:, :, 8:]
    apart = Operands(np.concatenate([whole.a, a], axis=1), np.concatenate([whole.b, b], axis=1), whole.c)
    return t, whole, apart


def expected(t: Tiles, shape: str, params: Params) -> Array:
    if shape == "k16":
        return mma(t.a, t.b, t.c, params)
    first = mma(t.a[..., :8], t.b[:, :8], t.c, params)
    return first if shape == "k8" else mma(t.a[..., 8:], t.b[:, 8:], first, params)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_bits_equal_the_model(rule: tuple[int, int], shape: str) -> None:
    executor = LanesExecutor(rule=rule)
    compared = 0
    for family in FAMILIES:
        t, whole, apart = family_operands(family)
        got = run(executor, apart if shape == "k8 twice" else whole, program_of(shape, PER_WARP))
        want = expected(t, shape, Params(*rule)).reshape(got.shape)
        assert int((got != want).sum()) == 0, family
        compared += got.size
    assert compared == 12 * WARPS * PER_WARP * 128 > 300_000


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rule", [(8, 24), (16, 25)], ids=str)
def test_integer_path_equals_the_model(rule: tuple[int, int], shape: str) -> None:
    """A NaN in the last row of A sends the whole tile past the vectorised body; the other rows keep their bits."""
    executor = LanesExecutor(rule=rule)
    compared = 0
    for family in FINITE:
        t, whole, apart = family_operands(family)
        x = apart if shape == "k8 twice" else whole
        a = x.a.copy()
        a[:, :, 15, 0] = 0x7E00
        got = run(executor, Operands(a, x.b, x.c), program_of(shape, PER_WARP))
        want = expected(t, shape, Params(*rule)).reshape(got.shape)
        assert int((got[..., :15, :] != want[..., :15, :]).sum()) == 0, family
        assert (got[..., 15, :] == CANONICAL_NAN).all()
        compared += got[..., :15, :].size
    assert compared == 11 * WARPS * PER_WARP * 120


@pytest.mark.parametrize("shape", SHAPES)
def test_exact_is_the_real_sum_rounded_once(shape: str) -> None:
    executor = LanesExecutor(rule="exact")
    compared = 0
    for family in FINITE:
        t, whole, apart = family_operands(family)
        got = run(executor, apart if shape == "k8 twice" else whole, program_of(shape, PER_WARP)).reshape(-1, 16, 8)
        # Every row of every tile, one column of each: rationals are slow.
        for tile in range(len(got)):
            j = tile % 8
            b = t.b[tile, :, j].tolist()
            for i in range(16):
                a, c = t.a[tile, i].tolist(), int(t.c[tile, i, j])
                if shape == "k16":
                    want = rounded(a, b, c)
                else:
                    want = rounded(a[:8], b[:8], c)
                    if shape == "k8 twice" and want & 0x7F800000 != 0x7F800000:
                        want = rounded(a[8:], b[8:], want)
                assert int(got[tile, i, j]) == want, (family, tile, i, j)
                compared += 1
    assert compared == 11 * WARPS * PER_WARP * 16


@pytest.mark.parametrize("shape", SHAPES)
def test_exact_treats_infinities_and_nan_as_the_model(shape: str) -> None:
    t, whole, apart = family_operands("special")
    executor = LanesExecutor(rule="exact")
    got = run(executor, apart if shape == "k8 twice" else whole, program_of(shape, PER_WARP)).reshape(-1, 16, 8)
    want = expected(t, shape, Params(8, 24))
    special = (want & 0x7F800000) == 0x7F800000
    assert special.mean() > 0.2
    # A sum that only overflows is infinite in both: nothing here comes near.
    assert np.array_equal(got[special], want[special])
    assert ((got[~special] & 0x7F800000) != 0x7F800000).all()


def test_exact_rounds_ties_and_stickies() -> None:
    """c beside products far below and far above its last bit: half an ulp, a little more, a little less."""
    rows = []
    for c in (1.0, -1.0, 1.0 + 2.0**-23, 2.0**40, 2.0**100, -(2.0**100), 2.0**-126, 2.0**-149, 0.0):
        for first in (2.0**-24, -(2.0**-24), 2.0**-25, 2.0**15, 2.0**-48, -(2.0**-48), 0.0):
            for second in (2.0**-48, -(2.0**-48), 0.0):
                rows.append((c, first, second))
    a, b, c16 = np.zeros((len(rows), 16, 16), np.float16), np.zeros((len(rows), 16, 8), np.float16), []
    for n, (c, first, second) in enumerate(rows):
        for at, value in ((0, first), (1, second)):
            half = 2.0**-24 if abs(value) < 2.0**-24 and value else 1.0
            a[n, :, at], b[n, at, :] = value / half, half
        c16.append(c)
    c32 = np.array(c16, np.float32)
    c_tiles = np.broadcast_to(c32[:, None, None], (len(rows), 16, 8)).copy().view(np.uint32)
    x = Operands(a.view(np.uint16)[:, None], b.view(np.uint16)[:, None], c_tiles[:, None])
    got = run(LanesExecutor(rule="exact"), x, [(16, 0, 0, 0), JOIN])
    for n in range(len(rows)):
        want = rounded(
            a[n, 0].view(np.uint16).tolist(), b[n, :, 0].view(np.uint16).tolist(), int(c32[n].view(np.uint32))
        )
        assert (got[n] == want).all(), rows[n]
