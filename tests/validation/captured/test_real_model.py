"""The installed model itself (extra `model`), on fewer tokens than a capture takes.

Goes red when the forward pass, a dequantiser or the tokenizer is wrong: the loss then is at or above the
tokens' unigram entropy, or a pass with one constant deliberately wrong is no worse than the right one. Only
the last tokens are scored: they are where wrong positions and windows show.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from strata.engine.tokenizer import Tokenizer
from validation.captured.capture import source_text, unigram_entropy
from validation.captured.forward import Int64, hidden_states, loss_per_token
from validation.captured.gguf_model import PARTS, Hyperparameters, Model, find_model, open_model

TOKENS = 640  # more than the window of 512, so that local and global layers differ
SCORED = 256

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("gguf", *(package for package, _ in PARTS))),
    reason="the extra `model` is not installed",
)


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with open_model(find_model()) as opened:
        yield opened


@pytest.fixture(scope="module")
def tokens(model: Model) -> Int64:
    return np.fromiter(itertools.islice(Tokenizer(model.vocabulary()).encode(source_text()[0]), TOKENS), np.int64)


def loss(model: Model, tokens: Int64, hyper: Hyperparameters) -> float:
    right, model.hyper = model.hyper, hyper
    try:
        hidden, _ = hidden_states(model, tokens, (), ignore)
        return loss_per_token(model, hidden[-SCORED:], tokens[-SCORED:], ignore)
    finally:
        model.hyper = right


def ignore(stage: str, done: int, total: int) -> None:
    pass


def test_the_loss_is_a_language_model_s_and_every_constant_counts(model: Model, tokens: Int64) -> None:
    hyper = model.hyper
    right = loss(model, tokens, hyper)
    assert right < unigram_entropy(tokens[-SCORED:])
    wrong = {
        "global rope base": dataclasses.replace(hyper, rope_base_global=hyper.rope_base_local),
        "order of global layers": dataclasses.replace(hyper, global_period=hyper.global_period - 1),
    }
    losses = {name: loss(model, tokens, changed) for name, changed in wrong.items()}
    print(f"right {right:.4f}, wrong {losses}")
    assert {name: value for name, value in losses.items() if value <= right} == {}


def test_all_its_pieces_read_back(model: Model) -> None:
    tokenizer = Tokenizer(model.vocabulary())
    text = source_text()[0] + "\u00e9\U0001f40d\r\n\t   <table>\n\n\n\x00"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_parts_have_the_sizes_of_the_packages(model: Model) -> None:
    assert model.hyper.head_dim == 256
    assert (model.hyper.n_head, model.hyper.n_head_kv, model.hyper.n_layer) == (4, 1, 18)
    assert all(Path(part).is_file() for part in find_model())
