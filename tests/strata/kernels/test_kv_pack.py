"""Packing on checked lanes: bytes against the reference packers, and which rows are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import kv_pack
from strata.kernels.pool import HEAD_DIM, MODE_FORMATS, MODES, Pool
from validation.core.random_streams import Stream, power_of_two
from validation.operations.kv_pack import bound as bounds
from validation.operations.kv_pack import planes, reference
from validation.operations.kv_pack import values as pack_values

PLANES = ("k", "v", "k_scale", "v_scale")
GROUP, LARGEST = reference.INT8_GROUP, reference.INT8_LARGEST
#: Rotated planes (K, V) of a mode, as the format's definition has them.
ROTATED = {"fp16": (False, False), "int8": (False, False), "k8v4": (False, True), "q4_0": (True, True)}


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.uint8)


def assert_same(got: Pool, want: Pool) -> None:
    """Equal bytes in every plane."""
    for plane in PLANES:
        one, two = getattr(got, plane), getattr(want, plane)
        assert (one is None) == (two is None), plane
        if one is not None:
            assert one.dtype == two.dtype
            assert np.array_equal(bits(one), bits(two)), plane


def stored(x: np.ndarray, form: str, rotated: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """What a plane keeps of float32 rows: data and INT8 scales, by the reference."""
    x = reference.hadamard32(x) if rotated else x
    if form == "int8":
        return reference.pack_int8(x)
    return (reference.pack_q4_0(x) if form == "q4_0" else reference.pack_fp16(x)), None


def expected(pool: Pool, k: np.ndarray, v: np.ndarray, cells: Sequence[int]) -> Pool:
    """`pool` with the rows of `cells` replaced, row by row at the index that the layout defines."""
    out = copied(pool)
    forms = MODE_FORMATS[pool.mode]
    planes = ((out.k, out.k_scale), (out.v, out.v_scale))
    for x, form, rotated, (plane, scales) in zip((k, v), forms, ROTATED[pool.mode], planes, strict=True):
        data, scale = stored(x, form, rotated)
        for i, cell in enumerate(cells):
            page, slot = int(pool.table[cell // pool.page_size]), cell % pool.page_size
            if page < 0:
                continue
            for head in range(pool.n_head_kv):
                row = (page * pool.n_head_kv + head) * pool.page_size + slot
                plane.reshape(-1, plane.shape[-1])[row] = data[i, head]
                if scale is not None and scales is not None:
                    scales.reshape(-1, 4)[row] = scale[i, head]
    return out


def copied(pool: Pool) -> Pool:
    """A pool of its own with the same bytes."""
    k_scale, v_scale = (None if scale is None else scale.copy() for scale in (pool.k_scale, pool.v_scale))
    return replace(pool, k=pool.k.copy(), v=pool.v.copy(), k_scale=k_scale, v_scale=v_scale)


def littered(mode: str, pages: int, page_size: int, heads: int, table: np.ndarray) -> Pool:
    """A pool of random bytes, so that a byte written by mistake differs from what lay there."""
    empty = kv_pack.empty_pool(mode, pages, page_size, heads, table)
    stream = Stream.of(1, "litter", mode)
    planes: dict[str, Any] = {}
    for plane in PLANES:
        old = getattr(empty, plane)
        if old is not None:
            shape = (*old.shape[:-1], old.shape[-1] * old.itemsize)
            planes[plane] = stream.child(plane).octets(shape).view(old.dtype)
    return replace(empty, **planes)


def rows(seed: int, count: int, heads: int) -> tuple[np.ndarray, np.ndarray]:
    """float32 K and V [count, heads, 256], different ones."""
    stream = Stream.of(seed, "rows")
    shape = (count, heads, HEAD_DIM)
    return stream.child("k").normals(shape), stream.child("v").normals(shape, -2)


def launch_int8(executor: LanesExecutor, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """codes, scales and the count of lost values of float32 rows [n, 256]."""
    packed = one_plane(executor, "int8", x)
    assert packed.pool.k_scale is not None
    return packed.pool.k[:, 0, 0], packed.pool.k_scale[:, 0, 0], packed.lost


def one_plane(executor: LanesExecutor, mode: str, x: np.ndarray) -> kv_pack.Packed:
    """float32 rows [n, 256] as the K of n cells, one a page; V is zero."""
    table = np.arange(len(x), dtype=np.int32)
    packed = kv_pack.pack(executor, mode, x[:, None], np.zeros_like(x)[:, None], page_size=1, table=table, pages=len(x))
    assert packed.guards_ok
    return packed


def steps_around(values: np.ndarray, count: int = 2) -> np.ndarray:
    """float32 values and their neighbours up to `count` steps away on both sides, finite ones."""
    base = values.astype(np.float32)
    near = [base]
    for way in (np.inf, -np.inf):
        at = base
        for _ in range(count):
            at = np.nextafter(at, np.float32(way))
            near.append(at)
    return np.unique(np.concatenate(near))


def grouped(values: np.ndarray, largest: np.ndarray | float) -> np.ndarray:
    """float32 rows [n, 256] whose groups of 64 start with `largest` and hold all `values` after it.

    largest: one number, or one for every 63 values.
    """
    count = -(-len(values) // (GROUP - 1))
    padded = np.resize(values, count * (GROUP - 1)).reshape(count, GROUP - 1)
    head = np.broadcast_to(np.asarray(largest, dtype=np.float32), count)[:, None]
    groups = np.concatenate([head, padded], axis=1).astype(np.float32)
    full = -(-count // 4) * 4
    return np.resize(groups, (full, GROUP)).reshape(-1, HEAD_DIM)


# ---- INT8 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-14, -3, 0, 15])
def test_int8_at_every_half_step_and_two_floats_beside_it(checked: LanesExecutor, exponent: int) -> None:
    halves = (np.arange(-LARGEST, LARGEST) + 0.5) * power_of_two(exponent)
    x = grouped(steps_around(halves), LARGEST * power_of_two(exponent))
    codes, scales, lost = launch_int8(checked, x)
    want, scale = reference.pack_int8(x)
    assert np.array_equal(codes, want)
    assert np.array_equal(bits(scales), bits(scale))
    assert lost == 0
    # All 254 half steps are there and all but the outermost codes come out: -127..127.
    assert set(np.unique(codes).tolist()) == set(range(-LARGEST, LARGEST + 1))
    exact = np.isin(x, halves.astype(np.float32))
    assert (codes[exact] % 2 == 0).all()


def test_int8_beside_half_steps_of_scales_that_are_no_powers_of_two(checked: LanesExecutor) -> None:
    """A division rounded once: a product with 1/s, rounded twice, falls on the other side of some of these."""
    scales = (0x3C01 + 83 * np.arange(12, dtype=np.uint16)).view(np.float16).astype(np.float64)
    x = np.concatenate([grouped(steps_around((np.arange(127) + 0.5) * s), LARGEST * s) for s in scales])
    codes, stored_scales, _ = launch_int8(checked, x)
    want, scale = reference.pack_int8(x)
    assert np.array_equal(codes, want)
    assert np.array_equal(bits(stored_scales), bits(scale))
    wide = scale.astype(np.float32).repeat(GROUP, axis=-1)
    assert (np.rint(x * (np.float32(1) / wide)) != want).any()


def test_int8_codes_follow_the_stored_scale(checked: LanesExecutor) -> None:
    """Scales just below and above the middle of two FP16 values: codes are steps of what is stored."""
    lowered = (1 + 2.0**-11 - 2.0**-20) * LARGEST  # stored scale 1
    raised = (1 + 2.0**-11 + 2.0**-20) * LARGEST  # stored scale 1 + 2**-10
    drawn = Stream.of(1, "clamp").normals(63 * 8, 5).clip(-100, 100)
    x = grouped(drawn, np.array([lowered, -lowered, raised, -raised] * 2))
    codes, scales, _ = launch_int8(checked, x)
    want, scale = reference.pack_int8(x)
    assert np.array_equal(codes, want)
    assert np.array_equal(bits(scales), bits(scale))
    assert {float(s) for s in scales.ravel()} == {1.0, 1 + 2.0**-10}
    # The scale before it was rounded would have given other codes.
    own = np.abs(x.reshape(-1, GROUP)).max(axis=-1, keepdims=True) / np.float32(LARGEST)
    assert (np.rint(x.reshape(-1, GROUP) / own) != want.reshape(-1, GROUP)).any()


def test_int8_scales_that_are_zero_subnormal_or_at_an_edge(checked: LanesExecutor) -> None:
    """Group maxima at every place where FP16 changes class, by float32 steps, subnormal float32 among them."""
    smallest = power_of_two(-24)
    edges = np.array([0.5, 1, 1.5, 2, 1023, 1023.5, 1024, 1024.5]) * smallest
    tops = steps_around(np.concatenate([edges, [65504, 65519, 65519.99, 65520]]) * LARGEST, 3)
    tiny = np.array([0.0, -0.0, 2.0**-149, 2.0**-127, -(2.0**-126)], np.float32)
    largest = np.concatenate([tops, -tops, tiny])
    share = Stream.of(1, "share").normals((len(largest), GROUP - 1)).clip(-2, 2) / 2
    x = grouped((share * np.abs(largest)[:, None]).astype(np.float32).ravel(), largest)
    codes, scales, lost = launch_int8(checked, x)
    want, scale = reference.pack_int8(x)
    assert np.array_equal(bits(scales), bits(scale))
    finite = np.isfinite(scale).repeat(GROUP, axis=-1)
    assert np.array_equal(codes[finite], want[finite])
    patterns = set((scale.view(np.uint16) & 0x7FFF).ravel().tolist())
    assert {0, 1, 2, 0x03FF, 0x0400, 0x7BFF, 0x7C00} <= patterns
    assert not codes[(scale == 0).repeat(GROUP, axis=-1)].any()
    assert lost == int((~finite).sum())
    # A subnormal scale can be rounded down by a third: without the clamp there would be more than 127 steps.
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.abs(x) / scale.astype(np.float32).repeat(GROUP, axis=-1)
    assert (steps[finite & np.isfinite(steps)] > LARGEST + 1).any()


def test_int8_zero_groups_of_both_signs(checked: LanesExecutor) -> None:
    x = np.where(Stream.of(1, "zeros").below(2, (3, HEAD_DIM)) == 0, 0.0, -0.0).astype(np.float32)
    x[1, 70] = -3.0
    codes, scales, lost = launch_int8(checked, x)
    assert lost == 0
    assert np.flatnonzero(codes).tolist() == [HEAD_DIM + 70]
    assert codes[1, 70] == -LARGEST
    assert np.count_nonzero(bits(scales)) == np.count_nonzero(bits(np.array(3 / 127, np.float16)))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(-24, 17))
def test_int8_of_drawn_rows(checked: LanesExecutor, seed: int, exponent: int) -> None:
    x = Stream.of(seed, "x").normals((6, HEAD_DIM), exponent)
    codes, scales, _ = launch_int8(checked, x)
    want, scale = reference.pack_int8(x)
    assert np.array_equal(codes, want)
    assert np.array_equal(bits(scales), bits(scale))


# ---- FP16 and Q4_0 --------------------------------------------------------------------------------------


def test_fp16_at_the_middle_of_every_two_neighbours(checked: LanesExecutor) -> None:
    """All 31,743 middles between finite FP16 values, and the floats beside some of them, with either sign."""
    half = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    middles = ((half[:-1] + half[1:]) / 2).astype(np.float32)
    values = np.concatenate([middles, steps_around(middles[::31], 1), [65519.996, 2.0**-149]]).astype(np.float32)
    values = np.resize(values, -(-len(values) // HEAD_DIM) * HEAD_DIM)
    values[1::2] *= -1
    x = values.reshape(-1, HEAD_DIM)
    packed = one_plane(checked, "fp16", x)
    assert np.array_equal(bits(packed.pool.k[:, 0, 0]), bits(reference.pack_fp16(x)))
    assert packed.lost == 0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(-24, 17))
def test_q4_0_of_drawn_rows_goes_through_the_rotation(checked: LanesExecutor, seed: int, exponent: int) -> None:
    x = Stream.of(seed, "x").normals((5, HEAD_DIM), exponent)
    packed = one_plane(checked, "q4_0", x)
    assert np.array_equal(packed.pool.k[:, 0, 0], reference.pack_q4_0(reference.hadamard32(x)))


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_turns_the_planes_it_should(checked: LanesExecutor, mode: str) -> None:
    assert kv_pack.rotated_planes(mode) == ROTATED[mode]
    k, v = rows(3, 7, 2)
    table = np.array([1, 0], np.int32)
    packed = kv_pack.pack(checked, mode, k, v, page_size=4, table=table, pages=2)
    assert_same(packed.pool, expected(kv_pack.empty_pool(mode, 2, 4, 2, table), k, v, range(7)))
    entries = [f"kv_pack_{form}" for form in MODE_FORMATS[mode]]
    turned = [
        name for entry, on in zip(entries, ROTATED[mode], strict=True) for name in ["hadamard_256"] * on + [entry]
    ]
    assert [witness.entry for witness in packed.witnesses] == turned
    assert all(witness.blocks_run == -(-14 // 4) for witness in packed.witnesses)


# ---- which rows are written -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_cells_one_by_one_in_a_batch_and_as_a_prompt_are_the_same_bytes(checked: LanesExecutor, mode: str) -> None:
    k, v = rows(1, 11, 3)
    table = np.array([3, -1, 0, 2], np.int32)
    start = littered(mode, 4, 4, 3, table)
    prompt = kv_pack.append(checked, start, k, v, 2)
    order = Stream.of(1, "order").permutation(11)
    batch = kv_pack.append(checked, start, k[order], v[order], order + 2)
    one = kv_pack.Packed(start, 0, [], True)
    for i in reversed(range(11)):
        one = kv_pack.append(checked, one.pool, k[i : i + 1], v[i : i + 1], i + 2 if i % 2 else [i + 2])
    assert prompt.guards_ok
    assert batch.guards_ok
    assert one.guards_ok
    assert_same(batch.pool, prompt.pool)
    assert_same(one.pool, prompt.pool)
    assert_same(prompt.pool, expected(start, k, v, range(2, 13)))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_an_append_writes_its_own_rows_and_nothing_else(checked: LanesExecutor, data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(MODES), "mode")
    page_size = data.draw(st.sampled_from([1, 3, 4, 16]), "page size")
    heads = data.draw(st.integers(1, 3), "KV heads")
    logical = data.draw(st.integers(1, 7), "logical pages")
    pages = logical + data.draw(st.integers(0, 3), "spare pages")
    seed = data.draw(st.integers(0, 2**32), "seed")
    stream = Stream.of(seed, "append")
    table = stream.child("pages").permutation(pages)[:logical].astype(np.int32)
    table[stream.child("absent").below(4, logical) == 0] = -1
    count = data.draw(st.integers(1, min(9, logical * page_size)), "rows")
    k, v = rows(seed, count, heads)
    start = littered(mode, pages, page_size, heads, table)
    cells: int | np.ndarray
    if data.draw(st.booleans(), "listed"):
        cells = stream.child("cells").permutation(logical * page_size)[:count]
        named = cells.tolist()
    else:
        cells = data.draw(st.integers(0, logical * page_size - count), "first")
        named = list(range(cells, cells + count))
    packed = kv_pack.append(checked, start, k, v, cells)
    assert packed.guards_ok
    assert packed.lost == 0
    assert_same(packed.pool, expected(start, k, v, named))


def test_a_new_pool_is_poison_wherever_no_cell_lies(checked: LanesExecutor) -> None:
    table = np.array([2, -1, 0], np.int32)
    k, v = rows(1, 6, 1)
    packed = kv_pack.pack(checked, "int8", k, v, page_size=2, table=table, pages=4)
    scale = packed.pool.k_scale
    assert scale is not None
    written = np.zeros((4, 2), bool)
    written[[2, 0]] = True  # cells 0, 1 and 4, 5; cells 2, 3 lie on the absent page
    assert np.array_equal(np.isfinite(scale[:, 0]).all(axis=-1), written)
    assert (packed.pool.k[~written[:, None]].view(np.uint8) == 0xFF).all()


def test_appending_does_not_touch_the_pool_it_was_given(checked: LanesExecutor) -> None:
    start = littered("k8v4", 2, 4, 1, np.array([1, 0], np.int32))
    before = copied(start)
    k, v = rows(1, 8, 1)
    kv_pack.append(checked, start, k, v, 0)
    assert_same(start, before)


# ---- values that a format cannot hold -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fp16", "int8", "q4_0"])
def test_lost_counts_what_overflows(checked: LanesExecutor, mode: str) -> None:
    form = MODE_FORMATS[mode][0]
    x = Stream.of(1, "lost").normals((5, HEAD_DIM))
    # In the rotated domain of Q4_0 a value of 2**24 in a row reaches every block of it.
    x[1, 3], x[4, 200] = 2.0**24, -(2.0**24)
    packed = one_plane(checked, mode, x)
    count = reference.lost(reference.hadamard32(x) if form == "q4_0" else x, form)
    assert packed.lost == count
    assert count == {"fp16": 2, "int8": 2 * GROUP, "q4_0": 2 * HEAD_DIM}[mode]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("mode", ["fp16", "int8"])
def test_lost_counts_values_that_are_not_finite_and_spares_the_rest(
    checked: LanesExecutor, mode: str, bad: float
) -> None:
    x = Stream.of(1, "lost").normals((4, HEAD_DIM))
    places = [(0, 0), (0, 1), (2, 63), (2, 64), (3, 255)]
    clean = x.copy()
    for row, dim in places:
        x[row, dim], clean[row, dim] = bad, 0.0
    packed, good = one_plane(checked, mode, x), one_plane(checked, mode, clean)
    assert packed.lost == len(places)
    assert good.lost == 0
    same = np.ones((4, HEAD_DIM), bool)
    for row, dim in places:
        same[row, dim] = False
    assert np.array_equal(bits(packed.pool.k[:, 0, 0][same]), bits(good.pool.k[:, 0, 0][same]))
    if mode == "int8":
        assert packed.pool.k_scale is not None
        assert good.pool.k_scale is not None
        assert np.array_equal(bits(packed.pool.k_scale), bits(good.pool.k_scale))


def test_q4_0_counts_every_value_of_a_row_that_is_not_finite(checked: LanesExecutor) -> None:
    """The rotation spreads a NaN over its row, and over no other one."""
    x = Stream.of(1, "lost").normals((3, HEAD_DIM))
    x[1, 17] = np.nan
    packed = one_plane(checked, "q4_0", x)
    assert packed.lost == HEAD_DIM
    clean = one_plane(checked, "q4_0", np.where(np.isnan(x), np.float32(0), x))
    assert np.array_equal(packed.pool.k[[0, 2]], clean.pool.k[[0, 2]])


@pytest.mark.parametrize("mode", ["fp16", "int8", "q4_0"])
def test_stored_bytes_beside_lost_values_are_those_of_the_definition(checked: LanesExecutor, mode: str) -> None:
    form = MODE_FORMATS[mode][0]
    x = pack_values.draw("pack_lost", Stream.of(5, "lost"), 60, 1)[:, 0]
    packed = one_plane(checked, mode, x)
    turned = reference.hadamard32(x) if form == "q4_0" else x
    want = planes.pack(turned[:, None], form)
    assert np.array_equal(packed.pool.k[:, 0, 0].view(np.uint8), want.data[:, 0].view(np.uint8))
    if want.scale is not None:
        assert packed.pool.k_scale is not None
        assert np.array_equal(bits(packed.pool.k_scale[:, 0, 0]), bits(want.scale[:, 0]))
    assert packed.lost == reference.lost(turned, form) > 0


def test_lost_does_not_count_rows_of_absent_pages(checked: LanesExecutor) -> None:
    x = np.full((2, 1, HEAD_DIM), np.inf, np.float32)
    table = np.array([-1, 0], np.int32)
    packed = kv_pack.pack(checked, "int8", x, np.zeros_like(x), page_size=1, table=table, pages=1)
    assert packed.lost == HEAD_DIM


# ---- the rotation -----------------------------------------------------------------------------------------


def test_hadamard_is_the_explicit_matrix_within_the_derived_bound(checked: LanesExecutor) -> None:
    index = np.arange(HEAD_DIM)
    matrix = 1.0 - 2.0 * (np.bitwise_count(index[:, None] & index) & 1)
    x = np.concatenate([Stream.of(1, "h").normals((40, HEAD_DIM)), np.eye(HEAD_DIM, dtype=np.float32)])
    got = kv_pack.hadamard(checked, x)
    exact = x.astype(np.float64) @ matrix / 16  # below 2**-44 of the sum of magnitudes, far inside the bound
    assert (np.abs(got - exact) <= bounds.hadamard(x)).all()
    assert np.array_equal(got[40:], (matrix / 16).astype(np.float32))  # columns are exact


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(-140, 100))
def test_hadamard_has_the_bits_of_its_definition(checked: LanesExecutor, seed: int, exponent: int) -> None:
    x = Stream.of(seed, "h").normals((7, HEAD_DIM), exponent)
    got = kv_pack.hadamard(checked, x)
    assert np.array_equal(bits(got), bits(reference.hadamard32(x)))


def test_hadamard_twice_is_the_identity_within_the_derived_bound(checked: LanesExecutor) -> None:
    """H(Hx) - x: the second transform's own error, and the first one's turned back: each of its 256 errors of at
    most b reaches an output with a factor of 1/16."""
    x = Stream.of(2, "h").normals((64, HEAD_DIM))
    once = kv_pack.hadamard(checked, x)
    twice = kv_pack.hadamard(checked, once)
    bound = bounds.hadamard(once) + HEAD_DIM / 16 * bounds.hadamard(x)
    assert (np.abs(twice.astype(np.float64) - x) <= bound).all()
    # Integers up to 16 keep every sum exact.
    whole = (Stream.of(3, "h").below(33, (8, HEAD_DIM)) - 16).astype(np.float32)
    assert np.array_equal(kv_pack.hadamard(checked, kv_pack.hadamard(checked, whole)), whole)


@pytest.mark.parametrize("exponent", [-100, -7, 1, 90])
def test_hadamard_commutes_with_powers_of_two(checked: LanesExecutor, exponent: int) -> None:
    x = Stream.of(4, "h").normals((9, HEAD_DIM))
    power = np.float32(power_of_two(exponent))
    assert np.array_equal(bits(kv_pack.hadamard(checked, x * power)), bits(kv_pack.hadamard(checked, x) * power))


def test_hadamard_of_a_stack_keeps_its_shape(checked: LanesExecutor) -> None:
    x = Stream.of(5, "h").normals((2, 3, HEAD_DIM))
    got = kv_pack.hadamard(checked, x)
    assert got.shape == x.shape
    assert np.array_equal(got[1, 2], kv_pack.hadamard(checked, x[1, 2]))


# ---- errors ------------------------------------------------------------------------------------------------


def pool_for_errors() -> Pool:
    return kv_pack.empty_pool("int8", 2, 4, 2, np.array([1, 0], np.int32))


@pytest.mark.parametrize(
    ("k", "v", "cells", "message"),
    [
        ((3, 2, 255), (3, 2, 256), 0, r"k is float32 \(3, 2, 255\), expected float32 \[rows, 2, 256\]"),
        ((3, 1, 256), (3, 2, 256), 0, r"k is float32 \(3, 1, 256\)"),
        ((0, 2, 256), (0, 2, 256), 0, r"k is float32 \(0, 2, 256\)"),
        ((), (3, 2, 256), 0, r"k is float32 \(\), expected"),
        ((3, 2, 256), (2, 2, 256), 0, r"v is float32 \(2, 2, 256\)"),
        ((3, 2, 256), (3, 2, 256), 6, r"cells from 6 to 8, expected 0 to 7"),
        ((3, 2, 256), (3, 2, 256), -1, r"cells from -1 to 1, expected 0 to 7"),
        ((3, 2, 256), (3, 2, 256), [0, 1, 8], r"cells from 0 to 8, expected 0 to 7"),
        ((3, 2, 256), (3, 2, 256), [0, 1], r"cells are int64 \(2,\), expected 3 whole numbers"),
        ((3, 2, 256), (3, 2, 256), [0.0, 1.0, 2.5], r"cells are float64 \(3,\), expected 3 whole numbers"),
        ((3, 2, 256), (3, 2, 256), [4, 2, 4], "one is named twice, and the order of two writes is open"),
    ],
)
def test_an_append_that_cannot_be_is_refused(
    checked: LanesExecutor, k: tuple[int, ...], v: tuple[int, ...], cells: Any, message: str
) -> None:
    with pytest.raises(StrataError, match=message):
        kv_pack.append(checked, pool_for_errors(), np.zeros(k, np.float32), np.zeros(v, np.float32), cells)


def test_float64_rows_are_refused(checked: LanesExecutor) -> None:
    x = np.zeros((1, 2, HEAD_DIM))
    with pytest.raises(StrataError, match=r"k is float64 \(1, 2, 256\)"):
        kv_pack.append(checked, pool_for_errors(), x, x, 0)


def test_cells_that_share_a_row_are_refused(checked: LanesExecutor) -> None:
    """Two logical pages on one physical page: which of the two writes stays would be open."""
    pool = kv_pack.empty_pool("fp16", 2, 4, 1, np.array([1, 0, 1], np.int32))
    k, v = rows(1, 9, 1)
    with pytest.raises(StrataError, match="cell 0 shares its row of page 1 with another one"):
        kv_pack.append(checked, pool, k, v, 0)
    with pytest.raises(StrataError, match="cell 2 shares its row of page 1 with another one"):
        kv_pack.append(checked, pool, k[:2], v[:2], [2, 10])
    kv_pack.append(checked, pool, k[:2], v[:2], [2, 11])  # another row of the page


def test_a_mode_and_a_table_that_cannot_be_are_refused(checked: LanesExecutor) -> None:
    k, v = rows(1, 1, 1)
    table = np.array([0], np.int32)
    with pytest.raises(StrataError, match="mode 'q8_0': expected one of fp16, int8, k8v4, q4_0"):
        kv_pack.pack(checked, "q8_0", k, v, page_size=1, table=table, pages=1)
    with pytest.raises(StrataError, match="table names pages 1 to 1, expected -1 to 0"):
        kv_pack.pack(checked, "fp16", k, v, page_size=1, table=table + np.int32(1), pages=1)
    with pytest.raises(StrataError, match="table is int64"):
        kv_pack.pack(checked, "fp16", k, v, page_size=1, table=table.astype(np.int64), pages=1)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 255), np.float32), r"x is float32 \(2, 255\), expected float32 \[..., 256\]"),
        (np.zeros((2, 256)), r"x is float64 \(2, 256\)"),
        (np.zeros((0, 256), np.float32), r"x is float32 \(0, 256\)"),
        (np.float32(1) * np.ones((), np.float32), r"x is float32 \(\)"),
    ],
)
def test_hadamard_of_other_shapes_is_refused(checked: LanesExecutor, x: Any, message: str) -> None:
    with pytest.raises(StrataError, match=message):
        kv_pack.hadamard(checked, np.asarray(x))
