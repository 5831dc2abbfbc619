"""Warp and block operations of lanes against what the PTX manual says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strata.executors.base import Executor
from strata.executors.lanes import LanesExecutor
from tests.strata.executors.lanes.conftest import Maker
from tests.strata.executors.lanes.sources import kernel
from validation.core.random_streams import Stream

Array = np.ndarray[Any, Any]
WHAT = (
    "xor", "index", "up", "down", "ballot", "any", "all", "add", "max", "max_unsigned",
    "ldmatrix", "ldmatrix_transposed", "async", "atomics", "block_sum", "order",
)  # fmt: skip
SENTINEL = 0xABAD1DEA
FULL = 0xFFFFFFFF
LANES = np.arange(32)


def run(
    executor: Executor, what: str, rows: Array, settings: Array | None = None, block: int = 32, tier: int = 80
) -> tuple[Array, Array]:
    """Results uint32 [blocks, 4, threads] and the two counters. rows: uint32 [blocks, 4, threads]; settings:
    int64 [blocks, 3], mask, argument, width."""
    out = executor.empty(rows.shape, np.uint32, name="out")
    counters = executor.array(np.zeros(2, np.uint32), "counters", written=True)
    chosen = np.full((len(rows), 3), (FULL, 0, 32)) if settings is None else settings
    arguments = [executor.array(rows, "in"), out, executor.array(chosen.astype(np.uint32).view(np.int32), "settings")]
    executor.launch(
        kernel("vocabulary", block, 4096, tier), (len(rows), 1, 1), [*arguments, counters, np.int32(WHAT.index(what))]
    )
    assert out.guards_intact()
    return out.host(), counters.host()


def random_rows(name: str, blocks: int, threads: int = 32) -> Array:
    return (Stream.of(4, name).words((blocks, 4, threads)) >> np.uint64(20)).astype(np.uint32)


def ptx_shuffle(kind: str, lane: int, operand: int, width: int) -> int:
    """The lane that PTX's shfl.sync reads: b is five bits; c holds the segment mask (32 - width, five bits)
    and the clamp, 0 for `up` and 31 else; out of range means the lane itself."""
    b, segments, clamp = operand & 31, (32 - width) & 31, 0 if kind == "up" else 31
    limit = (lane & segments) | (clamp & ~segments & 31)
    least = lane & segments
    source, good = {
        "up": (lane - b, lane - b >= limit),
        "down": (lane + b, lane + b <= limit),
        "xor": (lane ^ b, lane ^ b <= limit),
        "index": (least | (b & ~segments & 31), (least | (b & ~segments & 31)) <= limit),
    }[kind]
    return source if good else lane


@pytest.mark.parametrize("kind", ["xor", "index", "up", "down"])
@pytest.mark.parametrize("flavor", ["fast", "checked"])
def test_shuffle(kind: str, flavor: str) -> None:
    settings = [(FULL, argument, width) for width in (2, 4, 8, 16, 32) for argument in (*range(34), 63)]
    settings += [(FULL, -1, width) for width in (1, 2, 4, 8, 16, 32)]
    # Masks of whole segments, whose lanes read no other's.
    settings += [(mask, argument, 8) for mask in (0xFF, 0xFF00FF00, 0x00FFFF00) for argument in (0, 3, 7)]
    rows = random_rows(kind, len(settings))
    rows[:, 1] &= 31  # the lanes' own arguments
    want = np.full((len(settings), 32), SENTINEL, np.uint32)
    kept = []
    for block, (mask, argument, width) in enumerate(settings):
        sources = [ptx_shuffle(kind, i, int(rows[block, 1, i]) if argument < 0 else argument, width) for i in range(32)]
        inside = [bool(mask >> i & 1) for i in range(32)]
        kept.append(all(mask >> sources[i] & 1 for i in range(32) if inside[i]))
        want[block] = np.where(inside, rows[block, 0, sources], SENTINEL)
    chosen = np.flatnonzero(kept)
    assert len(chosen) > 175
    got, _ = run(LanesExecutor(flavor=flavor), kind, rows[chosen], np.array(settings, np.int64)[chosen])
    assert np.array_equal(got[:, 0], want[chosen])


def test_xor_reads_earlier_segments_but_not_later_ones() -> None:
    """The one place where shfl.bfly differs from what a segment suggests."""
    rows = random_rows("segments", 1)
    got, _ = run(LanesExecutor(), "xor", rows, np.array([(FULL, 8, 8)]))
    assert np.array_equal(got[0, 0], rows[0, 0, np.where(LANES & 8, LANES ^ 8, LANES)])


def test_votes() -> None:
    masks = [FULL, 1, 0x80000000, 0xFFFF, 0xFFFF0000, 0x55555555, 0x00000110]
    patterns = [0, FULL, 1, 0x80000000, 0x12345678, 0xFFFF, 0x55555555]
    settings = np.array([(mask, 0, 32) for mask in masks for _ in patterns])
    values = np.array(patterns * len(masks))
    rows = np.zeros((len(settings), 4, 32), np.uint32)
    # Any value but zero is yes.
    rows[:, 0] = np.where(values[:, None] >> LANES & 1, 0x80 + LANES, 0)
    inside = (settings[:, :1] >> LANES & 1).astype(bool)
    yes = values & settings[:, 0]
    executor = LanesExecutor()
    for what, result in (("ballot", yes), ("any", yes != 0), ("all", yes == settings[:, 0])):
        got, _ = run(executor, what, rows, settings)
        assert np.array_equal(got[:, 0], np.where(inside, result[:, None], SENTINEL).astype(np.uint32)), what


def butterfly(what: str, rows: Array, width: int) -> Array:
    """float32 bits [blocks, 3, 32] after v = v op v[lane ^ offset], offset = width/2 .. 1."""
    v = rows[:, :3].copy()
    offset = width // 2
    while offset:
        other = v[:, :, LANES ^ offset]
        if what == "max_unsigned":
            v = np.where(v > other, v, other)
        else:
            mine, theirs = v.view(np.float32), other.view(np.float32)
            with np.errstate(all="ignore"):
                v = (mine + theirs if what == "add" else np.where(mine > theirs, mine, theirs)).view(np.uint32)
        offset //= 2
    return v


@pytest.mark.parametrize("what", ["add", "max", "max_unsigned"])
def test_warp_reductions_keep_their_order(what: str) -> None:
    widths = np.repeat([2, 4, 8, 16, 32], 40)
    rows = random_rows(what, len(widths))
    if what != "max_unsigned":
        # Exponents within 16 of each other, so that every order of a sum gives other bits; signed zeros.
        exponents = (rows >> np.uint32(23) & np.uint32(15)) + np.uint32(120)
        rows = (rows & np.uint32(0x807FFFFF)) | exponents << np.uint32(23)
        rows[::7, 0] = 0
        rows[::7, 0, ::3] = 0x80000000
        rows[3::40, 1, 5] = 0x7F800000
    settings = np.stack([np.full(len(widths), FULL), np.zeros(len(widths), np.int64), widths], axis=1)
    got, _ = run(LanesExecutor(), what, rows, settings)
    want = np.concatenate([butterfly(what, rows[widths == width], width) for width in (2, 4, 8, 16, 32)])
    assert np.array_equal(got[:, :3], want)
    if what == "add":  # any other order would show
        other = rows[widths == 32, 0].view(np.float32).sum(axis=1, dtype=np.float32)
        assert (other.view(np.uint32) != want[widths == 32, 0, 0]).any()


# PTX, ldmatrix .m8n8 .x4, in our words: threads 8i .. 8i+7 give the addresses of rows 0 .. 7 of matrix i.
# A row is eight 16-bit elements. Register i of thread T receives, of matrix i, row T/4, elements 2(T%4) in
# the low half and 2(T%4)+1 in the high half. With .trans the matrix is loaded in column-major form: thread T
# receives what stands at rows 2(T%4) and 2(T%4)+1 of column T/4.
LDMATRIX = {
    "ldmatrix": [((t // 4, 2 * (t % 4)), (t // 4, 2 * (t % 4) + 1)) for t in range(32)],
    "ldmatrix_transposed": [((2 * (t % 4), t // 4), (2 * (t % 4) + 1, t // 4)) for t in range(32)],
}


@pytest.mark.parametrize("what", LDMATRIX)
@pytest.mark.parametrize("flavor", ["fast", "checked"])
def test_ldmatrix(what: str, flavor: str) -> None:
    blocks = 50
    rows = np.zeros((blocks, 4, 32), np.uint32)
    # Row addresses in any order, some shared: 128 places of 16 bytes.
    rows[:, 0] = Stream.of(5, "rows").below(128, (blocks, 32)) * 16
    got, _ = run(LanesExecutor(flavor=flavor), what, rows)
    for block in range(blocks):
        for i in range(4):
            # Shared element n holds n.
            matrix = rows[block, 0, 8 * i : 8 * i + 8, None] // 2 + np.arange(8)
            want = [int(matrix[low]) | int(matrix[high]) << 16 for low, high in LDMATRIX[what]]
            assert got[block, i].tolist() == want


def test_asynchronous_copies_land_at_the_wait_of_their_group() -> None:
    blocks = 8
    rows = random_rows("async", blocks) & np.uint32(0x7FFFFFFF)
    masks = np.array([FULL, 0, 1, 0xAAAAAAAA, 0xFFFF0000, 0x0000FFFF, 0x12345678, 0x80000001])
    settings = np.stack([masks, np.zeros_like(masks), np.full_like(masks, 32)], axis=1)
    got, _ = run(LanesExecutor(), "async", rows, settings)
    # Bit 0: nothing has arrived; 1: waiting for all but 3 groups brings none; 2 to 4: then one group after
    # another, the two copies of the third together; 5: a copy without a commit is not waited for.
    assert (got[:, 0] == 0b111111).all()
    valid = (masks[:, None] >> LANES & 1).astype(bool)
    x, y, z = rows[:, 0], rows[:, 1], rows[:, 2]
    u = np.uint32
    four = np.where(valid, x, 0) ^ x << u(1) ^ x << u(2)
    pair = LANES // 2 * 2
    eight = np.where(valid, y[:, pair] ^ y[:, pair + 1] << u(1), 0)
    quad = LANES // 4 * 4
    sixteen = np.where(valid, z[:, quad] ^ z[:, quad + 1] << u(1) ^ z[:, quad + 2] << u(2) ^ z[:, quad + 3] << u(3), 0)
    assert np.array_equal(got[:, 1], four)
    assert np.array_equal(got[:, 2], eight)
    assert np.array_equal(got[:, 3], sixteen)


@pytest.mark.parametrize("threads", [1, 2])
def test_atomics_lose_nothing(threads: int) -> None:
    blocks, block = 40, 96
    rows = random_rows("atomics", blocks, block)
    got, counters = run(LanesExecutor(threads=threads), "atomics", rows, block=block)
    assert np.array_equal(np.sort(got[:, 0], axis=None), np.arange(blocks * block))
    assert counters.tolist() == [blocks * block, int(rows[:, 0].max())]
    # What atomicMax returns only grows with time, and is some value or the initial zero.
    assert np.isin(got[:, 1], np.append(rows[:, 0], 0)).all()


def float_rows(name: str, blocks: int, threads: int) -> Array:
    return Stream.of(6, name).normals((blocks, 4, threads)).view(np.uint32)


@pytest.mark.parametrize("what", ["xor", "add", "ldmatrix_transposed", "block_sum"])
def test_other_compilers_give_the_same_bits(portable: Maker, what: str) -> None:
    rows = float_rows("portable", 6, 128 if what == "block_sum" else 32)
    if what == "ldmatrix_transposed":
        rows[:, 0] = (rows[:, 0] & 127) * 16
    block = rows.shape[-1]
    got, _ = run(portable(), what, rows, block=block)
    assert np.array_equal(got, run(LanesExecutor(), what, rows, block=block)[0])
