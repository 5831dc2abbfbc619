"""Device decoding, on lanes and on a card where there is one, equal to the NumPy decoders in every bit, field by field
and over any bytes; the header's sizes against the table of formats; images for every architecture."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import Executor, ExecutorUnavailable, LaunchError, StrataError, iter_include
from strata.executors.cuda.images import build
from strata.executors.cuda.nvrtc import load_nvrtc
from strata.executors.lanes import LanesExecutor
from strata.formats import FORMATS, device_table
from strata.kernels import block_decode
from validation.core.random_streams import Stream
from validation.operations.kv_pack import block_sweeps
from validation.static.command import ARCHS

NAMES = list(block_decode.DECODED)
#: Blocks of a row in sweeps: a row ends and another begins inside of a warp.
BLOCKS_A_ROW = 3
HEADER = next(file for file in iter_include() if file.name == "expert_formats.cuh").read_text()


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.uint32)


def as_rows(blocks: np.ndarray, each: int = BLOCKS_A_ROW) -> np.ndarray:
    """uint8 [n, each * nbytes]: the blocks side by side; the first ones again where the last row is short."""
    n = -(-len(blocks) // each)
    return np.resize(blocks, (n * each, blocks.shape[1])).reshape(n, -1)


def assert_decoded(executor: Executor, name: str, rows: np.ndarray, first: int = 0, gap: int = 0) -> None:
    """Codes, scales and values of the device are those of NumPy, and nothing else was touched."""
    form = FORMATS[name]
    got = block_decode.decode(executor, name, rows, first=first, gap=gap)
    assert got.guards_ok
    blocks = rows.reshape(len(rows), -1, form.nbytes)
    parts = form.parts(blocks)
    assert got.codes is not None
    assert got.values is not None
    assert np.array_equal(got.codes, parts.codes.reshape(len(rows), -1))
    assert np.array_equal(bits(got.values), bits(form.decode(blocks).reshape(len(rows), -1)))
    assert np.array_equal(bits(got.scales), bits(parts.scales).reshape(len(rows), -1))


@pytest.mark.parametrize("name", NAMES)
def test_every_field_at_every_place(name: str, every_executor: Executor) -> None:
    assert_decoded(every_executor, name, as_rows(block_sweeps.all_but_scales(name)), first=2)


@pytest.mark.parametrize("name", NAMES)
def test_every_scale(name: str, every_executor: Executor) -> None:
    """All 65,536 of them; on checked lanes one in 17, which has every exponent and every low bit."""
    blocks = block_sweeps.every_scale(name, "d")[:: 17 if getattr(every_executor, "flavor", "") == "checked" else 1]
    got = block_decode.decode(every_executor, name, blocks, scales_only=True)
    assert np.array_equal(bits(got.scales), bits(FORMATS[name].parts(blocks).scales))


def test_every_scale_of_the_offsets(every_executor: Executor) -> None:
    assert_decoded(every_executor, "q5_k", as_rows(block_sweeps.every_scale("q5_k", "dmin")[::67]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("first", range(0, 16, 2))
def test_rows_at_every_alignment(name: str, first: int, every_executor: Executor) -> None:
    """Of the first row by `first`, of the others by rows and gaps that are no multiples of 4."""
    raw = Stream.of(first, "alignments", name).octets((5, FORMATS[name].nbytes * 2))
    assert_decoded(every_executor, name, np.ascontiguousarray(raw), first=first, gap=2 * (first // 2 % 3))


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 9), blocks=st.integers(1, 5), first=st.integers(0, 300))
@settings(max_examples=12, deadline=None)
def test_any_bytes(name: str, seed: int, rows: int, blocks: int, first: int) -> None:
    raw = Stream.of(seed, "any bytes", name).octets((rows, FORMATS[name].nbytes * blocks))
    assert_decoded(LanesExecutor(threads=1), name, np.ascontiguousarray(raw), first=2 * first)


@pytest.mark.parametrize("name", [name for name in NAMES if device_table(name).size])
def test_a_short_codebook_is_missed(name: str, monkeypatch: pytest.MonkeyPatch, checked: LanesExecutor) -> None:
    """The table is read whole, and nothing beside it."""
    words = device_table(name)
    monkeypatch.setattr(block_decode, "device_table", lambda name: words[:-1])
    with pytest.raises(LaunchError, match="global memory out of range"):
        block_decode.decode(checked, name, as_rows(block_sweeps.all_but_scales(name)[:1]))


def test_odd_places_and_broken_rows_are_refused(checked: LanesExecutor) -> None:
    rows = np.zeros((2, 98), np.uint8)
    with pytest.raises(StrataError, match="format 'q6_k' of expert weights: expected one of q4_0, q8_0, "):
        block_decode.decode(checked, "q6_k", rows)
    with pytest.raises(StrataError, match="first is 3, expected an even number"):
        block_decode.decode(checked, "iq3_xxs", rows, first=3)
    with pytest.raises(StrataError, match="gap is -2, expected an even number"):
        block_decode.decode(checked, "iq3_xxs", rows, gap=-2)
    with pytest.raises(StrataError, match=r"rows are uint8 \(2, 97\), expected uint8 \[rows, a multiple of 98,"):
        block_decode.decode(checked, "iq3_xxs", rows[:, :97])
    with pytest.raises(StrataError, match=r"rows are uint8 \(0, 98\)"):
        block_decode.decode(checked, "iq3_xxs", rows[:0])


@pytest.mark.parametrize("name", NAMES)
def test_sizes_of_the_header_are_the_formats(name: str) -> None:
    form = FORMATS[name]
    number = re.search(rf"^#define TYPE_{name.upper()} (\d+)$", HEADER, re.MULTILINE)
    assert number is not None
    assert int(number[1]) == form.ggml_type
    sizes = re.search(rf"Blocks<TYPE_{name.upper()}> : BlockSizes<(\d+), (\d+), (\d+), (\d+), \d+>", HEADER)
    assert sizes is not None
    assert [int(n) for n in sizes.groups()] == [form.values, form.nbytes, form.scales, device_table(name).size]


def test_the_largest_codebook_fills_the_shared_memory() -> None:
    assert max(device_table(name).nbytes for name in NAMES) == block_decode.GRID_BYTES


def test_images_for_every_architecture_spill_nothing() -> None:
    try:
        nvrtc = load_nvrtc()
    except ExecutorUnavailable as error:
        pytest.skip(str(error))
    for arch in ARCHS:
        figures = build(block_decode.kernel(), f"sm_{arch}", nvrtc).image.figures
        assert figures["spill_store_bytes"] == figures["stack_bytes"] == 0, arch
