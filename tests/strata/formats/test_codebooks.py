"""Codebooks: what they hold, and that another table is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import gguf
import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.formats import FORMATS, codebook, codebooks, device_table
from strata.formats.codes import with_parity


@pytest.fixture
def _fresh() -> Iterator[None]:
    """Tables are read again, and once more after the test."""
    codebook.cache_clear()
    yield
    codebook.cache_clear()


@pytest.mark.parametrize("name", list(codebooks.GRIDS))
def test_grids_are_magnitudes_that_a_signed_byte_holds(name: str) -> None:
    grid = codebook(name)
    assert grid.dtype == np.uint8
    assert grid.shape == codebooks.GRIDS[name]
    assert grid.min() >= 1  # the kernels negate a byte without a borrow
    assert grid.max() <= 127
    assert len(np.unique(grid, axis=0)) == len(grid)


def test_levels_rise() -> None:
    levels = codebook("iq4_nl")
    assert levels.dtype == np.int8
    assert (np.diff(levels.astype(int)) > 0).all()
    assert np.array_equal(levels, codebook("iq4_xs"))


@pytest.mark.parametrize("name", list(FORMATS))
def test_device_words_are_the_bytes_in_order(name: str) -> None:
    words = device_table(name)
    assert words.dtype == np.uint32
    if name not in codebooks.GRIDS:
        assert words.size == 0
        return
    flat = codebook(name).reshape(-1, 4).astype(np.uint64)
    assert np.array_equal(words, (flat << np.arange(0, 32, 8, dtype=np.uint64)).sum(axis=1))


def test_parity_bytes_are_the_table_of_gguf() -> None:
    assert with_parity(np.arange(128)).tobytes() == gguf.quants.IQ2_XXS.ksigns


def test_a_codebook_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        codebook("iq3_s")[0] = 3


@pytest.mark.usefixtures("_fresh")
@pytest.mark.parametrize("name", list(codebooks.GRIDS))
def test_another_table_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two entries that changed places, which no look at the values would show."""
    source = getattr(gguf.quants, name.upper())
    source.init_grid()
    changed = source.grid.copy()
    changed[0, 0, [5, 6]] = changed[0, 0, [6, 5]]
    monkeypatch.setattr(source, "grid", changed)
    with pytest.raises(StrataError, match=rf"codebook of {name}: SHA-256 \w+, expected {codebooks.DIGESTS[name]}"):
        codebook(name)


@pytest.mark.usefixtures("_fresh")
def test_other_levels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf.quants.IQ4_NL, "kvalues", (*gguf.quants.IQ4_NL.kvalues[:15], 112))
    with pytest.raises(StrataError, match="codebook of iq4_nl: SHA-256"):
        codebook("iq4_nl")


@pytest.mark.usefixtures("_fresh")
def test_a_grid_of_fractions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    source: Any = gguf.quants.IQ3_S  # its grid is None until it is made
    source.init_grid()
    monkeypatch.setattr(source, "grid", source.grid + np.float32(0.5))
    with pytest.raises(StrataError, match="codebook of iq3_s: an entry is no whole number"):
        codebook("iq3_s")


@pytest.mark.usefixtures("_fresh")
def test_a_package_without_the_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(gguf.quants, "IQ2_S")
    with pytest.raises(StrataError, match="codebook of iq2_s: the installed gguf holds none"):
        codebook("iq2_s")


@pytest.mark.usefixtures("_fresh")
def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.setitem(sys.modules, "gguf.quants", None)  # or an earlier import is found
    with pytest.raises(StrataError, match=r"gguf is not installed; python -m pip install 'gguf>=0\.18,<1'"):
        codebook("iq2_xs")


def test_the_digest_of_a_table_is_of_the_words_that_are_uploaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One digest for each grid; other words, even the same bytes in another order, have another."""
    digests = {form: codebooks.table_digest(form) for form in codebooks.GRIDS}
    assert len(set(digests.values())) == len(codebooks.GRIDS)
    assert codebooks.table_digest("iq4_nl") == codebooks.table_digest("q2_0") == ""
    turned = {form: codebooks.device_table(form).byteswap() for form in codebooks.GRIDS}
    monkeypatch.setattr(codebooks, "device_table", turned.__getitem__)
    assert all(codebooks.table_digest(form) != digest for form, digest in digests.items())


def test_a_format_without_one_is_refused() -> None:
    with pytest.raises(StrataError, match="'q4_0' has no codebook, expected one of iq2_xxs"):
        codebook("q4_0")
