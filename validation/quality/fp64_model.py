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
from collections.abc import Callable
from threading import Lock
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from validation.quality.fp64_file import Float32, Float64, Sizes
from validation.quality.fp64_kv import roundings
from validation.quality.parallel import each, parts

Int64 = NDArray[np.int64]
_Made = TypeVar("_Made")

#: Rows of a layer that one core works on, and rows whose logits it holds: memory and speed, not meaning.
ROWS, LOGITS = 128, 64


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


def rotated(x: Float64, base: float, n: int) -> Float64:
    """x [m, heads, d], the last m of n positions, with pairs (i, i + d/2) of position p turned by p * base^(-2i/d)."""
    half = x.shape[-1] // 2
    angles = np.arange(n - len(x), n, dtype=np.float64)[:, None, None] * base ** (-np.arange(half) / half)
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=-1)


def attended(q: Float64, k: Float64, v: Float64, window: int | None) -> Float64:
    """Causal attention of the last m positions' q [m, heads, d] over k, v [n, kv heads, d]; float64 [m, heads, d]."""
    m, heads, d = q.shape
    n, group = len(k), heads // k.shape[1]
    out = np.empty_like(q)

    def some(task: tuple[slice, int]) -> None:
        rows, head = task
        start, stop = n - m + rows.start, n - m + rows.stop
        first = 0 if window is None else max(0, start - window + 1)
        back = np.arange(start, stop)[:, None] - np.arange(first, stop)[None, :]
        scores = q[rows, head] @ k[first:stop, head // group].T / math.sqrt(d)
        scores[(back < 0) | (back >= (n if window is None else window))] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out[rows, head] = weights @ v[first:stop, head // group] / weights.sum(axis=-1, keepdims=True)

    each(some, [(rows, head) for rows in parts(m, ROWS) for head in range(heads)])
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
        Its weights. They are held in FP64: 2.2 GB of a model of 270 million.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.sizes = weights.sizes
        self._lock = Lock()
        self._held: dict[str, Float64] = {}

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
        x = self._weights.matrix("token_embd.weight", tokens).astype(np.float64) * math.sqrt(sizes.width)
        for layer in range(sizes.layers):
            own = _Layer(self, layer)
            q, k, v = (np.concatenate(part) for part in zip(*_by_rows(own.projected, x), strict=True))
            if layer == sizes.layers - 1:
                x, q = x[first:], q[first:]
            q, k = rotated(q, sizes.base_of(layer), len(k)), rotated(k, sizes.base_of(layer), len(k))
            mixed = attended(q, keep_k(k), keep_v(v), sizes.window_of(layer)).reshape(len(q), -1)
            x = np.concatenate(_by_rows(own.rest, x, mixed))
        return norm(x, self.weight("output_norm"), sizes.epsilon)

    def logits(self, states: Float64) -> Float64:
        """Logits of normed states [k, width]: float64 [k, vocabulary]."""
        product: Float64 = states @ self.weight("token_embd").T
        return product

    def losses(self, states: Float64, tokens: Int64) -> Float64:
        """-ln p of each next token, float64 [n - 1]."""

        def some(rows: slice) -> Float64:
            return -log_likelihoods(self.logits(states[rows]), tokens[rows.start + 1 : rows.stop + 1])

        return np.concatenate([np.zeros(0), *each(some, parts(len(tokens) - 1, LOGITS))])

    def weight(self, name: str) -> Float64:
        """Weights in FP64, by their name without `.weight`."""
        with self._lock:
            if name not in self._held:
                self._held[name] = self._weights.matrix(f"{name}.weight").astype(np.float64)
            return self._held[name]


class _Layer:
    """What is done to each row of a layer by itself."""

    def __init__(self, model: Fp64Model, layer: int) -> None:
        self._model, self._layer, self._sizes = model, layer, model.sizes

    def projected(self, x: Float64) -> tuple[Float64, Float64, Float64]:
        """q and k, normed, and v, each [rows, heads, head_dim]."""
        h = self._norm(x, "attn_norm")
        q, k, v = (self._times(h, f"attn_{one}").reshape(len(x), -1, self._sizes.head_dim) for one in "qkv")
        return self._norm(q, "attn_q_norm"), self._norm(k, "attn_k_norm"), v

    def rest(self, x: Float64, mixed: Float64) -> Float64:
        """The stream behind the layer, from what was before it and what attention gave."""
        x = x + self._norm(self._times(mixed, "attn_output"), "post_attention_norm")
        h = self._norm(x, "ffn_norm")
        h = gelu(self._times(h, "ffn_gate")) * self._times(h, "ffn_up")
        return x + self._norm(self._times(h, "ffn_down"), "post_ffw_norm")

    def _times(self, x: Float64, name: str) -> Float64:
        product: Float64 = x @ self._model.weight(f"blk.{self._layer}.{name}").T
        return product

    def _norm(self, x: Float64, name: str) -> Float64:
        return norm(x, self._model.weight(f"blk.{self._layer}.{name}"), self._sizes.epsilon)


def _by_rows(work: Callable[..., _Made], *arrays: Float64) -> list[_Made]:
    """What `work` makes of the rows of arrays, `ROWS` of them at once."""
    return each(lambda rows: work(*(array[rows] for array in arrays)), parts(len(arrays[0]), ROWS))


def log_softmax(logits: Float32 | Float64) -> Float64:
    """ln of the softmax over the last axis, in FP64. Of a row with a NaN or +infinity all is NaN."""
    with np.errstate(invalid="ignore"):
        lifted: Float64 = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
        lifted -= np.log(np.exp(lifted).sum(axis=-1, keepdims=True))
    return lifted


def log_likelihoods(logits: Float32 | Float64, tokens: Int64) -> Float64:
    """ln p of one token of each row of logits: [k, vocabulary] and int64 [k] give float64 [k]."""
    return np.array([log_softmax(row)[token] for row, token in zip(logits, tokens, strict=True)], np.float64)
