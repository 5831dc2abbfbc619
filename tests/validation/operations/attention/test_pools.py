"""Inputs are fixed by their case, placed where the table says, and poisoned everywhere else."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.kernels import decode_attention
from strata.kernels.attention import prepare
from strata.kernels.pool import MODES, Pool
from strata.kernels.prompt_attention import cells_per_chunk
from tests.validation.stub import attention
from validation.core.case import CaseError
from validation.core.random_streams import Stream
from validation.operations.attention.pools import EDGE_WIDTHS, Inputs, build
from validation.operations.attention.reference import values
from validation.operations.kv_pack.case import TOP, Case
from validation.operations.kv_pack.pages import SPARE_PAGES, page_table
from validation.operations.kv_pack.recipes import RECIPES, Pages, of_operation

NAMES = [recipe.name for recipe in of_operation("prompt_attention") if recipe.name != "captured"]


def digest(inputs: Inputs) -> str:
    pool = inputs.pool
    arrays = [inputs.q, inputs.ids, inputs.steps, pool.k, pool.v, pool.k_scale, pool.v_scale, pool.table]
    total = hashlib.sha256()
    for array in arrays:
        if array is not None:
            total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def test_the_bytes_of_every_recipe_never_change() -> None:
    # Regenerate only with a reason: records compare runs of different machines by these inputs.
    total = hashlib.sha256()
    for name in NAMES:
        if RECIPES[name].edition > 1:  # they have digests of their own
            continue
        for mode in MODES:
            total.update(digest(build(Case(name, 11, 150, 3, 4, top=90), mode)).encode())
    assert total.hexdigest() == BYTES


@pytest.mark.parametrize(("name", "due"), [("far", "ca07532516000fd9"), ("width_beyond", "bf8bbbfe2c5a0e60")])
def test_the_bytes_of_later_recipes_never_change(name: str, due: str) -> None:
    total = hashlib.sha256()
    for mode in MODES:
        total.update(digest(build(Case(name, 11, 150, 3, 4, top=90), mode)).encode())
    assert total.hexdigest()[:16] == due


BYTES = "d22b6ba9dff8507c6c57380f9c712c8ab27a3d3157c34c613709b34f2eca41ed"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_the_engine_accepts_the_inputs(name: str, mode: str) -> None:
    inputs = build(Case(name, 2, 150, 3, 4, top=90), mode)
    inputs.pool.check()
    assert inputs.pool.mode == mode
    assert inputs.q.shape == (3, 24, 256)
    assert inputs.q.dtype == np.float32
    widths = inputs.steps[:, 3]
    assert np.array_equal(widths, inputs.widths)
    # The checks that the engine itself makes, on an executor that only keeps arrays.
    prepare(Keeper(), inputs.q, inputs.pool, inputs.ids, inputs.steps)  # type: ignore[arg-type]


class Keeper:
    def array(self, host: np.ndarray, name: str = "", *, written: bool = False) -> np.ndarray:
        return host


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(NAMES),
    st.sampled_from(MODES),
    st.sampled_from([1, 4, 16, 64]),
    st.integers(65, 300),
    st.integers(0, 2**64 - 1),
)
def test_what_a_query_may_read_is_finite(name: str, mode: str, page_size: int, context: int, seed: int) -> None:
    inputs = build(Case(name, seed, context, 2, page_size), mode)
    assert np.isfinite(inputs.q).all()
    cells = np.arange(context)
    k, v = values(inputs.pool, cells[inputs.pool.table[cells // page_size] >= 0])
    assert np.isfinite(k).all()
    assert np.isfinite(v).all()


def _floats(pool: Pool) -> np.ndarray:
    """bool [pages, kv, page_size]: slots whose K and V are both NaN throughout."""

    def nan(plane: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
        if scale is not None:
            return np.asarray(np.isnan(scale).all(axis=-1) & (plane == 0x7F).all(axis=-1))
        if plane.dtype == np.uint8:
            blocks = plane.reshape(*plane.shape[:-1], 8, 18)
            return np.asarray(np.isnan(np.ascontiguousarray(blocks[..., :2]).view(np.float16)[..., 0]).all(axis=-1))
        return np.asarray(np.isnan(plane).all(axis=-1))

    return np.asarray(nan(pool.k, pool.k_scale) & nan(pool.v, pool.v_scale))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["signed_decades", "absent_pages", "all_absent", "shuffled", "in_order"])
@pytest.mark.parametrize("page_size", [1, 16])
def test_every_slot_without_a_resident_cell_is_poison(name: str, mode: str, page_size: int) -> None:
    context = 150
    pool = build(Case(name, 3, context, 2, page_size), mode).pool
    poison = _floats(pool)
    used = np.zeros(poison.shape, dtype=bool)
    for cell in range(context):
        page = pool.table[cell // page_size]
        if page >= 0:
            used[page, :, cell % page_size] = True
    assert np.array_equal(poison, ~used)
    assert poison[0].all() == (name != "in_order")
    assert poison[-1].all()


@pytest.mark.parametrize("name", NAMES)
def test_ids_past_a_width_point_at_poison_that_exists(name: str) -> None:
    inputs = build(Case(name, 3, 150, 4, 4), "int8")
    poison = _floats(inputs.pool)
    for row, width in zip(inputs.ids, inputs.widths, strict=True):
        tail = row[width:]
        assert len(tail) >= 5
        page = inputs.pool.table[tail // 4]
        assert (page >= 0).all()
        assert poison[page, :, tail % 4].all()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(Pages)), st.integers(1, 500), st.sampled_from([1, 4, 16, 64]), st.integers(0, 2**32))
def test_page_tables(pattern: Pages, cells: int, page_size: int, seed: int) -> None:
    table, pages = page_table(Stream.of(seed), pattern, cells, page_size)
    logical = -(-cells // page_size)
    assert table.dtype == np.int32
    exact = pattern is Pages.IN_ORDER and cells % page_size != 0
    assert len(table) == logical + (0 if exact else SPARE_PAGES)
    assert (table[logical:] == pages - 1).all()
    own = table[:logical]
    assert own.min() >= -1
    assert own.max() < pages - 1
    assert (own == 0).any() == (pattern is Pages.IN_ORDER)
    present = own[own >= 0]
    if pattern not in (Pages.SHARED, Pages.PATCHY):
        assert len(np.unique(present)) == len(present)
    if pattern is Pages.NONE:
        assert len(present) == 0
    elif pattern is Pages.ABSENT:
        assert own[0] == -1
    elif pattern is Pages.PATCHY:
        assert np.array_equal(np.flatnonzero(own < 0), np.arange(4, logical, 5))
    else:
        assert len(present) == logical


@pytest.mark.parametrize("pattern", [Pages.SHARED, Pages.PATCHY])
def test_shared_pages_are_shared(pattern: Pages) -> None:
    table, _ = page_table(Stream.of(1), pattern, 64, 4)
    assert table[3] == table[2]
    assert len(np.unique(table[:16])) < 16


def test_absent_pages_cover_whole_chunks_and_a_part_of_the_rest() -> None:
    table, _ = page_table(Stream.of(1), Pages.ABSENT, 4096, 4)
    assert (table[:16] == -1).all()
    assert (table[32:48] == -1).all()
    rest = table[48:1024]
    assert 0.15 < (rest == -1).mean() < 0.35


def test_content_does_not_depend_on_where_pages_lie() -> None:
    cells = np.arange(150)
    kept = [values(build(Case("signed_decades", 3, 150, 2, size), "q4_0").pool, cells) for size in (1, 4, 16, 64)]
    for k, v in kept[1:]:
        assert np.array_equal(k, kept[0][0])
        assert np.array_equal(v, kept[0][1])


def test_edge_widths_are_those_of_the_kernels_tiles() -> None:
    tiles = {cells_per_chunk(mode, tier) for mode in MODES for tier in (75, 80)} | {decode_attention.CELLS}
    for tile in tiles:
        assert {tile - 1, tile, tile + 1} <= set(EDGE_WIDTHS)
    assert {0, 1, TOP - 1, TOP} <= set(EDGE_WIDTHS)
    widths = build(Case("width_edges", 1, 211, 40), "fp16").widths
    assert set(widths.tolist()) == {width for width in EDGE_WIDTHS if width <= 211}


def test_recipes_change_what_they_promise() -> None:
    def q(name: str) -> np.ndarray:
        return build(Case(name, 1, 150, 3), "int8").q

    assert np.abs(q("huge_q")).max() > 2.0**60
    tiny = q("tiny_q")
    assert np.abs(tiny[:, np.arange(24) % 12 != 2]).max() < 2.0**-127
    # 2**(14 - e) is infinite for e = -114: the largest |q| of a head lies in 2**-115 .. 2**-114.
    largest = np.abs(tiny[1:, 2::12]).max(axis=2)
    assert ((largest >= 2.0**-115) & (largest < 2.0**-114)).any()
    assert not tiny[0].any()
    assert not tiny[:, 1].any()
    assert tiny[1, 0].any()
    loud = np.abs(q("outlier_head")).max(axis=(0, 2))
    assert loud[2] > 1000 * loud[3]
    assert loud[14] > 1000 * loud[13]
    assert not build(Case("zeros", 1, 150, 3), "int8").widths.any()


def test_peaked_rows_are_the_row_they_aim_at() -> None:
    inputs = build(Case("peaked", 1, 150, 3), "int8")
    out = attention(inputs)
    _, v = values(inputs.pool, np.arange(150))
    for head in range(24):
        gap = np.abs(v[:, head // 12] - out[1, head]).max(axis=-1)
        assert gap.min() < 0.05 * np.abs(out[1, head]).max()


@pytest.mark.parametrize("name", ["pack_bell", "captured"])
def test_recipes_of_other_kinds_are_refused(name: str) -> None:
    with pytest.raises(CaseError, match="no synthetic attention"):
        build(Case(name, 1, 10, 1), "fp16")


def test_a_sunken_q_scores_every_cell_far_below_zero() -> None:
    inputs = build(Case("sunken", 3, 150, 2, 4), "fp16")
    k, _ = values(inputs.pool, np.flatnonzero(inputs.pool.table.repeat(4)[:150] >= 0))
    scores = np.einsum("qjgd,cjd->qjgc", inputs.q.reshape(2, 2, 12, 256).astype(np.float64), k) / 16
    # exp2 gives 0 below -126, which is -88 in units of a natural exponent.
    assert scores.max() < -100


def test_a_spike_decides_the_largest_q_of_most_heads() -> None:
    q = np.abs(build(Case("outliers", 3, 150, 3, 4), "fp16").q)
    ranked = np.sort(q, axis=2)
    # Two powers of two above all others: q scaled without it leaves the range of FP16.
    assert np.mean(ranked[..., -1] > 4 * ranked[..., -2]) > 0.5
    assert len(np.unique(q.argmax(axis=2))) > q.shape[1] // 2


@pytest.mark.parametrize("mode", ["int8", "k8v4", "q4_0"])
def test_faint_scales_are_subnormal_and_still_count(mode: str) -> None:
    inputs = build(Case("faint", 3, 150, 2, 4), mode)
    k, v = values(inputs.pool, np.arange(150))
    scores = np.einsum("qjgd,cjd->qjgc", inputs.q.reshape(2, 2, 12, 256).astype(np.float64), k) / 16
    assert scores.std() > 0.1
    assert (v != 0).any()
    for scale in (inputs.pool.k_scale, inputs.pool.v_scale):
        if scale is not None:
            own = scale[np.isfinite(scale)]
            assert (np.abs(own) < 2.0**-14).all()
            assert (own != 0).mean() > 0.9
