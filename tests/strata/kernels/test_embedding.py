"""Embeddings on lanes: one format of each kind against every bit, and what is refused. All formats are in the plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.formats import FORMATS
from strata.kernels import embedding, linear_weights
from strata.kernels.paths import PATHS
from validation.core.random_streams import Stream
from validation.numerics.fma import plain
from validation.operations.embedding import reference

#: Halves, and the formats of the model of the extra `model`: plain, with an offset, and with two scales.
SOME = ("f16", "q8_0", "q5_1", "q6_k")
WIDTH = 256


def row_bytes(form: str) -> int:
    return 2 * WIDTH if form == "f16" else FORMATS[form].row_bytes(WIDTH)


@pytest.mark.parametrize("form", SOME)
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 5), st.floats(-(2.0**100), 2.0**100, width=32))
def test_any_bytes_have_their_bits(
    form: str, checked: LanesExecutor, seed: int, rows: int, vocab: int, factor: float
) -> None:
    stream = Stream.of(seed, "embedding")
    blocks = stream.octets((vocab, row_bytes(form)))
    ids = (stream.child("ids").below(vocab + 2, rows) - 1).astype(np.int32)
    got = embedding.run(checked, form, blocks, ids, WIDTH, factor)
    due = reference.embed_bits(form, blocks, ids, np.float32(factor))
    assert plain(got.out).tobytes() == plain(due).tobytes()
    assert got.lost == int(((ids < 0) | (ids >= vocab)).sum())
    assert got.guards_ok


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_the_reference_decodes_as_the_formats_do(form: str) -> None:
    """By parts in FP64, and by `decode` in FP32."""
    made = FORMATS[form]
    blocks = Stream.of(1, form).octets((3, made.nbytes * (WIDTH // made.values)))
    due = made.decode(blocks.reshape(3, -1, made.nbytes)).reshape(3, WIDTH)
    got = reference.embed_bits(form, blocks, np.arange(3, dtype=np.int32), np.float32(1))
    assert plain(got).tobytes() == plain(due).tobytes()


def test_every_format_of_a_product_and_halves_have_a_path() -> None:
    held = {path.mode for path in PATHS.values() if path.operation == "embedding"}
    assert held == {*linear_weights.LINEAR_FORMATS, "f16"}


def test_a_matrix_of_a_product_serves_as_one_of_embeddings(checked: LanesExecutor) -> None:
    """A model may have one matrix for both."""
    blocks = Stream.of(2, "shared").octets((5, row_bytes("q8_0")))
    ids = np.array([4, 0], np.int32)
    weights = linear_weights.upload(checked, "q8_0", blocks, WIDTH)
    out = checked.empty((2, WIDTH), np.float32, name="out")
    lost = checked.array(np.zeros(1, np.int32), "lost", written=True)
    embedding.launch(checked, weights, checked.array(ids, "ids"), out, lost, 2, 16.0)
    assert out.host().tobytes() == embedding.run(checked, "q8_0", blocks, ids, WIDTH, 16.0).out.tobytes()


def _blocks(form: str, vocab: int = 3, dtype: Any = np.uint8) -> np.ndarray:
    return np.zeros((vocab, row_bytes(form)), dtype)


_IDS = np.zeros(2, np.int32)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("q7_0", _blocks("q8_0"), _IDS, WIDTH, 1.0), "format 'q7_0' of a linear product: expected one of q8_0"),
        (("q8_0", _blocks("q8_0", dtype=np.int8), _IDS, WIDTH, 1.0), "weights of q8_0 are int8"),
        (
            ("f16", _blocks("q8_0"), _IDS, WIDTH, 1.0),
            r"weights of f16 are uint8 \(3, 272\), expected uint8 \[vocab, 512\]",
        ),
        (
            ("f16", _blocks("f16"), _IDS, WIDTH + 1, 1.0),
            "257 values in a row of f16, expected a positive multiple of 32",
        ),
        (
            ("q8_0", _blocks("q8_0"), _IDS.astype(np.int64), WIDTH, 1.0),
            r"ids are int64 \(2,\), expected int32 \[rows\]",
        ),
        (("q8_0", _blocks("q8_0"), _IDS[:0], WIDTH, 1.0), r"ids are int32 \(0,\)"),
        (("q8_0", _blocks("q8_0"), _IDS[:, None], WIDTH, 1.0), r"ids are int32 \(2, 1\)"),
    ],
)
def test_what_does_not_fit_is_refused(checked: LanesExecutor, asked: tuple[Any, ...], said: str) -> None:
    with pytest.raises(StrataError, match=said):
        embedding.run(checked, *asked)


@pytest.mark.parametrize(
    ("rows", "width", "said"),
    [
        (0, 32, "0 rows of 32 values, expected 1 or more"),
        (1, 40, "1 rows of 40 values, expected 1 or more of a multiple of 32"),
        ((1 << 31) - 1, 1 << 14, "blocks, expected up to 2147483647"),
    ],
)
def test_launches_that_cannot_be_are_refused(rows: int, width: int, said: str) -> None:
    with pytest.raises(StrataError, match=said):
        embedding.blocks_of(rows, width)
