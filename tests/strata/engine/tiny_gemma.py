"""A Gemma 3 of two megabytes, written by the `gguf` package: what engine tests run.

Its sizes are the smallest that the kernels take: heads of 256, four on one KV head, a window of 8, every second layer
global. Its weights are random, in formats that the `gguf` package can write.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np

LAYERS, WIDTH, FEED_FORWARD, HEADS, KV_HEADS, HEAD_DIM, WINDOW, PERIOD, CONTEXT = 3, 256, 320, 4, 1, 256, 8, 2, 512
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>", "\n", "  "]
LETTERS = ["\u2581", *"etaoinshrdlu", "th", "he", "the", "\u2581the", "an", "and", "\u2581and", "é", "語"]
PIECES = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *LETTERS]
TYPES = [3, 3, 3, 2, 3, 3, 4, 4, *[6] * 256, *[1] * len(LETTERS)]
EOS, BOS, UNKNOWN, END_OF_TURN = 1, 2, 3, 5
#: Formats by role; a role that is not named is q8_0, and a norm f32.
FORMATS = {"attn_q": "q5_0", "attn_k": "q5_0", "ffn_gate": "q5_0", "ffn_up": "q4_0", "attn_output": "q4_0"}

KEYS: dict[str, Any] = {
    "gemma3.context_length": CONTEXT,
    "gemma3.embedding_length": WIDTH,
    "gemma3.block_count": LAYERS,
    "gemma3.feed_forward_length": FEED_FORWARD,
    "gemma3.attention.head_count": HEADS,
    "gemma3.attention.head_count_kv": KV_HEADS,
    "gemma3.attention.key_length": HEAD_DIM,
    "gemma3.attention.value_length": HEAD_DIM,
    "gemma3.attention.sliding_window": WINDOW,
    "gemma3.attention.sliding_window_pattern": PERIOD,
    "gemma3.attention.layer_norm_rms_epsilon": 1e-6,
    "gemma3.rope.freq_base": 1e6,
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.bos_token_id": BOS,
    "tokenizer.ggml.eos_token_id": EOS,
    "tokenizer.ggml.unknown_token_id": UNKNOWN,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.ggml.add_space_prefix": False,
}


def shapes(layers: int = LAYERS) -> dict[str, tuple[int, ...]]:
    """Shapes by the names of the tensors, without `.weight`."""
    heads, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    block: dict[str, tuple[int, ...]] = {
        "attn_norm": (WIDTH,),
        "attn_q": (heads, WIDTH),
        "attn_k": (kv, WIDTH),
        "attn_v": (kv, WIDTH),
        "attn_q_norm": (HEAD_DIM,),
        "attn_k_norm": (HEAD_DIM,),
        "attn_output": (WIDTH, heads),
        "post_attention_norm": (WIDTH,),
        "ffn_norm": (WIDTH,),
        "ffn_gate": (FEED_FORWARD, WIDTH),
        "ffn_up": (FEED_FORWARD, WIDTH),
        "ffn_down": (WIDTH, FEED_FORWARD),
        "post_ffw_norm": (WIDTH,),
    }
    found: dict[str, tuple[int, ...]] = {"token_embd": (len(PIECES), WIDTH), "output_norm": (WIDTH,)}
    return found | {f"blk.{layer}.{role}": shape for layer in range(layers) for role, shape in block.items()}


def write(
    path: Path,
    *,
    keys: Mapping[str, Any] | None = None,
    formats: Mapping[str, str] | None = None,
    replaced: Mapping[str, tuple[int, ...] | None] | None = None,
    seed: int = 15,
) -> Path:
    """Write a model.

    Parameters
    ----------
    path
        Where.
    keys
        Metadata instead of `KEYS`, and besides; None leaves a key out.
    formats
        Formats by role, instead of `FORMATS`.
    replaced
        Shapes by the names of tensors, instead of `shapes` and besides; None leaves a tensor out.
    seed
        Of its weights.
    """
    chosen = {**KEYS, **(keys or {})}
    writer = gguf.GGUFWriter(path, chosen.pop("general.architecture", "gemma3"))
    for key, value in chosen.items():
        if value is not None:
            add: dict[type, Any] = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string}
            add.get(type(value), writer.add_float32)(key, value)
    writer.add_token_list(PIECES)
    writer.add_token_scores([-float(index) for index in range(len(PIECES))])
    writer.add_token_types(TYPES)
    kinds = FORMATS | dict(formats or {})
    for name, shape in (shapes(chosen.get("gemma3.block_count") or LAYERS) | dict(replaced or {})).items():
        if shape is not None:
            add_tensor(writer, name, shape, kinds, seed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_tensor(writer: Any, name: str, shape: tuple[int, ...], kinds: Mapping[str, str], seed: int) -> None:
    """Add random weights of a tensor, which follow from its name and the seed alone."""
    kind = kinds.get(name.split(".")[-1], "f32" if len(shape) == 1 else "q8_0").upper()
    writer.add_tensor(f"{name}.weight", weights(name, shape, kind, seed), raw_dtype=gguf.GGMLQuantizationType[kind])


@cache
def weights(name: str, shape: tuple[int, ...], kind: str, seed: int) -> np.ndarray:
    """Blocks of random weights."""
    generator = np.random.Generator(np.random.Philox(key=[seed, int.from_bytes(name.encode()[-8:], "little")]))
    norm = len(shape) == 1
    values = generator.uniform(0.5, 1.5, shape) if norm else generator.standard_normal(shape) / np.sqrt(shape[-1])
    found: np.ndarray = gguf.quants.quantize(values.astype(np.float32), gguf.GGMLQuantizationType[kind])
    return found
