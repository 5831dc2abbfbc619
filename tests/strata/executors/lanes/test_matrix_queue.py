"""Programs of matrix instructions: the queue of a warp, what it keeps ready and what it must not confuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from strata.executors.lanes import LanesExecutor
from tests.strata.executors.lanes.test_lanes_tensorcore import JOIN, Operands, Step, run
from validation.core.random_streams import Stream
from validation.numerics.tensorcore import Params, mma
from validation.numerics.tensorcore_data import tiles
from validation.numerics.tensorcore_parts import CANONICAL_NAN

Array = np.ndarray[Any, Any]


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


@pytest.mark.parametrize("rule", [(4, 27), (8, 25), (8, 26), (8, 30), (16, 25), (16, 26)], ids=str)
@pytest.mark.parametrize("sign", [0, 0x8000])
def test_sums_that_need_33_bits(sign: int, rule: tuple[int, int]) -> None:
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
    got = run(LanesExecutor(rule=rule), x, program)
    assert np.array_equal(got, model_of(x, program, Params(*rule)))


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
