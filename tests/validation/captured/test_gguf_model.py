"""Reading a GGUF file: parts, digest, metadata, weights. The file is a tiny one; the model is not needed."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from validation.captured import gguf_model
from validation.captured.gguf_model import ModelError, open_model

WriteModel = Callable[..., Path]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_parts_are_joined_in_order_and_the_copy_does_not_stay(
    write_model: WriteModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    whole = write_model()
    content = whole.read_bytes()
    parts = [tmp_path / "a", tmp_path / "b"]
    parts[0].write_bytes(content[:1001])
    parts[1].write_bytes(content[1001:])
    with open_model(parts, digest(whole)) as model:
        assert model.sha256 == digest(whole)
        assert list(scratch.iterdir())
    assert not list(scratch.iterdir())


def test_another_file_is_refused(write_model: WriteModel) -> None:
    with pytest.raises(ModelError, match=r"SHA-256 \w+; expected a5fd3b62"), open_model([write_model()]):
        pass


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "junk").write_bytes(b"not a model" * 9)
    with pytest.raises(ModelError, match="no GGUF file"), open_model([tmp_path / "junk"], digest(tmp_path / "junk")):
        pass


def test_hyperparameters_come_from_the_metadata(write_model: WriteModel) -> None:
    path = write_model(gemma3__rope__freq_base_swa=500.0)
    with open_model([path], digest(path)) as model:
        hyper = model.hyper
    assert (hyper.n_layer, hyper.n_embd, hyper.n_head, hyper.n_head_kv, hyper.head_dim) == (2, 32, 4, 2, 8)
    assert (hyper.window, hyper.context_length) == (16, 1024)
    assert (hyper.rope_base_global, hyper.rope_base_local) == (1e6, 500.0)
    assert [hyper.is_global(layer) for layer in range(4)] == [False, True, False, True]


def test_gemma_s_own_values_stand_in_for_what_files_leave_out(write_model: WriteModel) -> None:
    path = write_model(gemma3__attention__sliding_window_pattern=None)
    with open_model([path], digest(path)) as model:
        assert [layer for layer in range(18) if model.hyper.is_global(layer)] == [5, 11, 17]
        assert model.hyper.rope_base_local == gguf_model.LOCAL_ROPE_BASE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "llama"}, "architecture is 'llama'; expected 'gemma3'"),
        ({"gemma3__block_count": None}, "no metadata gemma3.block_count"),
        ({"gemma3__attention__value_length": 16}, "keys have 8 elements and values 16"),
        ({"gemma3__rope__scaling__type": "linear"}, "rope.scaling.type is 'linear'; expected none"),
        ({"gemma3__final_logit_softcapping": 30.0}, "final_logit_softcapping is 30.0; expected none"),
    ],
)
def test_a_model_of_another_kind_is_refused(write_model: WriteModel, changes: dict[str, Any], message: str) -> None:
    path = write_model(**changes)
    with pytest.raises(ModelError, match=message), open_model([path], digest(path)):
        pass


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer__ggml__model": "gpt2"}, "tokenizer.ggml.model is 'gpt2'; expected 'llama'"),
        ({"tokenizer__ggml__add_space_prefix": True}, "add_space_prefix is True; expected False"),
        ({"tokenizer__ggml__add_bos_token": False}, "add_bos_token is False; expected True"),
    ],
)
def test_a_tokenizer_of_another_kind_is_refused(write_model: WriteModel, changes: dict[str, Any], message: str) -> None:
    path = write_model(**changes)
    with open_model([path], digest(path)) as model, pytest.raises(ModelError, match=message):
        model.vocabulary()


def test_weights_are_unpacked_whole_and_by_rows(write_model: WriteModel, monkeypatch: pytest.MonkeyPatch) -> None:
    import gguf

    path = write_model()
    with open_model([path], digest(path)) as model:
        table = model.tensor("token_embd.weight")
        assert table.dtype == np.float32
        assert table.shape == (model.n_rows("token_embd.weight"), 32)
        assert np.array_equal(model.rows("token_embd.weight", np.array([7, 3, 7])), table[[7, 3, 7]])
        assert np.array_equal(model.rows("token_embd.weight", slice(5, 9)), table[5:9])
        with pytest.raises(ModelError, match=r"no tensor blk\.9\.attn_q\.weight"):
            model.tensor("blk.9.attn_q.weight")
        # Rows of a quantised matrix are rows of its bytes.
        kind = gguf.GGMLQuantizationType.Q8_0
        packed = SimpleNamespace(data=gguf.quants.quantize(table, kind), tensor_type=kind)
        monkeypatch.setattr(model, "_tensors", {"packed": packed})
        assert np.array_equal(model.rows("packed", slice(5, 9)), model.tensor("packed")[5:9])
