"""The installed model's own file (extra `model`): what is read of it, and tokens that other readers of it give too."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from strata.engine import gemma3
from strata.engine.gguf_file import open_gguf
from strata.engine.packaged import MODELS, PARTS, fetch
from strata.engine.tokenizer import END_OF_TURN, tokenizer_of

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(package) is None for package, _ in PARTS),
    reason="the extra `model` is not installed",
)


def test_gemma_3_270m(tmp_path: Path) -> None:
    file = open_gguf(fetch(MODELS["gemma3-270m"], tmp_path / "model.gguf"))
    model = gemma3.load(file)
    assert (model.n_layer, model.n_embd, model.n_ff, model.vocab) == (18, 640, 2048, 262_144)
    assert (model.n_head, model.n_head_kv, model.window, model.context_length) == (4, 1, 512, 32_768)
    assert [layer for layer in range(18) if model.is_global(layer)] == [5, 11, 17]
    assert (model.rope_base_global, model.rope_base_local, model.softcap, model.tied) == (1e6, 1e4, None, True)
    formats = Counter(tensor.format for tensor in file.tensors.values())
    assert formats == {"f32": 109, "q5_0": 81, "q4_k": 27, "q8_0": 10, "q6_k": 9}
    tokenizer = tokenizer_of(file, model.vocab)
    # The ids that Gemma 3's own tokenizer gives.
    assert list(tokenizer.encode("Hello world")) == [2, 9259, 1902]
    assert tokenizer.ends == {1, 106}
    assert file.metadata("tokenizer.ggml.tokens")[106] == END_OF_TURN
    assert tokenizer.decode(tokenizer.encode("naïve 語 \n\n  x")) == "naïve 語 \n\n  x"
