"""Writes small Gemma 3 GGUF files by the `gguf` package: constructed models, and random ones for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath

import numpy as np
from numpy.typing import NDArray

from validation.quality.fp64_file import ARCHITECTURE, Sizes
from validation.quality.gguf_package import gguf

#: Pieces of a tokenizer that makes a token of every byte: that of models whose vocabulary is as large.
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>"]
PIECES = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]

#: A model that lanes run in seconds, of the shape that attention's kernels take; it reads bytes.
SMALL = Sizes(
    layers=2,
    width=64,
    heads=4,
    kv_heads=1,
    head_dim=256,
    context=256,
    window=16,
    period=2,
    epsilon=1e-6,
    global_base=1e6,
    local_base=1e4,
)
#: How much larger the values of the small model are: as large as some of Gemma's are, whose 4-bit scales reach 6.
LOUD = 32.0


def write_small(path: FilePath, seed: int = 1) -> None:
    """Write a random model of sizes `SMALL`."""
    weights = random_weights(seed, SMALL, len(PIECES), SMALL.width)
    for layer in range(SMALL.layers):
        weights[f"blk.{layer}.attn_v"] *= LOUD
    write(path, SMALL, weights)


def write(
    path: FilePath,
    sizes: Sizes,
    weights: Mapping[str, NDArray[np.float64]],
    matrices: str = "Q8_0",
) -> None:
    """Write a model.

    Parameters
    ----------
    path
        The file.
    sizes
        Its sizes and constants.
    weights
        Vectors and matrices by GGUF name, without `.weight`.
    matrices
        The format of the matrices, by its name in `gguf`. Vectors are float32.
    """
    package = gguf()
    form = package.GGMLQuantizationType[matrices]
    writer = package.GGUFWriter(path, ARCHITECTURE)
    writer.add_context_length(sizes.context)
    writer.add_embedding_length(sizes.width)
    writer.add_block_count(sizes.layers)
    writer.add_feed_forward_length(len(weights["blk.0.ffn_up"]))
    writer.add_head_count(sizes.heads)
    writer.add_head_count_kv(sizes.kv_heads)
    writer.add_key_length(sizes.head_dim)
    writer.add_value_length(sizes.head_dim)
    writer.add_layer_norm_rms_eps(sizes.epsilon)
    writer.add_rope_freq_base(sizes.global_base)
    writer.add_float32(f"{ARCHITECTURE}.rope.freq_base_swa", sizes.local_base)
    writer.add_uint32(f"{ARCHITECTURE}.attention.sliding_window", sizes.window)
    writer.add_uint32(f"{ARCHITECTURE}.attention.sliding_window_pattern", sizes.period)
    if len(weights["token_embd"]) == len(PIECES):
        writer.add_tokenizer_model("llama")
        writer.add_token_list(PIECES)
        writer.add_token_scores([0.0] * len(PIECES))
        kinds = package.TokenType
        writer.add_token_types([kinds.CONTROL] * len(SPECIAL) + [kinds.BYTE] * 256)
        writer.add_bos_token_id(SPECIAL.index("<bos>"))
        writer.add_eos_token_id(SPECIAL.index("<eos>"))
        writer.add_unk_token_id(SPECIAL.index("<unk>"))
        writer.add_add_bos_token(True)
        writer.add_add_space_prefix(False)
    for name, array in weights.items():
        values = array.astype(np.float32)
        if values.ndim == 1:
            writer.add_tensor(f"{name}.weight", values)
        else:
            writer.add_tensor(f"{name}.weight", package.quants.quantize(values, form), raw_dtype=form)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def random_weights(seed: int, sizes: Sizes, vocabulary: int, hidden: int) -> dict[str, NDArray[np.float64]]:
    """Weights of a random model, whose products keep activations near 1: see `write`.

    Parameters
    ----------
    seed
        Of the random numbers.
    sizes
        Sizes of the model.
    vocabulary, hidden
        Pieces of the vocabulary, and the width of the feed-forward part.
    """
    random = np.random.default_rng(seed)
    q, kv = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    block = {
        "attn_norm": (sizes.width,),
        "attn_q": (q, sizes.width),
        "attn_k": (kv, sizes.width),
        "attn_v": (kv, sizes.width),
        "attn_q_norm": (sizes.head_dim,),
        "attn_k_norm": (sizes.head_dim,),
        "attn_output": (sizes.width, q),
        "post_attention_norm": (sizes.width,),
        "ffn_norm": (sizes.width,),
        "ffn_gate": (hidden, sizes.width),
        "ffn_up": (hidden, sizes.width),
        "ffn_down": (sizes.width, hidden),
        "post_ffw_norm": (sizes.width,),
    }
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (vocabulary, sizes.width), "output_norm": (sizes.width,)}
    shapes |= {f"blk.{layer}.{name}": shape for layer in range(sizes.layers) for name, shape in block.items()}
    found = {}
    for name, shape in shapes.items():
        one = random.standard_normal(shape)
        found[name] = 1 + one / 8 if len(shape) == 1 else one / np.sqrt(shape[-1])
    return found
