"""The tensor core of lanes against the NumPy bit model, through kernels that gather real fragments."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from strata.executors.lanes import LanesExecutor
from tests.strata.executors.lanes.sources import kernel
from validation.draws import Stream
from validation.reference.tensorcore import rounded
from validation.tensorcore import Params, mma
from validation.tensorcore_data import FAMILIES, FINITE, Tiles, tiles
from validation.tensorcore_parts import CANONICAL_NAN

Array = np.ndarray[Any, Any]
Step = tuple[int, int, int, int]  # operation, index of a, of b, of the accumulator

RULES = [(8, 24), (8, 25), (16, 25), (4, 24), (8, 23), (16, 26)]
SHAPES = ("k8", "k16", "k8 twice")
KERNEL = kernel("matrix")
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


def run(executor: LanesExecutor, x: Operands, program: Sequence[Step], twist: int = 0) -> Array:
    """Accumulators after the program, uint32 of the shape of `x.c`."""
    out = executor.empty(x.c.shape, np.uint32, name="d")
    arrays = [executor.array(v, name) for v, name in ((x.a, "a"), (x.b, "b"), (x.c, "c"))]
    steps = executor.array(np.array(program, np.int32), "program")
    sizes = [np.int32(n) for n in (len(program), x.a.shape[1], x.b.shape[1], x.c.shape[1], twist)]
    executor.launch(KERNEL, (len(x.a), 1, 1), [*arrays, out, steps, *sizes])
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


def model_of(x: Operands, program: Sequence[Step], params: Params, twist: int = 0) -> Array:
    """What `run` must give, one instruction after another; odd lanes own columns 2, 3, 6 and 7."""
    acc = x.c.copy()
    odd = np.isin(np.arange(8), (2, 3, 6, 7)) & (twist != 0)
    for operation, i, j, at in program:
        own = np.where(odd, at >> 1, at)
        c = acc[:, own, :, np.arange(8)].transpose(1, 2, 0)
        if operation > 0:
            k = operation
            c = mma(x.a[:, i, :, :k], x.b[:, j, :k], c, params)
        elif operation < 0:
            v = c.view(np.float32)
            with np.errstate(all="ignore"):
                if operation == -1:
                    v = v + np.float32(1 / 3)
                else:
                    v = v * np.float32(2.0**-100) * np.float32(2.0**-40) * np.float32(2.0**127)
            c = np.where(np.isnan(v), np.uint32(CANONICAL_NAN), v.view(np.uint32))
        acc[:, own, :, np.arange(8)] = c.transpose(2, 0, 1)
    return acc


def random_program(stream: Stream, operands: int, accumulators: int, length: int) -> list[Step]:
    """Mostly the last operands again, as hi and lo products do; arithmetic on accumulators after a join."""
    draw = stream.below(1 << 20, (length, 6)).tolist()
    program: list[Step] = []
    a = b = 0
    for kind, change_a, change_b, pick_a, pick_b, pick_d in draw:
        if kind % 24 == 0:
            program += [JOIN, (-1 - pick_a % 2, 0, 0, pick_d % accumulators)]
            continue
        a = pick_a % operands if change_a % 2 else a
        b = pick_b % operands if change_b % 3 else b
        program.append((8 if kind % 3 else 16, a, b, pick_d % accumulators))
    return [*program, JOIN]


@pytest.mark.parametrize("accumulators", [1, 3, 5, 12])
def test_any_order_of_instructions_and_joins(accumulators: int) -> None:
    """Operands made ready once and reused, accumulators evicted, k8 and k16 mixed, more than a queue holds."""
    executor = LanesExecutor(rule=(8, 24))
    lengths = []
    for seed in range(6):
        stream = Stream.of(seed, "program", accumulators)
        family = ("normal", "special", "bits")[seed % 3]
        t = tiles(family, 3 * 6, 16, seed)
        x = Operands.of(t, 3)
        c = tiles("normal", 3 * accumulators, 16, seed + 100).c.reshape(3, accumulators, 16, 8)
        x = Operands(x.a, x.b, c)
        program = random_program(stream, 6, accumulators, 150)
        gaps = np.diff([-1, *[i for i, step in enumerate(program) if step == JOIN]]) - 1
        lengths.append(int(gaps.max()))
        for twist in (0, 1):
            got = run(executor, x, program, twist)
            assert np.array_equal(got, model_of(x, program, Params(8, 24), twist)), (seed, twist)
    assert max(lengths) > 32  # beyond the queue


@pytest.mark.parametrize("sign", [0, 0x8000])
def test_sums_that_need_33_bits(sign: int) -> None:
    """Sixteen products next to 4 and an accumulator next to 2 leave the 32-bit integers of the vectorised body."""
    n = 8
    a = np.full((n, 1, 16, 16), 0x3FFF | sign, np.uint16)
    b = np.full((n, 1, 16, 8), 0x3FFF, np.uint16)
    # Accumulators of every size around the largest exponent, of the same sign and, in half of the blocks, the other.
    c = tiles("normal", n, 16, 61).c & np.uint32(0x007FFFFF) | np.uint32(0x3F800000) | np.uint32(sign << 16)
    c = c[:, None] + (Stream.of(62).below(9, c[:, None].shape) - 6 << 23).astype(np.uint32)
    c[n // 2 :] ^= np.uint32(0x80000000)
    x = Operands(a, b, c)
    program: list[Step] = [(16, 0, 0, 0), JOIN]
    got = run(LanesExecutor(rule=(16, 25)), x, program)
    assert np.array_equal(got, model_of(x, program, Params(16, 25)))


def test_padding_of_k8_is_not_mistaken_for_k16() -> None:
    """The same registers as m16n8k8 and as m16n8k16, whose upper halves differ or are zero."""
    executor = LanesExecutor(rule=(16, 25))
    t = tiles("normal", 4, 16, 21)
    a, b = t.a.copy(), t.b.copy()
    a[1], b[1] = a[0], b[0]
    b[1, 8:] = 0  # instruction 16 with a zero upper half: the queue's padding of a k8
    a[2], b[2] = a[0], b[0]
    a[2, :, 8:] ^= 0x8000
    x = Operands(a[None], b[None], t.c[None])
    program = [(8, 0, 0, 0), (16, 0, 0, 1), (16, 1, 1, 2), (8, 1, 1, 3), (16, 2, 2, 0), (8, 2, 2, 1), (16, 2, 0, 2)]
    program.append(JOIN)
    assert np.array_equal(run(executor, x, program), model_of(x, program, Params(16, 25)))


@pytest.mark.parametrize("flavor", ["fast", "checked"])
def test_queue_of_exactly_the_limit(flavor: str) -> None:
    executor = LanesExecutor(rule=(8, 24), flavor=flavor)
    x = Operands.of(tiles("normal", 12, 16, 31), 1)
    for count in (31, 32, 33, 64, 65):
        program = [(8 if i % 2 else 16, i % 12, (i * 5) % 12, i % 7) for i in range(count)] + [JOIN]
        assert np.array_equal(run(executor, x, program), model_of(x, program, Params(8, 24))), count
