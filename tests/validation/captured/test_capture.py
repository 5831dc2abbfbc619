"""Making a capture from a tiny model: what is asked, what is refused, and that a bad loss stops it."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.captured import capture as module
from validation.captured.archive import CaptureError, load, save
from validation.captured.capture import MIN_TOKENS, capture, run, source_text, unigram_entropy
from validation.captured.gguf_model import Model, open_model


def silent(stage: str, done: int, total: int) -> None:
    pass


@pytest.fixture
def model(write_model: Callable[..., Path]) -> Iterator[Model]:
    path = write_model()
    with open_model([path], hashlib.sha256(path.read_bytes()).hexdigest()) as opened:
        yield opened


def test_a_model_that_knows_nothing_is_refused(model: Model) -> None:
    with pytest.raises(CaptureError, match=r"loss is .* per token; expected below .*unigram entropy"):
        run(model, MIN_TOKENS, [0], silent)


def test_a_capture_holds_what_was_asked_and_says_how(
    model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "unigram_entropy", lambda tokens: 1000.0)
    result = run(model, 300, [1, 0], silent)
    assert list(result.layers) == [1, 0]
    assert result.layers[1].q.shape == (300, 4, 8)
    assert result.layers[1].k.shape == result.layers[1].v.shape == (300, 2, 8)
    data = result.metadata
    assert (data.tokens, data.layers, data.model_sha256, data.numpy) == (300, (1, 0), model.sha256, np.__version__)
    starts = (source_text()[0][:size].encode() for size in range(1200))
    assert data.text_sha256 in {hashlib.sha256(start).hexdigest() for start in starts}
    save(result, tmp_path / "file.npz")
    assert load(tmp_path / "file.npz").metadata == data


@pytest.mark.parametrize("tokens", [-1, 0, MIN_TOKENS - 1, 1025])
def test_a_number_of_tokens_out_of_range_is_refused(model: Model, tokens: int) -> None:
    with pytest.raises(CaptureError, match=f"tokens is {tokens}; expected {MIN_TOKENS} to 1024"):
        run(model, tokens, [0], silent)


@pytest.mark.parametrize("layers", [[], [2], [-1], [0, 0]])
def test_layers_the_model_has_not_are_refused(model: Model, layers: list[int]) -> None:
    with pytest.raises(CaptureError, match=r"layers is .*; expected distinct numbers from 0 to 1"):
        run(model, MIN_TOKENS, layers, silent)


def test_a_text_too_short_is_an_error(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "source_text", lambda: ("a" * 10, "ten letters"))
    with pytest.raises(CaptureError, match="expected at most 11, the length of the text"):
        run(model, MIN_TOKENS, [0], silent)


def test_a_place_that_cannot_be_written_is_found_before_the_run(tmp_path: Path) -> None:
    for out in (tmp_path, tmp_path / "absent" / "file.npz"):
        with pytest.raises(CaptureError, match="cannot write"):
            capture(MIN_TOKENS, [0], out, silent)


def test_a_python_without_the_text_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(CaptureError, match="lacks part of its standard library"):
        source_text()


@given(st.integers(1, 50), st.integers(1, 50))
def test_unigram_entropy_of_equal_frequencies_is_the_logarithm(distinct: int, each: int) -> None:
    assert unigram_entropy(np.repeat(np.arange(distinct), each)) == pytest.approx(math.log(distinct))
