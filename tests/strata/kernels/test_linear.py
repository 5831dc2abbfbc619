"""Dense products on lanes: every bit against the model, whatever the tier, the tile and the cut."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError, iter_include
from strata.executors.lanes import LanesExecutor
from strata.formats import FORMATS, device_table
from strata.kernels import linear, linear_dp4a, linear_quantise, tiers
from strata.kernels.linear_weights import LINEAR_FORMATS, linear_format, upload
from strata.kernels.paths import PATHS
from tests.strata.kernels.linear_data import TIERS, assert_product, blocks_of, drawn, run
from validation.core.random_streams import Stream
from validation.numerics import blocks as reference
from validation.operations.experts.reference import quantise
from validation.operations.kv_pack import block_sweeps
from validation.operations.linear import model
from validation.operations.linear.units import packed

#: The formats that no other kernel reads.
NEW = ("q5_0", "q5_1", "q4_k", "q6_k")
#: Of each tier a format with an offset, or with two scales, since the two take different ways.
PATHS_TAKEN = (("q5_1", "simt"), ("q5_1", "sm80"), ("q6_k", "sm75"))
HEADERS = "".join(file.read_text() for file in iter_include() if file.name.endswith("_formats.cuh"))


@pytest.mark.parametrize("mode", NEW)
def test_every_field_at_every_place(fast: LanesExecutor, mode: str) -> None:
    """A decoder that takes one place for another changes a product of rows that no two values share."""
    blocks = blocks_of(mode, block_sweeps.all_but_scales(mode), 256)
    x = Stream.of(1, "places").normals((3, 256))
    assert_product(fast, mode, "simt", blocks, x)


@pytest.mark.parametrize("mode", NEW)
def test_every_scale(fast: LanesExecutor, mode: str) -> None:
    """One in 17 of all 65,536 values of d and of what stands beside it: every exponent and every low bit."""
    for field in {"d", "dmin"} & reference.layout(mode).keys():
        blocks = blocks_of(mode, block_sweeps.every_scale(mode, field)[::17], 256)
        assert_product(fast, mode, "simt", blocks, Stream.of(2, "scales").normals((2, 256)))


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_drawn_sizes(checked: LanesExecutor, data: st.DataObject) -> None:
    mode, tier = data.draw(st.sampled_from([("q5_1", "simt"), ("q6_k", "sm75")]))
    least = FORMATS[mode].values
    width = least * data.draw(st.integers(1, 1100 // least), "blocks of a row")
    rows, outputs = data.draw(st.integers(1, 40), "rows"), data.draw(st.integers(1, 20), "outputs")
    assert_product(checked, mode, tier, *drawn(mode, data.draw(st.integers(0, 2**32), "seed"), rows, outputs, width))


@pytest.mark.parametrize(("mode", "tier"), PATHS_TAKEN[1:])
def test_more_outputs_and_rows_than_a_tile(fast: LanesExecutor, mode: str, tier: str) -> None:
    wide = linear.columns(mode, int(tier[2:]))
    assert_product(fast, mode, tier, *drawn(mode, 3, wide + 33, 130, 512))


@pytest.mark.parametrize(("mode", "tier"), PATHS_TAKEN)
def test_rows_that_are_not_finite_are_nan_and_counted(fast: LanesExecutor, mode: str, tier: str) -> None:
    """Each in its group alone; other rows keep their bits. Zeros and what is too small for a scale are codes of 0."""
    blocks, x = drawn(mode, 4, 9, 12, 512)
    clean = run(fast, mode, tier, blocks, x).out
    x[1, 0], x[3, 511], x[4, 64] = np.nan, np.inf, -np.inf
    x[6] = 0
    x[7, :64] = np.float32(2**-140)
    got = assert_product(fast, mode, tier, blocks, x)
    assert got.lost == 3
    assert np.isnan(got.out[[1, 3, 4]]).all()
    assert np.array_equal(got.out[[0, 2, 5, 8]], clean[[0, 2, 5, 8]])
    assert (got.out[6].view(np.uint32) == 0).all()


@pytest.mark.parametrize(("mode", "tier"), [*PATHS_TAKEN, ("q6_k", "simt")])
def test_scales_that_are_no_numbers(fast: LanesExecutor, mode: str, tier: str) -> None:
    """Infinite and NaN scales and offsets go the way of IEEE 754."""
    fields = block_sweeps.classes(mode)
    blocks = blocks_of(mode, reference.pack(mode, fields), 256)
    got = assert_product(fast, mode, tier, blocks, Stream.of(5, "classes").normals((3, 256)))
    assert np.isnan(got.out).any()


@pytest.mark.parametrize(("mode", "tier"), PATHS_TAKEN)
def test_bits_do_not_depend_on_the_cut(fast: LanesExecutor, mode: str, tier: str) -> None:
    """Rows from a later one on, few at a time and many, give what all give at once."""
    blocks, x = drawn(mode, 6, 37, 9, 768)
    due = model.bits(mode, blocks, x).out
    module = TIERS[tier]
    path = PATHS[f"{module.DESCRIPTOR.name}/{mode}/{tier}"]
    weights = upload(fast, mode, blocks, 768)
    given_ = fast.array(x)
    units = fast.empty(linear_quantise.units_shape(37, 768), np.uint8)
    lost = fast.array(np.zeros(1, np.int32), written=True)
    linear_quantise.quantise(fast, given_, units, lost, 37, 768)
    for first, rows in ((36, 1), (0, 4), (5, 32), (3, 7)):
        out = fast.empty((rows, 9), np.float32)
        module.launch(fast, path, weights, units, out, rows, first)
        assert out.guards_intact()
        assert np.array_equal(out.host().view(np.uint32), due[first : first + rows].view(np.uint32))


def test_terms_are_added_in_order(fast: LanesExecutor) -> None:
    """Data for which the other order gives other bits."""
    blocks, x = drawn("q5_1", 7, 8, 24, 1024)
    got = assert_product(fast, "q5_1", "simt", blocks, x)
    turned = run(
        fast, "q5_1", "simt",
        np.ascontiguousarray(blocks.reshape(24, 32, 24)[:, ::-1].reshape(24, -1)),
        np.ascontiguousarray(x.reshape(8, 32, 32)[:, ::-1].reshape(8, -1)),
    )  # fmt: skip
    assert not np.array_equal(got.out, turned.out)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 13), st.integers(-150, 120))
def test_codes_of_any_rows(checked: LanesExecutor, seed: int, rows: int, groups: int, exponent: int) -> None:
    x = np.ldexp(Stream.of(seed, "codes").normals((rows, 32 * groups)).astype(np.float64), exponent).astype(np.float32)
    got, due = linear_quantise.run(checked, x), quantise(x)
    assert got.guards_ok
    assert np.array_equal(got.units, packed(due))
    assert got.lost == due.lost == 0


@pytest.mark.parametrize("name", LINEAR_FORMATS)
def test_headers_have_the_sizes_of_the_formats(name: str) -> None:
    form = FORMATS[name]
    assert re.search(rf"^#define TYPE_{name.upper()} {form.ggml_type}$", HEADERS, re.MULTILINE)
    sizes = re.search(rf"Blocks<TYPE_{name.upper()}> : BlockSizes<(\d+), (\d+), (\d+), (\d+), \d+>", HEADERS)
    assert sizes is not None
    assert [int(n) for n in sizes.groups()] == [form.values, form.nbytes, form.scales, device_table(name).size]


def test_every_format_is_a_mode_of_both_operations() -> None:
    assert linear.DESCRIPTOR.modes == linear_dp4a.DESCRIPTOR.modes == LINEAR_FORMATS
    assert sorted(LINEAR_FORMATS) == sorted(FORMATS)
    for name in LINEAR_FORMATS:
        for tier in (75, 80):
            assert linear.shared_bytes(name, tier, linear.columns(name, tier)) <= tiers.of_capability(tier).shared_bytes
        for rows in (1, 5):
            size = linear_dp4a.kernel(PATHS[f"linear_dp4a/{name}/simt"], rows).shared_bytes
            assert size <= tiers.find("simt").shared_bytes


def test_what_does_not_fit_is_refused(fast: LanesExecutor) -> None:
    path, good = PATHS["linear_dp4a/q4_k/simt"], np.zeros((2, 144), np.uint8)
    with pytest.raises(StrataError, match=r"rows are float64 \(3, 256\), expected float32 \[rows, width\]"):
        linear_dp4a.run(fast, path, good, np.zeros((3, 256)))
    with pytest.raises(StrataError, match="0 rows of 256 values, expected at least 1"):
        linear_dp4a.run(fast, path, good, np.zeros((0, 256), np.float32))
    with pytest.raises(StrataError, match="3 rows of 40 values, expected at least 1, of a positive multiple of 32"):
        linear_dp4a.run(fast, path, good, np.zeros((3, 40), np.float32))
    with pytest.raises(StrataError, match="288 values in a row of q4_k, expected a positive multiple of 256"):
        linear_dp4a.run(fast, path, good, np.zeros((3, 288), np.float32))
    with pytest.raises(StrataError, match=r"weights of q4_k are uint8 \(2, 143\), expected uint8 \[outputs, 144\]"):
        linear_dp4a.run(fast, path, good[:, :143], np.zeros((3, 256), np.float32))
    with pytest.raises(StrataError, match=r"rows are float32 \(256,\), expected float32 \[rows, a multiple of 32\]"):
        linear_quantise.run(fast, np.zeros(256, np.float32))
    with pytest.raises(StrataError, match="format 'f16' of a linear product: expected one of q8_0, q4_0"):
        linear_format("f16")
    weights = upload(fast, "q4_k", good, 256)
    units, out = fast.empty((1, 2, 160), np.uint8), fast.empty((1, 2), np.float32)
    for module, other in ((linear_dp4a, "linear_dp4a/q5_k/simt"), (linear, "linear/q5_k/sm80")):
        with pytest.raises(StrataError, match=f"{other}: weights of q4_k, expected q5_k"):
            module.launch(fast, PATHS[other], weights, units, out, 1)
    with pytest.raises(StrataError, match="linear: tier 60, expected 75 or 80"):
        linear.kernel(PATHS["linear_dp4a/q4_k/simt"])
