"""Gemma 3 in plain NumPy FP32: the forward pass of a whole text at once, and its loss.

Per layer, with x [n, n_embd] the residual stream:

    h = norm(x, attn_norm);  q, k, v = h Wq, h Wk, h Wv      (heads of head_dim)
    q, k = rope(norm(q, q_norm)), rope(norm(k, k_norm))      (v stays raw)
    x = x + norm(softmax(mask(q k / sqrt(head_dim))) v Wo, post_attention_norm)
    h = norm(x, ffn_norm)
    x = x + norm((gelu(h Wgate) * (h Wup)) Wdown, post_ffw_norm)

x starts as the token's embedding times sqrt(n_embd); the output table is the embedding. `norm` is RMSNorm;
Gemma's factor (1 + w) is already folded into the weights of a GGUF file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from validation.captured.gguf_model import Float32, Hyperparameters

Int64 = NDArray[np.int64]
#: Called with a stage's name, the steps done and the steps in all.
Progress = Callable[[str, int, int], None]

EMBEDDING = "token_embd.weight"
#: Queries whose scores are held at once, and logits held at once: memory, not meaning.
QUERY_CHUNK = 256
LOGITS_AT_ONCE = 1 << 24


class Weights(Protocol):
    """What the forward pass reads: `gguf_model.Model`, or a small model made by a test."""

    hyper: Hyperparameters

    def tensor(self, name: str) -> Float32:
        """Weights `name`, float32 [outputs, inputs] or [inputs]."""
        ...

    def rows(self, name: str, index: slice | Int64) -> Float32:
        """Rows `index` of matrix `name`."""
        ...

    def n_rows(self, name: str) -> int:
        """How many rows matrix `name` has."""
        ...


@dataclass(frozen=True)
class AttentionInputs:
    """What one layer's attention reads: q float32 [n, n_head, head_dim] and k [n, n_head_kv, head_dim], both
    after norm and rope and without the softmax scale, and v [n, n_head_kv, head_dim] as projected."""

    q: Float32
    k: Float32
    v: Float32


def rms_norm(x: Float32, weight: Float32, epsilon: float) -> Float32:
    """x / sqrt(mean(x^2) + epsilon) * weight over the last axis."""
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    normed: Float32 = x / np.sqrt(mean_square + np.float32(epsilon)) * weight
    return normed


def rope(x: Float32, positions: Int64, base: float) -> Float32:
    """Rotate elements (i, i + d/2) of x [n, heads, d] by the angle position * base^(-2i/d)."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * base ** (-np.arange(half, dtype=np.float64) / half)
    cosine = np.cos(angles).astype(np.float32)[:, None, :]
    sine = np.sin(angles).astype(np.float32)[:, None, :]
    low, high = x[..., :half], x[..., half:]
    return np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)


def visible(queries: Int64, cells: Int64, window: int | None) -> NDArray[np.bool_]:
    """[queries, cells]: whether a query at a position sees a cell; `window` counts the query's own cell."""
    distance = queries[:, None] - cells[None, :]
    seen: NDArray[np.bool_] = distance >= 0
    return seen if window is None else seen & (distance < window)


