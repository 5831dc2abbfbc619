"""Gemma 3 in NumPy FP64, from its definition: what every setting of the engine is compared with.

With x [n, width] the residual stream, norm(x, w) = x / sqrt(mean(x^2) + epsilon) * w, and layers in order:

    h = norm(x, attn_norm);  q, k, v = h Wq, h Wk, h Wv                            (heads of head_dim)
    q, k = rope(norm(q, q_norm)), rope(norm(k, k_norm))                             (v stays as it is)
    x = x + norm(softmax(q k / sqrt(head_dim), over visible cells) v Wo, post_attention_norm)
    h = norm(x, ffn_norm)
    x = x + norm((gelu(h Wgate) * (h Wup)) Wdown, post_ffw_norm)

x starts as the token's embedding times sqrt(width), and logits = norm(x, output_norm) E^T with the embedding E. Gemma's
factor 1 + w is in the file's norm weights already. `kv` rounds keys and values as a KV format would (`fp64_kv`), all
else is FP64: the difference of two formats is then the formats' own, without any kernel's. A visible cell is not later
than the query, and in local layers less than `window` before it.

References
----------
Gemma Team, "Gemma 3 Technical Report", arXiv:2503.19786, 2025: layers, norms, five local layers before a global one.
J. Su and others, "RoFormer", arXiv:2104.09864, 2021: the rotation; here of elements (i, i + head_dim / 2).
D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415, 2016: the approximation by tanh.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from validation.quality.fp64_file import Float32, Float64, Sizes
from validation.quality.fp64_kv import roundings

Int64 = NDArray[np.int64]

#: Queries whose scores are held at once; rows of the vocabulary that are held in FP64 at once. Memory, not meaning.
QUERIES, PIECES = 256, 32_768


class Weights(Protocol):
    """What the model reads: an `Fp64File`, or a small model made by a test."""

    sizes: Sizes
    vocabulary: int

    def matrix(self, name: str, rows: slice | Int64 = ...) -> Float32:
        """Weights, or some rows of them."""
        ...


def norm(x: Float64, weight: Float64, epsilon: float) -> Float64:
    """RMSNorm over the last axis."""
    scaled: Float64 = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * weight
    return scaled


def rotated(x: Float64, base: float) -> Float64:
    """x [n, heads, d] with elements (i, i + d/2) of row p turned by the angle p * base^(-2i/d)."""
    half = x.shape[-1] // 2
    angles = np.arange(len(x), dtype=np.float64)[:, None, None] * base ** (-np.arange(half) / half)
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=-1)


def attended(q: Float64, k: Float64, v: Float64, window: int | None) -> Float64:
    """Causal attention of the last m positions' q [m, heads, d] over k, v [n, kv heads, d]; float64 [m, heads, d]."""
    m, heads, d = q.shape
    n, group = len(k), heads // k.shape[1]
    out = np.empty_like(q)
    for rows in chunks(m, QUERIES):
        start, stop = n - m + rows.start, n - m + rows.stop
        first = 0 if window is None else max(0, start - window + 1)
        back = np.arange(start, stop)[:, None] - np.arange(first, stop)[None, :]
        hidden = (back < 0) | (back >= (n if window is None else window))
        for head in range(heads):
            keys, values = k[first:stop, head // group], v[first:stop, head // group]
            scores = q[rows, head] @ keys.T / math.sqrt(d)
            scores[hidden] = -np.inf
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            out[rows, head] = weights @ values / weights.sum(axis=-1, keepdims=True)
    return out


def gelu(x: Float64) -> Float64:
    """GELU, the approximation by tanh that Gemma is trained with."""
    out: Float64 = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return out


class Fp64Model:
    """The model.

    Parameters
    ----------
    weights
        Its weights. Those of all layers are held in FP64.
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.sizes = weights.sizes
        self._held: dict[str, Float64] = {}
        self._table: Float32 | None = None

    def states(self, tokens: Int64, kv: str = "exact", first: int = 0) -> Float64:
        """The normed output of the last layer.

        Parameters
        ----------
        tokens
            int64 [n], a whole text.
        kv
            The format whose rounding keys and values get.
        first
            The first position that is asked for; the last layer computes no other.

        Returns
        -------
        ndarray
            float64 [n - first, width].
        """
        sizes = self.sizes
        keep_k, keep_v = roundings(kv)
        x = self.weights.matrix("token_embd.weight", tokens).astype(np.float64) * math.sqrt(sizes.width)
        for layer in range(sizes.layers):
            h = self._norm(x, layer, "attn_norm")
            q, k, v = (
                self._times(h, layer, f"attn_{part}").reshape(len(tokens), -1, sizes.head_dim) for part in "qkv"
            )
            base, window = sizes.base_of(layer), sizes.window_of(layer)
            q = rotated(self._norm(q, layer, "attn_q_norm"), base)
            k = rotated(self._norm(k, layer, "attn_k_norm"), base)
            if layer == sizes.layers - 1:
                x, q = x[first:], q[first:]
            mixed = attended(q, keep_k(k), keep_v(v), window).reshape(len(q), -1)
            x = x + self._norm(self._times(mixed, layer, "attn_output"), layer, "post_attention_norm")
            h = self._norm(x, layer, "ffn_norm")
            h = gelu(self._times(h, layer, "ffn_gate")) * self._times(h, layer, "ffn_up")
            x = x + self._norm(self._times(h, layer, "ffn_down"), layer, "post_ffw_norm")
        return norm(x, self._weight("output_norm.weight"), sizes.epsilon)

    def logits(self, states: Float64) -> Float64:
        """Logits of normed states [k, width]: float64 [k, vocabulary]. The table is held in FP32, as it is exact there."""
        if self._table is None:
            self._table = self.weights.matrix("token_embd.weight")
        out = np.empty((len(states), len(self._table)))
        for first in range(0, len(self._table), PIECES):
            out[:, first : first + PIECES] = states @ self._table[first : first + PIECES].astype(np.float64).T
        return out

    def losses(self, states: Float64, tokens: Int64, rows: int = QUERIES) -> Float64:
        """-ln p of each next token, float64 [n - 1], `rows` positions at once."""
        parts = [
            -log_likelihoods(self.logits(states[part]), tokens[part.start + 1 : part.stop + 1])
            for part in chunks(len(tokens) - 1, rows)
        ]
        return np.concatenate([np.zeros(0), *parts])

    def _times(self, x: Float64, layer: int, name: str) -> Float64:
        product: Float64 = x @ self._weight(f"blk.{layer}.{name}.weight").T
        return product

    def _norm(self, x: Float64, layer: int, name: str) -> Float64:
        return norm(x, self._weight(f"blk.{layer}.{name}.weight"), self.sizes.epsilon)

    def _weight(self, name: str) -> Float64:
        if name not in self._held:
            self._held[name] = self.weights.matrix(name).astype(np.float64)
        return self._held[name]


def log_softmax(logits: Float32 | Float64) -> Float64:
    """ln of the softmax over the last axis, in FP64. Of a row with a NaN or +infinity all is NaN."""
    with np.errstate(invalid="ignore"):
        lifted: Float64 = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
        lifted -= np.log(np.exp(lifted).sum(axis=-1, keepdims=True))
    return lifted


def log_likelihoods(logits: Float32 | Float64, tokens: Int64) -> Float64:
    """ln p of one token of each row of logits: [k, vocabulary] and int64 [k] give float64 [k]."""
    return np.array([log_softmax(row)[token] for row, token in zip(logits, tokens, strict=True)], np.float64)


def chunks(total: int, rows: int) -> Iterator[slice]:
    """0..total in slices of `rows`."""
    for first in range(0, total, rows):
        yield slice(first, min(first + rows, total))
