"""The golden files against the packages that wrote them, the references, and the kernels."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from fixtures import q4_0_blocks as golden
from strata.executors.base import POISON_OUTPUT
from strata.executors.lanes import LanesExecutor
from strata.kernels import kv_pack
from validation.operations.kv_pack import reference

LIMIT_BYTES = 300_000
FAMILIES = list(golden.FAMILIES)
STORED = golden.load()


def kernel_blocks(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """uint8 [n, 144] and the count of lost values: `kv_pack_q4_0` alone, without the rotation, on checked lanes."""
    executor = LanesExecutor(flavor="checked")
    count = len(rows)
    source, table = executor.array(rows, "x"), executor.array(np.arange(count, dtype=np.int32), "page table")
    pool = executor.empty((count, golden.BYTES * 8), np.uint8, poison=POISON_OUTPUT, name="pool")
    lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
    kernel = kv_pack.kernel("kv_pack_q4_0")
    grid = (-(-count * 32 // kernel.block), 1, 1)
    sizes = tuple(np.int32(n) for n in (count, 1, 0, 1))  # rows, KV heads, first cell, page size
    executor.launch(kernel, grid, (source, None, table, pool, lost, *sizes))
    assert all(buffer.guards_intact() for buffer in (source, table, pool, lost))
    return pool.host(), int(lost.host()[0])


def test_the_files_are_small() -> None:
    assert sum(file.stat().st_size for file in golden.FILE.parent.iterdir() if file.is_file()) < LIMIT_BYTES


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_drawn_again_bit_for_bit(family: str) -> None:
    assert np.array_equal(golden.draw(family).view(np.uint32), STORED[family].rows.view(np.uint32))


@pytest.mark.parametrize("family", FAMILIES)
def test_blocks_are_what_gguf_stores(family: str) -> None:
    told = f"gguf {version('gguf')} is installed, {golden.recorded_version()} wrote the file"
    assert np.array_equal(golden.by_gguf(STORED[family].rows), STORED[family].blocks), told


def test_the_script_writes_the_same_arrays(tmp_path: Path) -> None:
    golden.write(tmp_path / "again.npz")
    with np.load(tmp_path / "again.npz") as again, np.load(golden.FILE) as kept:
        assert again.files == kept.files
        for name in kept.files:
            assert name == "gguf_version" or np.array_equal(again[name], kept[name]), name


@pytest.mark.parametrize("family", FAMILIES)
def test_reference_packs_the_golden_bytes(family: str) -> None:
    rows, blocks = STORED[family].rows, STORED[family].blocks
    assert np.array_equal(reference.pack_q4_0(rows), blocks)


@pytest.mark.parametrize("family", FAMILIES)
def test_kernel_packs_the_golden_bytes(family: str) -> None:
    rows, blocks = STORED[family].rows, STORED[family].blocks
    got, lost = kernel_blocks(rows)
    assert np.array_equal(got, blocks)
    infinite = ~np.isfinite(reference.q4_0_scales(blocks))
    assert lost == golden.BLOCK * int(infinite.sum())


@pytest.mark.parametrize("family", FAMILIES)
def test_kernel_and_reference_agree_on_every_golden_row(family: str) -> None:
    rows = STORED[family].rows
    assert np.array_equal(kernel_blocks(rows)[0], reference.pack_q4_0(rows))


def test_the_version_that_wrote_the_file_is_the_one_the_readme_names() -> None:
    readme = golden.FILE.with_name("README.md").read_text()
    assert f"`gguf` {golden.recorded_version()} by" in readme


def test_the_families_hold_what_they_are_named_for() -> None:
    scales = {name: reference.q4_0_scales(STORED[name].blocks) for name in FAMILIES}
    bits = {name: scale.view(np.uint16) & 0x7FFF for name, scale in scales.items()}
    assert (scales["signed"] > 0).any()
    assert (scales["signed"] < 0).any()
    assert (STORED["all_negative"].rows <= 0).all()
    assert (scales["all_negative"] > 0).all()
    decades = np.abs(scales["decades"].astype(np.float32))
    assert decades.max() > 1e6 * decades.min()
    zero = scales["zeros"][scales["zeros"] == 0].view(np.uint16)
    assert set(zero.tolist()) == {0x0000, 0x8000}
    subnormal = bits["subnormal"]
    assert ((subnormal > 0) & (subnormal < 0x0400)).any()
    assert (subnormal == 0).any()
    assert (subnormal >= 0x0400).any()
    assert {0x7BFF, 0x7C00} <= set(bits["near_overflow"].ravel().tolist())


def test_the_first_of_two_equal_magnitudes_decides_the_sign() -> None:
    """The tie rule, from the stored bytes alone, and that both orders occur at every pair of places."""
    blocks = STORED["ties"].rows.reshape(-1, golden.BLOCK)
    scales = reference.q4_0_scales(STORED["ties"].blocks).ravel()
    values = reference.unpack_q4_0(STORED["ties"].blocks).reshape(blocks.shape)
    largest = np.abs(blocks).max(axis=1)
    pairs = set()
    for block, scale, value, size in zip(blocks, scales, values, largest, strict=True):
        first, second = np.flatnonzero(np.abs(block) == size).tolist()
        assert block[first] == -block[second]
        assert float(scale) == block[first] / -8
        assert value[first] == block[first]
        assert value[second] == block[second] * 7 / 8
        pairs.add((first, second, bool(block[first] > 0)))
    assert len(pairs) == golden.BLOCK * (golden.BLOCK - 1)
