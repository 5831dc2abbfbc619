"""Decoders against the layouts of the reference, against `gguf`, and over every value of every field."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.formats import FORMATS, BlockFormat, block_format, codebook
from strata.formats.blocks import plain
from validation.core.random_streams import Stream
from validation.numerics import blocks as reference
from validation.operations.kv_pack import block_sweeps

NAMES = list(FORMATS)
SIMPLE = [name for name, form in FORMATS.items() if not form.offset]


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.float32).view(np.uint32)


def rounded(exact: np.ndarray) -> np.ndarray:
    """The float32 bits of float64 values that need no rounding, NaN as 7fffffff."""
    with np.errstate(invalid="ignore"):  # NaNs with a payload
        single = exact.astype(np.float32)
    assert ((single == exact) | np.isnan(exact)).all(), "a value needs more than 24 bits"
    return bits(plain(single))


def expected(name: str, fields: reference.Fields) -> np.ndarray:
    """The bits that a decoder must give."""
    return rounded(reference.values(name, fields))


def by_gguf(name: str, blocks: np.ndarray) -> np.ndarray:
    """float32 [n, values] as the package `gguf` decodes blocks."""
    from gguf import GGMLQuantizationType, quants

    with np.errstate(invalid="ignore"):
        return np.asarray(quants.dequantize(blocks, GGMLQuantizationType[name.upper()]))


def ordinary(name: str, raw: np.ndarray) -> np.ndarray:
    """`raw` with finite scales."""
    fields = reference.unpack(name, raw)
    for field in {"d", "dmin"} & fields.keys():
        infinite = (fields[field] & 0x7C00) == 0x7C00
        fields[field] = np.where(infinite, fields[field] ^ 0x4000, fields[field])
    return reference.pack(name, fields)


raws = st.integers(0, 2**32 - 1)


def random_blocks(name: str, seed: int, n: int = 4) -> np.ndarray:
    """Any bytes at all: every block of them is valid."""
    octets = Stream.of(seed, "random blocks", name).octets((n, FORMATS[name].nbytes))
    return np.ascontiguousarray(octets)


@pytest.mark.parametrize("name", NAMES)
def test_every_field_at_every_place(name: str) -> None:
    for field in block_sweeps.field_names(name):
        fields = block_sweeps.sweep(name, field)
        got = FORMATS[name].decode(reference.pack(name, fields))
        assert np.array_equal(bits(got), expected(name, fields)), field


@pytest.mark.parametrize("name", NAMES)
def test_every_scale(name: str) -> None:
    """All 65,536 values of d, and of dmin, infinities and NaNs among them."""
    for field in {"d", "dmin"} & reference.layout(name).keys():
        blocks = block_sweeps.every_scale(name, field)
        fields = reference.unpack(name, blocks[:1]) | {field: np.arange(len(blocks))[:, None]}
        parts = FORMATS[name].parts(blocks)
        want = rounded(reference.scales(name, fields))
        assert np.array_equal(bits(parts.scales), np.broadcast_to(want, parts.scales.shape))
        if parts.offsets is not None:
            want = rounded(reference.offsets(name, fields))
            assert np.array_equal(bits(parts.offsets), np.broadcast_to(want, parts.offsets.shape))


@pytest.mark.parametrize("name", NAMES)
def test_classes_of_scales(name: str) -> None:
    fields = block_sweeps.classes(name)
    got = FORMATS[name].decode(reference.pack(name, fields))
    assert np.array_equal(bits(got), expected(name, fields))
    assert np.isinf(got).any()
    assert np.isnan(got).any()
    assert (bits(got) == 0x80000000).any()


@pytest.mark.parametrize("name", NAMES)
@given(seed=raws)
@settings(max_examples=20, deadline=None)
def test_any_bytes(name: str, seed: int) -> None:
    raw = random_blocks(name, seed)
    assert np.array_equal(bits(FORMATS[name].decode(raw)), expected(name, reference.unpack(name, raw)))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "q2_0"])  # gguf decodes no Q2_0
@given(seed=raws)
@settings(max_examples=10, deadline=None)
def test_as_gguf_decodes(name: str, seed: int) -> None:
    raw = ordinary(name, random_blocks(name, seed, 16))
    assert np.array_equal(bits(FORMATS[name].decode(raw)), bits(by_gguf(name, raw)))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "q2_0"])
def test_as_gguf_decodes_every_field(name: str) -> None:
    for field in block_sweeps.field_names(name):
        blocks = reference.pack(name, block_sweeps.sweep(name, field))
        assert np.array_equal(bits(FORMATS[name].decode(blocks)), bits(by_gguf(name, blocks))), field


@pytest.mark.parametrize("name", SIMPLE)
@given(seed=raws)
@settings(max_examples=10, deadline=None)
def test_split_is_exact_and_gives_the_values(name: str, seed: int) -> None:
    form = FORMATS[name]
    raw = ordinary(name, random_blocks(name, seed))
    codes, scales = form.quants(raw)
    assert codes.dtype == np.int8
    assert codes.shape == (len(raw), form.values)
    assert scales.dtype == np.float32
    assert scales.shape == (len(raw), form.values // 32 * form.scales)
    fields = reference.unpack(name, raw)
    assert np.array_equal(codes, reference.signed_codes(name, fields))
    product = codes.astype(np.float64) * np.repeat(scales.astype(np.float64), 32 // form.scales, axis=1)
    assert np.array_equal(form.decode(raw), product)


@pytest.mark.parametrize("name", NAMES)
def test_leading_axes_are_kept(name: str) -> None:
    form = FORMATS[name]
    raw = ordinary(name, random_blocks(name, 1, 6))
    flat, shaped = form.decode(raw), form.decode(raw.reshape(2, 3, form.nbytes))
    assert shaped.shape == (2, 3, form.values)
    assert np.array_equal(bits(flat), bits(shaped.reshape(flat.shape)))
    strided = np.repeat(raw, 2, axis=0)[::2]
    assert np.array_equal(bits(flat), bits(form.decode(strided)))


def test_numbers_are_those_of_gguf() -> None:
    import gguf

    for name, form in FORMATS.items():
        if name == "q2_0":  # newer than the package's list
            continue
        kind = gguf.GGMLQuantizationType[name.upper()]
        assert form.ggml_type == int(kind)
        assert (form.values, form.nbytes) == gguf.GGML_QUANT_SIZES[kind]


def test_values_of_a_block_are_of_its_kind() -> None:
    """Largest codes as the formats have them: none is outside of what a signed byte and a kernel expect."""
    codes = {name: FORMATS[name].quants(block_sweeps.all_but_scales(name))[0].astype(int) for name in SIMPLE}
    largest = {name: int(np.abs(code).max()) for name, code in codes.items()}
    grids = {name: int(codebook(name).max()) for name in reference.DIVISORS}
    assert largest == {"q4_0": 8, "q5_0": 16, "q6_k": 32, "q8_0": 128, "q2_0": 2, "iq4_nl": 127, "iq4_xs": 127} | grids


@pytest.mark.parametrize(("name", "k", "want"), [("iq3_xxs", 2560, 980), ("iq3_s", 2560, 1100), ("iq4_xs", 2560, 1360),
                                                 ("iq2_xxs", 2560, 660), ("iq2_xs", 2560, 740), ("iq2_s", 2560, 820),
                                                 ("iq4_nl", 640, 360), ("q2_0", 640, 180)])  # fmt: skip
def test_bytes_of_a_row(name: str, k: int, want: int) -> None:
    assert FORMATS[name].row_bytes(k) == want


@pytest.mark.parametrize("k", [0, -256, 255, 257, 32])
def test_a_row_is_whole_blocks(k: int) -> None:
    with pytest.raises(StrataError, match=f"{k} values in a row of iq3_s, expected a positive multiple of 256"):
        FORMATS["iq3_s"].row_bytes(k)


def test_refusals_name_what_is_wrong() -> None:
    form: BlockFormat = FORMATS["iq4_nl"]
    with pytest.raises(StrataError, match=r"blocks of iq4_nl are uint8 \(3, 17\), expected uint8 \[..., 18\]"):
        form.decode(np.zeros((3, 17), np.uint8))
    with pytest.raises(StrataError, match="float32"):
        form.quants(np.zeros((3, 18), np.float32))
    with pytest.raises(StrataError, match="q5_k has an offset"):
        FORMATS["q5_k"].quants(np.zeros((1, 176), np.uint8))
    with pytest.raises(StrataError, match="format 'iq9': expected one of q4_0, q5_0"):
        block_format("iq9")
    assert block_format("iq4_nl") is form
