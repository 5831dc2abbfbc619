"""Gemma 3 as a file has it, and one line for each file that is another model or a broken one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.engine import gemma3
from strata.engine.gguf_file import GgufFile, ModelError, Tensor, open_gguf
from tests.strata.engine import tiny_gemma


@pytest.fixture(scope="module")
def tiny(tiny_path: Path) -> GgufFile:
    return open_gguf(tiny_path)


def changed(file: GgufFile, keys: dict[str, Any] | None = None, tensors: dict[str, Any] | None = None) -> GgufFile:
    """The file with other keys and tensors; None takes one away. A tensor is given as (format, shape)."""
    values = {**file.values, **(keys or {})}
    found = dict(file.tensors)
    for name, what in (tensors or {}).items():
        found[name] = what and Tensor(name, what[0], what[1], np.zeros((1, 1), np.uint8))
    return GgufFile(
        file.path,
        file.nbytes,
        {key: value for key, value in values.items() if value is not None},
        {name: tensor for name, tensor in found.items() if tensor is not None},
    )


def test_sizes_and_tensors_come_from_the_file(tiny: GgufFile) -> None:
    model = gemma3.load(tiny)
    assert (model.n_layer, model.n_embd, model.n_ff, model.vocab) == (3, 256, 320, len(tiny_gemma.PIECES))
    assert (model.n_head, model.n_head_kv, model.head_dim) == (4, 1, 256)
    assert (model.context_length, model.window, model.global_period) == (512, 8, 2)
    assert model.rms_epsilon == float(np.float32(1e-6))
    assert (model.rope_base_global, model.rope_base_local, model.softcap) == (1e6, 1e4, None)
    assert [model.is_global(layer) for layer in range(4)] == [False, True, False, True]
    assert model.tied
    assert model.embedding_factor == 16
    for layer, tensors in enumerate(model.layers):
        for role, tensor in vars(tensors).items():
            assert tensor is tiny.tensor(f"blk.{layer}.{role}.weight")
    assert model.output_norm is tiny.tensor("output_norm.weight")


def test_the_factor_of_an_embedding_is_a_float32() -> None:
    found = gemma3.Gemma3(*[640] * 18)  # type: ignore[arg-type]
    assert found.embedding_factor == float(np.float32(math.sqrt(640)))
    assert found.embedding_factor != math.sqrt(640)


def test_gemma_s_own_values_stand_in_for_what_files_leave_out(tiny: GgufFile) -> None:
    model = gemma3.load(changed(tiny, {"gemma3.attention.sliding_window_pattern": None}))
    assert [layer for layer in range(18) if model.is_global(layer)] == [5, 11, 17]
    assert gemma3.load(changed(tiny, {"gemma3.rope.freq_base_swa": 500.0})).rope_base_local == 500


def test_an_output_matrix_of_its_own_and_a_softcap(tiny: GgufFile) -> None:
    output = {"output.weight": ("f16", (len(tiny_gemma.PIECES), 256))}
    model = gemma3.load(changed(tiny, {"gemma3.final_logit_softcapping": 30.0}, output))
    assert not model.tied
    assert (model.output.name, model.output.format, model.softcap) == ("output.weight", "f16", 30.0)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("general.architecture", "llama", "architecture is 'llama'; expected 'gemma3'"),
        ("general.architecture", None, "no key general.architecture"),
        ("split.count", 4, "one of 4 parts"),
        ("gemma3.block_count", None, "no key gemma3.block_count"),
        ("gemma3.block_count", 0, "block_count is 0; expected a whole number of 1 to"),
        ("gemma3.block_count", 1 << 40, "block_count is 1099511627776"),
        ("gemma3.block_count", "3", "expected a whole number"),
        ("gemma3.block_count", True, "block_count is True"),
        ("gemma3.block_count", 4, "no tensor blk.3.attn_norm.weight"),
        ("gemma3.block_count", 2, "tensor blk.2.attn_norm.weight has no role"),
        ("gemma3.embedding_length", 250, "embedding_length is 250; expected a multiple of 32"),
        ("gemma3.embedding_length", 288, "token_embd.weight is 286 x 256; expected 286 x 288"),
        ("gemma3.feed_forward_length", 330, "expected a multiple of 32"),
        ("gemma3.feed_forward_length", 352, "ffn_gate.weight is 320 x 256; expected 352 x 256"),
        ("gemma3.attention.key_length", 128, "key_length is 128; expected 256"),
        ("gemma3.attention.value_length", 128, "value_length is 128; expected 256"),
        ("gemma3.rope.dimension_count", 128, "dimension_count is 128; expected 256"),
        ("gemma3.attention.head_count", 5, "5 query heads on 1 KV heads; expected 4, 8 or 12"),
        ("gemma3.attention.head_count", 8, "attn_q.weight is 1024 x 256; expected 2048 x 256"),
        ("gemma3.attention.head_count_kv", [1, 1, 1], "head_count_kv is"),
        ("gemma3.attention.head_count_kv", 0, "expected a whole number of 1"),
        ("gemma3.rope.freq_base", 0.5, "rope.freq_base is 0.5; expected a number of at least 1"),
        ("gemma3.rope.freq_base_swa", 1e-36, "expected a number of at least 1"),
        ("gemma3.embedding_scale", 4.0, "key gemma3.embedding_scale is not known here"),
        ("gemma3.rope.scaling.attn_factor", 2.0, "attn_factor is not known here"),
        ("split.count", np.array([1, 2], np.int32), "parts of a model; expected a whole one"),
        ("gemma3.attention.sliding_window", 0, "sliding_window is 0"),
        ("gemma3.attention.sliding_window_pattern", 0, "sliding_window_pattern is 0"),
        (
            "gemma3.attention.layer_norm_rms_epsilon",
            float("nan"),
            "epsilon is nan; expected a number of at least",
        ),
        ("gemma3.attention.layer_norm_rms_epsilon", 0.0, "expected a number of at least 1e-37"),
        ("gemma3.attention.layer_norm_rms_epsilon", 2.0, "expected a number above 0 and below 1"),
        ("gemma3.rope.freq_base", float("inf"), "freq_base is inf"),
        ("gemma3.rope.freq_base", -1e6, "freq_base is -1000000.0"),
        ("gemma3.rope.scaling.type", "linear", "rope.scaling.type is linear; expected none, or none"),
        ("gemma3.rope.scaling.factor", 8.0, "rope.scaling.factor is 8.0; expected 1.0, or none"),
        ("gemma3.attn_logit_softcapping", 50.0, "attn_logit_softcapping is 50.0"),
        ("gemma3.attention.causal", False, "attention.causal is False"),
        ("gemma3.final_logit_softcapping", -1.0, "final_logit_softcapping is -1.0"),
        ("gemma3.final_logit_softcapping", float("nan"), "final_logit_softcapping is nan"),
    ],
)
def test_a_key_that_does_not_fit(tiny: GgufFile, key: str, value: Any, why: str) -> None:
    refused(changed(tiny, {key: value}), why)


@pytest.mark.parametrize(
    ("name", "what", "why"),
    [
        ("blk.1.attn_q.weight", None, "no tensor blk.1.attn_q.weight"),
        ("token_embd.weight", None, "no tensor token_embd.weight"),
        ("token_embd.weight", ("f32", (256,)), "token_embd.weight is 256; expected at most"),
        ("token_embd.weight", ("q8_0", (1 << 21, 256)), "token_embd.weight is 2097152 x 256; expected at most 1048576"),
        ("blk.1.attn_q.weight", ("q4_1", (1024, 256)), "attn_q.weight is q4_1; expected q8_0, q4_0"),
        ("blk.1.attn_q.weight", ("f32", (1024, 256)), "attn_q.weight is f32; expected"),
        ("blk.1.attn_q.weight", ("q8_0", (256, 1024)), "attn_q.weight is 256 x 1024; expected 1024 x 256"),
        ("blk.1.attn_q_norm.weight", ("f16", (256,)), "attn_q_norm.weight is f16; expected f32"),
        ("blk.1.attn_q_norm.weight", ("f32", (1, 256)), "attn_q_norm.weight is 1 x 256; expected 256"),
        ("blk.1.attn_q.bias", ("f32", (1024,)), "tensor blk.1.attn_q.bias has no role"),
        ("rope_freqs.weight", ("f32", (128,)), "tensor rope_freqs.weight has no role"),
        ("output.weight", ("q8_0", (286, 288)), "output.weight is 286 x 288; expected 286 x 256"),
    ],
)
def test_a_tensor_that_does_not_fit(tiny: GgufFile, name: str, what: Any, why: str) -> None:
    refused(changed(tiny, tensors={name: what}), why)


def refused(file: GgufFile, why: str) -> None:
    with pytest.raises(ModelError) as caught:
        gemma3.load(file)
    assert why in str(caught.value)
    assert str(caught.value).startswith(f"{file.path}: ")
    assert "\n" not in str(caught.value)
