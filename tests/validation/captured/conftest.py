"""A GGUF file of a few kilobytes with all that a Gemma 3 file has, written by the `gguf` package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

#: Two layers of which the second is global, four query heads on two KV heads.
SIZES: dict[str, Any] = {
    "context_length": 1024,
    "embedding_length": 32,
    "block_count": 2,
    "feed_forward_length": 48,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.key_length": 8,
    "attention.value_length": 8,
    "attention.sliding_window": 16,
    "attention.sliding_window_pattern": 2,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 1e6,
}
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "\n", "  "]
PIECES = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), "e", "th", "t", "h", "\u2581"]
TYPES = [3, 3, 3, 2, 4, 4, *[6] * 256, 1, 1, 1, 1, 1]

WriteModel = Callable[..., Path]


@pytest.fixture
def write_model(tmp_path: Path) -> WriteModel:
    """Writes a random model; keyword arguments replace metadata, None leaves a key out."""
    gguf = pytest.importorskip("gguf", reason="needs the extra `model` or the test group")

    def write(**changes: Any) -> Path:
        path = tmp_path / "tiny.gguf"
        keys: dict[str, Any] = {f"gemma3.{key}": value for key, value in SIZES.items()}
        keys |= {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.bos_token_id": 2,
            "tokenizer.ggml.unknown_token_id": 3,
            "tokenizer.ggml.add_bos_token": True,
            "tokenizer.ggml.add_space_prefix": False,
        }
        architecture = changes.pop("architecture", "gemma3")
        keys |= {key.replace("__", "."): value for key, value in changes.items()}
        writer = gguf.GGUFWriter(path, architecture)
        for key, value in keys.items():
            if value is not None:
                add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
                add[type(value)](key, value)
        writer.add_token_list(PIECES)
        writer.add_token_scores([-float(index) for index in range(len(PIECES))])
        writer.add_token_types(TYPES)
        for name, array in random_weights().items():
            writer.add_tensor(name, array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


def random_weights() -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """Weights of the tiny model by GGUF name; all as large as keeps activations near 1."""
    generator = np.random.default_rng(3)
    embd, ff, heads, kv = 32, 48, 4 * 8, 2 * 8
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(PIECES), embd), "output_norm": (embd,)}
    for layer in range(2):
        block = {
            "attn_q": (heads, embd),
            "attn_k": (kv, embd),
            "attn_v": (kv, embd),
            "attn_output": (embd, heads),
            "ffn_gate": (ff, embd),
            "ffn_up": (ff, embd),
            "ffn_down": (embd, ff),
            "attn_norm": (embd,),
            "attn_q_norm": (8,),
            "attn_k_norm": (8,),
            "post_attention_norm": (embd,),
            "ffn_norm": (embd,),
            "post_ffw_norm": (embd,),
        }
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    return {
        f"{name}.weight": (
            generator.standard_normal(shape) / np.sqrt(shape[-1])
            if len(shape) == 2
            else generator.uniform(0.5, 1.5, shape)
        ).astype(np.float32)
        for name, shape in shapes.items()
    }
