"""Laws that both attention kernels obey on checked lanes, in every mode and tier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import attention
from strata.kernels.paths import PATHS
from strata.kernels.pool import HEAD_DIM, MODE_FORMATS
from tests.strata.kernels import small
from tests.strata.kernels.small import ATTENTION_PATHS, assert_right, make, run, same_bits
from validation.core.random_streams import Stream, power_of_two
from validation.operations.attention.sampling import rows_of

PATH_NAMES = st.sampled_from(ATTENTION_PATHS)
SEEDS = st.integers(0, 2**32)
every_path = pytest.mark.parametrize("name", ATTENTION_PATHS)
#: Other geometries than 12 query heads a KV head, each a compilation: one path of each mode.
GEOMETRIES = [
    ("prompt_attention/q4_0/sm75", 4),
    ("prompt_attention/int8/sm80", 8),
    ("prompt_attention/fp16/sm75", 8),
    ("prompt_attention/k8v4/sm80", 4),
    ("decode_attention/q4_0/simt", 8),
    ("decode_attention/fp16/simt", 4),
]


@pytest.fixture(scope="module", autouse=True)
def built(checked: LanesExecutor) -> None:
    """Kernels of every path and geometry, compiled on all cores."""
    small.prebuild(checked, [(name, 12) for name in ATTENTION_PATHS] + GEOMETRIES)


def mode_of(name: str) -> str:
    return PATHS[name].mode


# ---- FP64 ---------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_drawn_configurations_are_within_the_derived_bound(checked: LanesExecutor, data: st.DataObject) -> None:
    """Any widths, ids in any order and listed twice, absent pages, any page size."""
    name = data.draw(PATH_NAMES, "path")
    seed = data.draw(SEEDS, "seed")
    context = data.draw(st.integers(1, 150), "context")
    recipe = data.draw(st.sampled_from(["signed_decades", "absent_pages", "all_negative", "scale_extremes"]), "recipe")
    page_size = data.draw(st.sampled_from([1, 3, 4, 16, 64]), "page size")
    kv = data.draw(st.integers(1, 3), "KV heads")
    inputs = make(mode_of(name), recipe, seed=seed, context=context, queries=1, page_size=page_size, n_head_kv=kv)
    count = data.draw(st.integers(0, 2 * context), "width")
    drawn = Stream.of(seed, "ids").below(context, count)
    inputs = small.with_list(inputs, np.concatenate([drawn, [0]]))
    inputs = small.with_widths(inputs, [count])
    assert_right(checked, name, inputs, run(checked, name, inputs))


@every_path
def test_one_cell_alone_gives_its_v_row_exactly(checked: LanesExecutor, name: str) -> None:
    """With one cell the weight is 1, and every step of the arithmetic is exact: a locator of rows and dims."""
    cells = np.arange(0, 50, 7)
    inputs = make(mode_of(name), context=50, queries=len(cells), n_head_kv=2)
    inputs = small.with_widths(replace(inputs, ids=cells[:, None].astype(np.int32)), [1] * len(cells))
    want = small.v_values(inputs, cells).repeat(12, axis=1)
    assert np.array_equal(run(checked, name, inputs).astype(np.float64), want)


@pytest.mark.parametrize(("name", "group"), GEOMETRIES)
@pytest.mark.parametrize("kv", [1, 3])
def test_other_geometries_are_within_the_derived_bound(checked: LanesExecutor, name: str, group: int, kv: int) -> None:
    inputs = make(mode_of(name), n_head_kv=kv, group=group)
    assert_right(checked, name, inputs, run(checked, name, inputs))


@pytest.mark.parametrize(("name", "group"), GEOMETRIES)
def test_a_smaller_group_gives_the_bits_of_the_larger_one(checked: LanesExecutor, name: str, group: int) -> None:
    """Query heads do not see one another: 4 or 8 of 12 heads, alone, keep their bits."""
    inputs = make(mode_of(name), n_head_kv=1)
    few = replace(inputs, q=np.ascontiguousarray(inputs.q[:, :group]))
    assert same_bits(run(checked, name, few), np.ascontiguousarray(run(checked, name, inputs)[:, :group]))


# ---- where things lie ------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(PATH_NAMES, SEEDS)
def test_permuted_physical_pages_give_equal_bits(checked: LanesExecutor, name: str, seed: int) -> None:
    inputs = make(mode_of(name), "absent_pages", seed=seed)
    moved = replace(inputs, pool=small.pages_moved(inputs.pool, Stream.of(seed, "moved")))
    assert not np.array_equal(moved.pool.table, inputs.pool.table)
    assert same_bits(run(checked, name, moved), run(checked, name, inputs))


@every_path
def test_page_sizes_give_equal_bits(checked: LanesExecutor, name: str) -> None:
    outs = [run(checked, name, make(mode_of(name), page_size=size, queries=1)) for size in (1, 4, 16, 64)]
    assert all(same_bits(out, outs[0]) for out in outs[1:])


@every_path
def test_a_query_alone_has_the_bits_it_has_in_a_batch(checked: LanesExecutor, name: str) -> None:
    inputs = make(mode_of(name), "width_edges", queries=11, context=70)
    whole = run(checked, name, inputs)
    for query in (0, 3, 10):
        alone = rows_of(inputs, np.array([query]))
        assert same_bits(run(checked, name, alone), whole[query : query + 1])
    turned = rows_of(inputs, np.arange(11)[::-1])
    assert same_bits(run(checked, name, turned), np.ascontiguousarray(whole[::-1]))


@every_path
def test_a_kv_head_alone_has_the_bits_it_has_beside_others(checked: LanesExecutor, name: str) -> None:
    inputs = make(mode_of(name), n_head_kv=3, queries=1)
    whole = run(checked, name, inputs)
    for head in range(3):
        one = run(checked, name, small.kv_head(inputs, head))
        assert same_bits(one, np.ascontiguousarray(whole[:, 12 * head : 12 * (head + 1)]))


# ---- what is not there -----------------------------------------------------------------------------------


@every_path
def test_nothing_selected_gives_zeros(checked: LanesExecutor, name: str) -> None:
    inputs = make(mode_of(name), queries=3)
    out = run(checked, name, small.with_widths(inputs, [0, 40, 0]))
    assert not out[[0, 2]].view(np.uint32).any()
    assert out[1].any()


@every_path
def test_all_pages_absent_gives_zeros(checked: LanesExecutor, name: str) -> None:
    out = run(checked, name, make(mode_of(name), "all_absent"))
    assert not out.view(np.uint32).any()


@every_path
def test_absent_cells_count_for_nothing(checked: LanesExecutor, name: str) -> None:
    """A list with absent cells and the list without them have one FP64 result. Their bits may differ: a cell that
    is left out moves the others to other chunks. With q this small an absent cell scored 0 would weigh as much
    as any other."""
    inputs = make(mode_of(name), "small_q", queries=1)
    cells = inputs.ids[0, : inputs.widths[0]]
    here = cells[inputs.pool.table[cells // inputs.pool.page_size] >= 0]
    assert 0 < len(here) < len(cells)
    without = small.with_list(inputs, here)
    assert_right(checked, name, inputs, run(checked, name, inputs))
    assert_right(checked, name, without, run(checked, name, without))


@every_path
@pytest.mark.parametrize("fill", ["huge", "nan"])
def test_what_is_not_selected_is_not_read(checked: LanesExecutor, name: str, fill: str) -> None:
    """Ids past a row's width, table entries and pages that no selected cell uses: anything may stand there."""
    inputs = make(mode_of(name), "absent_pages", queries=3, context=70)
    inputs = small.with_widths(inputs, [33, 64, 65])
    want = run(checked, name, inputs)
    ids, pool = inputs.ids.copy(), inputs.pool
    past = np.arange(ids.shape[1]) >= inputs.widths[:, None]
    ids[past] = Stream.of(1, "past").below(2**31, int(past.sum())).astype(np.int32) * 2 + 1
    used = np.unique(ids[~past] // pool.page_size)
    table = np.full(pool.table.size + 9, 2**30, np.int32)
    table[used] = pool.table[used]
    table[table == 2**30] = len(pool.k) - 1  # the host refuses pages that do not exist
    other = np.ones(len(pool.k), bool)
    other[pool.table[used][pool.table[used] >= 0]] = False

    def spoil(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        # Halves and scales of 6e4, or NaN, which would show even with a weight of zero.
        x.view(np.uint8)[other] = 0xFF if fill == "nan" else 0x7B
        return x

    spoiled = replace(inputs, ids=ids, pool=replace(small.planes(pool, spoil), table=table))
    assert other.any()
    assert same_bits(run(checked, name, spoiled), want)


@every_path
def test_a_full_row_of_ids_is_read_to_its_end_and_no_further(checked: LanesExecutor, name: str) -> None:
    """The width is the row stride, the last cell the table's last: the checked build sees any access past them."""
    inputs = make(mode_of(name), context=64, queries=1, page_size=16)
    pool = replace(inputs.pool, table=inputs.pool.table[:4])
    inputs = replace(small.with_list(inputs, np.arange(64)), pool=pool)
    assert_right(checked, name, inputs, run(checked, name, inputs))


# ---- scales ----------------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(PATH_NAMES, SEEDS)
def test_k_scales_and_q_with_the_other_sign_give_equal_bits(checked: LanesExecutor, name: str, seed: int) -> None:
    inputs = make(mode_of(name), seed=seed)
    flipped = replace(inputs, q=-inputs.q, pool=small.change_scales(inputs.pool, "k", small.times(-1)))
    assert same_bits(run(checked, name, flipped), run(checked, name, inputs))


@every_path
@pytest.mark.parametrize("exponent", [-3, 2])
def test_a_power_of_two_may_move_from_k_to_q(checked: LanesExecutor, name: str, exponent: int) -> None:
    """Nothing here is subnormal before or after, so every intermediate number only changes its exponent."""
    inputs = make(mode_of(name), "uniform", queries=1)
    power = power_of_two(exponent)
    pool = small.change_scales(inputs.pool, "k", small.times(1 / power))
    moved = replace(inputs, q=inputs.q * np.float32(power), pool=pool)
    assert same_bits(run(checked, name, moved), run(checked, name, inputs))


@every_path
@pytest.mark.parametrize("factor", [-1.0, 0.25, 4.0])
def test_the_output_scales_with_v(checked: LanesExecutor, name: str, factor: float) -> None:
    inputs = make(mode_of(name), "uniform", queries=1)
    scaled = replace(inputs, pool=small.change_scales(inputs.pool, "v", small.times(factor)))
    assert np.array_equal(run(checked, name, scaled), run(checked, name, inputs) * np.float32(factor))


# ---- q of any size ---------------------------------------------------------------------------------------


@every_path
@pytest.mark.parametrize("exponent", [-149, -120, -60, 60])
def test_tiny_and_large_q_are_within_the_derived_bound(checked: LanesExecutor, name: str, exponent: int) -> None:
    inputs = make(mode_of(name), queries=1)
    q = inputs.q.astype(np.float64) * power_of_two(exponent)
    inputs = replace(inputs, q=q.astype(np.float32))
    assert_right(checked, name, inputs, run(checked, name, inputs))


@every_path
def test_zero_q_gives_the_mean(checked: LanesExecutor, name: str) -> None:
    inputs = make(mode_of(name), queries=1)
    zero = replace(inputs, q=np.zeros_like(inputs.q))
    out = run(checked, name, zero)
    assert_right(checked, name, zero, out)
    assert all(same_bits(np.ascontiguousarray(out[:, head]), np.ascontiguousarray(out[:, 0])) for head in range(12))
    negative = replace(inputs, q=-zero.q)
    assert same_bits(run(checked, name, negative), out)


@pytest.mark.parametrize("name", [name for name in ATTENTION_PATHS if name.startswith("prompt")])
def test_the_largest_q_there_is_overflows_nothing(checked: LanesExecutor, name: str) -> None:
    inputs = make(mode_of(name), "huge_q", queries=1)
    largest = np.abs(inputs.q).max(axis=(0, 2), keepdims=True)
    q = inputs.q / largest * np.finfo(np.float32).max
    assert np.abs(q).max() == np.finfo(np.float32).max
    inputs = replace(inputs, q=q)
    assert_right(checked, name, inputs, run(checked, name, inputs))


@every_path
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_q_that_is_not_finite_spoils_its_own_head_alone(checked: LanesExecutor, name: str, bad: float) -> None:
    inputs = make(mode_of(name), queries=2)
    want = run(checked, name, inputs)
    q = inputs.q.copy()
    q[1, 5, 77], q[1, 23, 0] = bad, bad
    out = run(checked, name, replace(inputs, q=q))
    assert not np.isfinite(out[1, [5, 23]]).any()
    out[1, [5, 23]] = want[1, [5, 23]]
    assert same_bits(out, want)


@every_path
def test_a_loud_head_starves_no_other_one(checked: LanesExecutor, name: str) -> None:
    """Each head has a power of two of its own: beside a head 2**40 times larger the others keep their bits."""
    inputs = make(mode_of(name), queries=1)
    want = run(checked, name, inputs)
    q = inputs.q.copy()
    q[0, 7] *= np.float32(power_of_two(40))
    loud = replace(inputs, q=q)
    out = run(checked, name, loud)
    assert_right(checked, name, loud, out)
    out[0, 7] = want[0, 7]
    assert same_bits(out, want)


# ---- pools that are not finite ---------------------------------------------------------------------------


@every_path
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_v_that_is_not_finite_spoils_its_own_dims_alone(checked: LanesExecutor, name: str, bad: float) -> None:
    inputs = make(mode_of(name), queries=1)
    want = run(checked, name, inputs)
    page, slot = int(inputs.pool.table[9 // 4]), 9 % 4

    def spoil(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        x[page, 1, slot, -1] = np.float16(bad)
        return x

    pool = small.change_scales(inputs.pool, "v", spoil)
    out = run(checked, name, replace(inputs, pool=pool))
    dims = {"fp16": 1, "int8": 64, "q4_0": 32}[MODE_FORMATS[mode_of(name)][1]]
    assert not np.isfinite(out[0, 12:, HEAD_DIM - dims :]).any()
    out[0, 12:, HEAD_DIM - dims :] = want[0, 12:, HEAD_DIM - dims :]
    assert same_bits(out, want)


@every_path
def test_a_k_that_is_nan_spoils_the_heads_that_see_it_alone(checked: LanesExecutor, name: str) -> None:
    inputs = make(mode_of(name), queries=2, context=70)
    inputs = small.with_widths(inputs, [30, 60])  # only the second query sees cell 41
    want = run(checked, name, inputs)
    page, slot = int(inputs.pool.table[41 // 4]), 41 % 4

    def spoil(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        x[page, 0, slot, 1] = np.float16(np.nan)
        return x

    out = run(checked, name, replace(inputs, pool=small.change_scales(inputs.pool, "k", spoil)))
    assert np.isnan(out[1, :12]).all()
    out[1, :12] = want[1, :12]
    assert same_bits(out, want)


# ---- schedules -------------------------------------------------------------------------------------------


@every_path
def test_schedules_give_equal_bits(checked: LanesExecutor, name: str) -> None:
    inputs = make(mode_of(name), "small_q", queries=1, context=70, page_size=1)
    want = run(checked, name, inputs)
    for seed in range(10):
        assert same_bits(run(LanesExecutor(flavor="checked", seed=seed), name, inputs), want)


# ---- errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": (2, 24, 255)}, r"q is float32 \(2, 24, 255\), expected float32 \[queries, heads, 256\]"),
        ({"q": (2, 6144)}, r"q is float32 \(2, 6144\)"),
        ({"q": (0, 24, 256)}, r"q is float32 \(0, 24, 256\)"),
        ({"q": np.zeros((2, 24, 256))}, r"q is float64 \(2, 24, 256\)"),
        ({"q": (2, 25, 256)}, r"25 query heads on 2 KV heads: expected \(4, 8, 12\) query heads a KV head"),
        ({"q": (2, 12, 256)}, r"12 query heads on 2 KV heads"),
        ({"q": (1, 24, 256)}, r"ids is int32 \(2, \d+\), expected int32 \[1, cap\]"),
        ({"ids": np.zeros((2, 9), np.int64)}, r"ids is int64 \(2, 9\), expected int32 \[2, cap\]"),
        ({"ids": np.zeros((2, 0), np.int32)}, r"ids is int32 \(2, 0\)"),
        ({"ids": np.zeros(9, np.int32)}, r"ids is int32 \(9,\)"),
        ({"steps": np.zeros((2, 3), np.int32)}, r"steps is int32 \(2, 3\), expected int32 \[2, 4\]"),
        ({"steps": np.zeros((2, 4), np.int64)}, r"steps is int64 \(2, 4\)"),
    ],
)
def test_bad_arrays_are_named(checked: LanesExecutor, change: dict[str, Any], message: str) -> None:
    bad = make("fp16", context=20, queries=2)
    for key, value in change.items():
        array: Any = np.zeros(value, np.float32) if isinstance(value, tuple) else value
        bad = replace(bad, **{key: array})
    with pytest.raises(StrataError, match=message):
        attention.prepare(checked, bad.q, bad.pool, bad.ids, bad.steps)


@pytest.mark.parametrize(
    ("widths", "message"),
    [
        ([-1, 3], r"widths from -1 to 3, expected 0 to the row stride 25"),
        ([0, 26], r"widths from 0 to 26, expected 0 to the row stride 25"),
    ],
)
def test_bad_widths_are_named(checked: LanesExecutor, widths: list[int], message: str) -> None:
    inputs = small.with_widths(make("fp16", context=20), widths)
    with pytest.raises(StrataError, match=message):
        attention.prepare(checked, inputs.q, inputs.pool, inputs.ids, inputs.steps)


@pytest.mark.parametrize("bad", [-1, 28, 2**31 - 1])
def test_ids_outside_the_page_table_are_named(checked: LanesExecutor, bad: int) -> None:
    inputs = make("fp16", context=20)  # 5 pages of 4 cells, and 2 spare ones
    ids = inputs.ids.copy()
    ids[1, 4] = bad
    with pytest.raises(StrataError, match=rf"ids from {min(bad, 0)} to {max(bad, 19)}, expected 0 to 27, the cells"):
        attention.prepare(checked, inputs.q, inputs.pool, ids, inputs.steps)
    ids[1, 4], ids[1, 21] = 4, bad  # past the width of 20: nobody reads it
    attention.prepare(checked, inputs.q, inputs.pool, ids, inputs.steps)


@pytest.mark.parametrize("name", ["prompt_attention/fp16/sm75", "decode_attention/fp16/simt"])
def test_a_path_of_another_mode_is_refused(checked: LanesExecutor, name: str) -> None:
    with pytest.raises(StrataError, match=f"{name} cannot run on a int8 pool as {name.split('/')[0]}"):
        run(checked, name, make("int8", context=20))