def attention(inputs: AttentionInputs, window: int | None) -> Float32:
    """Causal softmax attention, float32 [n, n_head, head_dim]; scores are held for a chunk of queries."""
    n, n_head, head_dim = inputs.q.shape
    group = n_head // inputs.k.shape[1]
    out = np.empty_like(inputs.q)
    for start in range(0, n, QUERY_CHUNK):
        stop = min(start + QUERY_CHUNK, n)
        first = 0 if window is None else max(0, start - window + 1)
        seen = visible(np.arange(start, stop), np.arange(first, stop), window)
        for head in range(n_head):
            k, v = inputs.k[first:stop, head // group], inputs.v[first:stop, head // group]
            scores = inputs.q[start:stop, head] @ k.T * np.float32(1 / math.sqrt(head_dim))
            scores = np.where(seen, scores, np.float32(-np.inf))
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            out[start:stop, head] = weights @ v / weights.sum(axis=-1, keepdims=True)
    return out


def gelu(x: Float32) -> Float32:
    """GELU, the approximation by tanh that Gemma is trained with."""
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    activated: Float32 = np.float32(0.5) * x * (1 + np.tanh(inner))
    return activated


def hidden_states(
    weights: Weights, tokens: Int64, layers: Collection[int], progress: Progress
) -> tuple[Float32, dict[int, AttentionInputs]]:
    """The normed output of the last layer, float32 [n, n_embd], and the attention inputs of `layers`."""
    hyper = weights.hyper
    positions = np.arange(len(tokens))
    kept = {}
    x = weights.rows(EMBEDDING, tokens) * np.float32(math.sqrt(hyper.n_embd))
    for layer in range(hyper.n_layer):
        progress("layers", layer, hyper.n_layer)
        inputs = _attention_inputs(weights, layer, x, positions)
        if layer in layers:
            kept[layer] = inputs
        window = None if hyper.is_global(layer) else hyper.window
        mixed = attention(inputs, window).reshape(len(tokens), -1)
        x = x + _normed(weights, f"blk.{layer}.post_attention_norm", _linear(weights, layer, "attn_output", mixed))
        h = _normed(weights, f"blk.{layer}.ffn_norm", x)
        h = gelu(_linear(weights, layer, "ffn_gate", h)) * _linear(weights, layer, "ffn_up", h)
        x = x + _normed(weights, f"blk.{layer}.post_ffw_norm", _linear(weights, layer, "ffn_down", h))
    progress("layers", hyper.n_layer, hyper.n_layer)
    return _normed(weights, "output_norm", x), kept


def loss_per_token(weights: Weights, hidden: Float32, tokens: Int64, progress: Progress) -> float:
    """Mean of -ln p(next token) over the tokens after the first. The softmax's denominator is gathered over
    chunks of the vocabulary, in FP64 relative to a running maximum."""
    states, targets = hidden[:-1], tokens[1:]
    size = weights.n_rows(EMBEDDING)
    chunk = max(1, LOGITS_AT_ONCE // len(tokens))
    largest = np.full(len(targets), -np.inf)
    total = np.zeros(len(targets))
    for start in range(0, size, chunk):
        progress("loss", start, size)
        logits = states @ weights.rows(EMBEDDING, slice(start, min(start + chunk, size))).T
        peak = np.maximum(largest, logits.max(axis=-1))
        logits -= peak[:, None].astype(np.float32)
        total = total * np.exp(largest - peak) + np.exp(logits, out=logits).sum(axis=-1, dtype=np.float64)
        largest = peak
    progress("loss", size, size)
    wanted = np.einsum("ij,ij->i", states, weights.rows(EMBEDDING, targets), dtype=np.float64)
    return float(np.mean(largest + np.log(total) - wanted))


def _attention_inputs(weights: Weights, layer: int, x: Float32, positions: Int64) -> AttentionInputs:
    hyper = weights.hyper
    base = hyper.rope_base_global if hyper.is_global(layer) else hyper.rope_base_local
    h = _normed(weights, f"blk.{layer}.attn_norm", x)
    q, k, v = (_linear(weights, layer, f"attn_{part}", h).reshape(len(x), -1, hyper.head_dim) for part in "qkv")
    return AttentionInputs(
        q=rope(_normed(weights, f"blk.{layer}.attn_q_norm", q), positions, base),
        k=rope(_normed(weights, f"blk.{layer}.attn_k_norm", k), positions, base),
        v=v,
    )


def _normed(weights: Weights, name: str, x: Float32) -> Float32:
    return rms_norm(x, weights.tensor(f"{name}.weight"), weights.hyper.rms_epsilon)


def _linear(weights: Weights, layer: int, name: str, x: Float32) -> Float32:
    product: Float32 = x @ weights.tensor(f"blk.{layer}.{name}.weight").T
    return product
