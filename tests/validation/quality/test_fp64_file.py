"""Files that the FP64 model reads, and those whose mathematics it does not have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter

from strata.executors.base import StrataError
from validation.quality.fp64_file import LOCAL_BASE, PERIOD, Fp64File
from validation.quality.model_file import SMALL, random_weights, write


def made(path: Path, architecture: str = "gemma3", tensors: tuple[str, ...] = ("token_embd",), **keys: Any) -> Path:
    """A file with the keys of a model; None leaves one out."""
    told = {
        "block_count": 1,
        "embedding_length": 32,
        "attention.head_count": 4,
        "attention.head_count_kv": 1,
        "attention.key_length": 256,
        "context_length": 64,
        "attention.sliding_window": 8,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 1e6,
    } | {key.replace("__", "."): value for key, value in keys.items()}
    writer = GGUFWriter(path, architecture)
    for key, value in told.items():
        if value is not None:
            adds: dict[type, Any] = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
            adds[type(value)](f"gemma3.{key}", value)
    for name in tensors:
        writer.add_tensor(f"{name}.weight", np.ones((40, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    weights = random_weights(1, SMALL, 40, 32)
    write(path, SMALL, weights)
    found = Fp64File(path)
    assert found.sizes == replace(SMALL, epsilon=float(np.float32(SMALL.epsilon)))
    assert found.vocabulary == 40
    matrix = weights["blk.1.attn_v"]
    # Q8_0: half a step of the largest of 32, in 127 steps, and the scale's rounding to binary16.
    step = np.abs(matrix.reshape(-1, 2, 32)).max(axis=-1) / 127
    error = np.abs(found.matrix("blk.1.attn_v.weight") - matrix).reshape(-1, 2, 32).max(axis=-1)
    assert (error <= step * (0.5 + 127 * 2.0**-11)).all()
    rows = np.array([3, 0])
    assert np.array_equal(found.matrix("token_embd.weight", rows), found.matrix("token_embd.weight")[rows])


def test_what_the_definition_fixes_may_be_left_out(tmp_path: Path) -> None:
    sizes = Fp64File(made(tmp_path / "model.gguf")).sizes
    assert (sizes.local_base, sizes.period) == (LOCAL_BASE, PERIOD)
    assert [sizes.window_of(layer) for layer in range(PERIOD)] == [8] * 5 + [None]
    assert sizes.base_of(0) == LOCAL_BASE
    assert sizes.base_of(PERIOD - 1) == 1e6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"architecture": "llama"}, "the model's architecture is 'llama', expected 'gemma3'"),
        (
            {"final_logit_softcapping": 30.0},
            "the model has final_logit_softcapping, which the FP64 model does not know",
        ),
        ({"rope__scaling__type": "linear"}, "the model has rope.scaling.type, which the FP64 model does not know"),
        ({"block_count": None}, "the model has no metadata 'gemma3.block_count'"),
        ({"tensors": ("token_embd", "output")}, "the model has an output table of its own"),
        ({"tensors": ("output_norm",)}, "the model has no tensor 'token_embd.weight'"),
    ],
)
def test_another_model(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(StrataError, match=said):
        Fp64File(made(tmp_path / "model.gguf", **change))


def test_no_model(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no model at all, and long enough to hold a header")
    for name in ("text", "none"):
        with pytest.raises(StrataError, match=f"model .*{name}' cannot be read as GGUF: "):
            Fp64File(tmp_path / name)
