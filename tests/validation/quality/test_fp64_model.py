"""The FP64 model against a version with loops, one token and one element at a time."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validation.quality.conftest import SIZES, Float64, Made, close
from validation.quality.fp64_kv import roundings
from validation.quality.fp64_model import Fp64Model, attended, gelu, log_likelihoods, log_softmax, norm, rotated

Vector = list[float]


def times(matrix: Float64, x: Sequence[float]) -> Vector:
    return [math.fsum(float(w) * v for w, v in zip(row, x, strict=True)) for row in matrix]


def normed(x: Sequence[float], weight: Float64) -> Vector:
    root = math.sqrt(math.fsum(v * v for v in x) / len(x) + SIZES.epsilon)
    return [v / root * float(w) for v, w in zip(x, weight, strict=True)]


def turned(x: Vector, position: int, base: float) -> Vector:
    half = len(x) // 2
    pairs = [complex(x[i], x[i + half]) * cmath.rect(1.0, position * base ** (-2 * i / len(x))) for i in range(half)]
    return [one.real for one in pairs] + [one.imag for one in pairs]


def naive(made: Made, tokens: Sequence[int], kv: str) -> Float64:
    """Logits of every position, token by token."""
    keep_k, keep_v = roundings(kv)
    weight = {name: one.astype(np.float64) for name, one in made.arrays.items()}
    cells: list[list[tuple[list[Vector], list[Vector]]]] = [[] for _ in range(SIZES.layers)]
    out = []
    d = SIZES.head_dim
    for position, token in enumerate(tokens):
        x = [float(v) * math.sqrt(SIZES.width) for v in weight["token_embd"][token]]
        for layer in range(SIZES.layers):

            def own(name: str, layer: int = layer) -> Float64:
                return weight[f"blk.{layer}.{name}"]

            local = (layer + 1) % SIZES.period != 0
            base = SIZES.local_base if local else SIZES.global_base
            h = normed(x, own("attn_norm"))
            parts = {}
            for part in "qkv":
                flat = times(own(f"attn_{part}"), h)
                parts[part] = [flat[i : i + d] for i in range(0, len(flat), d)]
            q = [turned(normed(head, own("attn_q_norm")), position, base) for head in parts["q"]]
            k = [turned(normed(head, own("attn_k_norm")), position, base) for head in parts["k"]]
            kept_k = [keep_k(np.array([head]))[0].tolist() for head in k]
            kept_v = [keep_v(np.array([head]))[0].tolist() for head in parts["v"]]
            cells[layer].append((kept_k, kept_v))
            seen = cells[layer][-SIZES.window :] if local else cells[layer]
            mixed: Vector = []
            for head, row in enumerate(q):
                of = head // (SIZES.heads // SIZES.kv_heads)
                scores = [math.fsum(map(float.__mul__, row, cell[0][of])) / math.sqrt(d) for cell in seen]
                exps = [math.exp(score - max(scores)) for score in scores]
                shares = [one / math.fsum(exps) for one in exps]
                mixed += [math.fsum(s * c[1][of][i] for s, c in zip(shares, seen, strict=True)) for i in range(d)]
            told = normed(times(own("attn_output"), mixed), own("post_attention_norm"))
            x = [a + b for a, b in zip(x, told, strict=True)]
            h = normed(x, own("ffn_norm"))
            gate, up = times(own("ffn_gate"), h), times(own("ffn_up"), h)
            inner = [
                0.5 * g * (1 + math.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g**3))) * u
                for g, u in zip(gate, up, strict=True)
            ]
            told = normed(times(own("ffn_down"), inner), own("post_ffw_norm"))
            x = [a + b for a, b in zip(x, told, strict=True)]
        out.append(times(weight["token_embd"], normed(x, weight["output_norm"])))
    return np.array(out)


def test_a_whole_model_has_the_logits_of_the_version_with_loops(made: Made, model: Fp64Model) -> None:
    tokens = np.array([3, 17, 17, 0, 42, 9, 31])
    for kv in ("exact", "int8"):
        got = model.logits(model.states(tokens, kv))
        # Each of three layers has chains of about 250 operations, and a residual stream that norms keep near 1.
        close(got, naive(made, tokens.tolist(), kv), steps=10_000)


def test_formats_change_logits(model: Fp64Model) -> None:
    tokens = np.arange(6)
    exact = model.states(tokens)
    for kv in ("fp16", "int8", "k8v4", "q4_0"):
        assert (model.states(tokens, kv) != exact).any()


@given(st.integers(1, 9), st.integers(0, 8))
@settings(max_examples=8)
def test_rows_that_are_not_asked_for_change_nothing(model: Fp64Model, n: int, first: int) -> None:
    tokens = np.random.default_rng(n).integers(0, 50, n)
    first = min(first, n - 1)
    close(model.states(tokens, first=first), model.states(tokens)[first:], steps=10_000)


def test_a_token_sees_no_later_one(model: Fp64Model) -> None:
    tokens = np.array([4, 8, 15, 16, 23, 42])
    changed = tokens.copy()
    changed[4:] = 1
    close(model.states(tokens)[:4], model.states(changed)[:4], steps=10_000)
    assert (model.states(tokens)[4:] != model.states(changed)[4:]).any()


def test_loss_is_that_of_each_next_token(model: Fp64Model) -> None:
    tokens = np.array([5, 6, 7, 8, 9])
    states = model.states(tokens)
    logits = model.logits(states)
    want = [math.log(math.fsum(np.exp(row))) - row[token] for row, token in zip(logits, tokens[1:], strict=False)]
    close(model.losses(states, tokens), np.array(want), steps=200)
    assert len(model.losses(states[:1], tokens[:1])) == 0


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 12), st.sampled_from([None, 1, 3, 20]))
@settings(max_examples=25)
def test_attention_of_some_rows(seed: int, n: int, m: int, window: int | None) -> None:
    random = np.random.default_rng(seed)
    m = min(m, n)
    q, k, v = (random.standard_normal((count, heads, 4)) for count, heads in ((m, 4), (n, 2), (n, 2)))
    want = np.empty_like(q)
    for row in range(m):
        position = n - m + row
        seen = range(0 if window is None else max(0, position - window + 1), position + 1)
        for head in range(4):
            scores = [math.fsum(q[row, head] * k[cell, head // 2]) / 2 for cell in seen]
            exps = [math.exp(score) for score in scores]
            want[row, head] = sum(e * v[cell, head // 2] for e, cell in zip(exps, seen, strict=True)) / math.fsum(exps)
    close(attended(q, k, v, window), want, steps=200)


def test_pieces() -> None:
    x = np.random.default_rng(1).standard_normal((5, 2, 6))
    want = [[turned(head.tolist(), 3 + row, 10.0) for head in rows] for row, rows in enumerate(x)]
    close(rotated(x, 10.0, 8), np.array(want), steps=100)
    assert np.array_equal(norm(np.zeros((1, 4)), np.ones(4), 1e-6), np.zeros((1, 4)))
    assert gelu(np.array([0.0, 40.0, -40.0])).tolist() == [0.0, 40.0, 0.0]


def test_a_nan_is_not_a_probability() -> None:
    rows = np.array([[0.0, 1.0], [np.nan, 0.0], [np.inf, 0.0]])
    assert np.isnan(log_softmax(rows)).tolist() == [[False, False], [True, True], [True, True]]
    assert np.isnan(log_likelihoods(rows, np.array([0, 1, 1]))).tolist() == [False, True, True]
