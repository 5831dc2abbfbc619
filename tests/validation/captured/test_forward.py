"""The forward pass against FP64 formulas written another way: complex rotations, loops, one token at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from validation.captured import forward
from validation.captured.forward import (
    AttentionInputs,
    attention,
    gelu,
    hidden_states,
    loss_per_token,
    rms_norm,
    rope,
    visible,
)
from validation.captured.gguf_model import Float32, Hyperparameters

Float64 = NDArray[np.float64]

SMALL = Hyperparameters(
    n_layer=3,
    n_embd=8,
    n_head=4,
    n_head_kv=2,
    head_dim=6,
    context_length=64,
    window=3,
    global_period=2,
    rms_epsilon=1e-6,
    rope_base_global=1000.0,
    rope_base_local=10.0,
)
VOCABULARY, FEED_FORWARD = 40, 10


def rounding(steps: int) -> float:
    """Relative error of a chain of `steps` FP32 operations, steps * 2^-24 / (1 - steps * 2^-24): Higham's
    gamma. Applied to a whole vector's size, so cancellation in single elements is allowed for."""
    unit = steps * 2.0**-24
    return unit / (1 - unit)


def agree(got: Any, want: Float64, steps: int) -> None:
    assert got.dtype == np.float32
    assert got.shape == want.shape
    assert np.abs(got - want).max(initial=0) <= rounding(steps) * np.abs(want).max(initial=0)


def random(seed: int, *shape: int) -> Float32:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 40), st.sampled_from([1e-20, 1e-3, 1.0, 1e15]))
def test_rms_norm(seed: int, size: int, scale: float) -> None:
    x, weight = random(seed, 3, size) * np.float32(scale), random(seed + 1, size)
    want = [
        [
            float(e) * float(w) / math.sqrt(math.fsum(float(a) ** 2 for a in row) / size + 1e-6)
            for e, w in zip(row, weight, strict=True)
        ]
        for row in x
    ]
    agree(rms_norm(x, weight, 1e-6), np.array(want), steps=size + 8)


@given(seeds, st.integers(1, 16), st.sampled_from([10.0, 1e4, 1e6]))
def test_rope_multiplies_complex_numbers(seed: int, half: int, base: float) -> None:
    x, positions = random(seed, 5, 2, 2 * half), np.array([0, 1, 7, 2047, 32767])
    turn = np.array([[np.exp(1j * p * base ** (-i / half)) for i in range(half)] for p in positions])
    turned = (x[..., :half] + 1j * x[..., half:].astype(np.float64)) * turn[:, None, :]
    agree(rope(x, positions, base), np.concatenate([turned.real, turned.imag], axis=-1), steps=5)


def test_rope_leaves_position_zero_alone() -> None:
    x = random(1, 1, 4, 8)
    assert np.array_equal(rope(x, np.array([0]), 1e4), x)


positions = st.lists(st.integers(0, 60), max_size=8)


@given(positions, positions, st.none() | st.integers(1, 70))
def test_visible(queries: list[int], cells: list[int], window: int | None) -> None:
    got = visible(np.array(queries, dtype=np.int64), np.array(cells, dtype=np.int64), window)
    behind = range(10**6) if window is None else range(window)
    assert got.tolist() == [[query - cell in behind for cell in cells] for query in queries]


@pytest.mark.parametrize("chunk", [1, 4, 5, 100])
@pytest.mark.parametrize("window", [None, 1, 3, 50])
def test_attention_in_chunks_is_attention(monkeypatch: pytest.MonkeyPatch, chunk: int, window: int | None) -> None:
    monkeypatch.setattr(forward, "QUERY_CHUNK", chunk)
    q, k, v = random(1, 11, 4, 6) * np.float32(3), random(2, 11, 2, 6), random(3, 11, 2, 6)
    want = np.zeros(q.shape)
    for query in range(11):
        for head in range(4):
            cells = [cell for cell in range(query + 1) if window is None or query - cell < window]
            wide, keys, values = (x.astype(np.float64) for x in (q[query, head], k[:, head // 2], v[:, head // 2]))
            weight = {cell: math.exp(wide @ keys[cell] / math.sqrt(6)) for cell in cells}
            want[query, head] = sum(weight[cell] * values[cell] for cell in cells) / math.fsum(weight.values())
    # An error of the score, at most its magnitude times rounding(7), becomes a relative error of the weight.
    largest = np.abs(np.einsum("ihd,jhd->ihj", q, np.repeat(k, 2, axis=1))).max()
    agree(attention(AttentionInputs(q, k, v), window), want, steps=math.ceil(2 * largest * 7) + 2 * 11)


def test_gelu() -> None:
    x = np.linspace(-30, 30, 4001, dtype=np.float32)
    wide = x.astype(np.float64)
    agree(gelu(x), wide * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))), steps=10)


@dataclass
class SmallWeights:
    """A random model with the sizes of SMALL."""

    seed: int
    hyper: Hyperparameters = SMALL
    stored: dict[str, Float32] = field(default_factory=dict)

    def tensor(self, name: str) -> Float32:
        """A matrix [outputs, inputs] that keeps sizes near 1, or norm weights about 1, chosen by name."""
        if name not in self.stored:
            h = self.hyper
            kind = name.removesuffix(".weight").split(".")[-1]
            heads, kv = h.n_head * h.head_dim, h.n_head_kv * h.head_dim
            matrices = {
                "token_embd": (VOCABULARY, h.n_embd),
                "attn_q": (heads, h.n_embd),
                "attn_k": (kv, h.n_embd),
                "attn_v": (kv, h.n_embd),
                "attn_output": (h.n_embd, heads),
                "ffn_gate": (FEED_FORWARD, h.n_embd),
                "ffn_up": (FEED_FORWARD, h.n_embd),
                "ffn_down": (h.n_embd, FEED_FORWARD),
            }
            generator = np.random.default_rng([self.seed, *name.encode()])
            if kind in matrices:
                value = generator.standard_normal(matrices[kind]) / math.sqrt(matrices[kind][1])
            else:
                value = generator.uniform(0.5, 1.5, h.head_dim if kind in ("attn_q_norm", "attn_k_norm") else h.n_embd)
            self.stored[name] = value.astype(np.float32)
        return self.stored[name]

    def rows(self, name: str, index: slice | NDArray[np.int64]) -> Float32:
        return self.tensor(name)[index]

    def n_rows(self, name: str) -> int:
        return len(self.tensor(name))


def one_token_at_a_time(weights: SmallWeights, tokens: NDArray[np.int64]) -> tuple[Float64, float]:
    """Gemma 3 in FP64 as a decoder runs it: a cache of K and V per layer, loops over heads and cells, complex
    rotations. Returns the normed states and the loss."""
    hyper = weights.hyper
    caches: list[list[tuple[Float64, Float64]]] = [[] for _ in range(hyper.n_layer)]
    states = []

    def w(name: str) -> Float64:
        return weights.tensor(f"{name}.weight").astype(np.float64)

    def norm(x: Float64, name: str) -> Float64:
        return np.asarray(x / np.sqrt((x @ x) / len(x) + hyper.rms_epsilon) * w(name))

    def turned(x: Float64, position: int, base: float) -> Float64:
        half = len(x) // 2
        y = (x[:half] + 1j * x[half:]) * np.exp(1j * position * base ** (-np.arange(half) / half))
        return np.concatenate([y.real, y.imag])

    for position, token in enumerate(tokens):
        x = w("token_embd")[token] * math.sqrt(hyper.n_embd)
        for layer, cache in enumerate(caches):
            whole = layer % hyper.global_period == hyper.global_period - 1
            base = hyper.rope_base_global if whole else hyper.rope_base_local
            name = f"blk.{layer}."
            h = norm(x, name + "attn_norm")
            k = (w(name + "attn_k") @ h).reshape(hyper.n_head_kv, -1)
            v = (w(name + "attn_v") @ h).reshape(hyper.n_head_kv, -1)
            cache.append((np.array([turned(norm(row, name + "attn_k_norm"), position, base) for row in k]), v))
            seen = cache if whole else cache[-hyper.window :]
            mixed = []
            for head, row in enumerate((w(name + "attn_q") @ h).reshape(hyper.n_head, -1)):
                q, kv = turned(norm(row, name + "attn_q_norm"), position, base), head * hyper.n_head_kv // hyper.n_head
                p = np.exp([q @ keys[kv] / math.sqrt(hyper.head_dim) for keys, _ in seen])
                mixed.append(sum(weight * values[kv] for weight, (_, values) in zip(p / p.sum(), seen, strict=True)))
            x = x + norm(w(name + "attn_output") @ np.concatenate(mixed), name + "post_attention_norm")
            h = norm(x, name + "ffn_norm")
            gate = w(name + "ffn_gate") @ h
            gate = gate * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
            x = x + norm(w(name + "ffn_down") @ (gate * (w(name + "ffn_up") @ h)), name + "post_ffw_norm")
        states.append(norm(x, "output_norm"))
    logits = np.array(states[:-1]) @ w("token_embd").T
    right = logits[np.arange(len(tokens) - 1), tokens[1:]]
    return np.array(states), float(np.mean(np.log(np.exp(logits).sum(axis=1)) - right))


def silent(stage: str, done: int, total: int) -> None:
    assert 0 <= done <= total


#: FP32 operations in a row from an embedding to the last state: in each layer the sums of six products and
#: five norms, and the fixed steps between them. The layers are norms, which do not amplify a random model.
STEPS = SMALL.n_layer * (6 * (SMALL.n_head * SMALL.head_dim) + 5 * SMALL.n_embd + 50)


@settings(deadline=None, max_examples=20)
@given(seeds, st.lists(st.integers(0, VOCABULARY - 1), min_size=2, max_size=9))
def test_the_whole_pass_is_gemma(seed: int, tokens: list[int]) -> None:
    weights, ids = SmallWeights(seed), np.array(tokens)
    want, want_loss = one_token_at_a_time(weights, ids)
    got, _ = hidden_states(weights, ids, (), silent)
    agree(got, want, STEPS)
    # A logit is a state times an embedding row: an error of the states moves it by at most that times the row's sum.
    moved = np.abs(weights.tensor("token_embd.weight")).sum(axis=1).max() * np.abs(want).max()
    assert abs(loss_per_token(weights, got, ids, silent) - want_loss) <= 2 * moved * rounding(STEPS + SMALL.n_embd)


@pytest.mark.parametrize("at_once", [1, 27, 81, 10**6])
def test_the_loss_does_not_depend_on_the_chunk(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    weights, ids = SmallWeights(5), np.arange(9)
    hidden, _ = hidden_states(weights, ids, (), silent)
    whole = loss_per_token(weights, hidden, ids, silent)
    monkeypatch.setattr(forward, "LOGITS_AT_ONCE", at_once)
    assert abs(loss_per_token(weights, hidden, ids, silent) - whole) <= rounding(SMALL.n_embd + 4) * whole


def test_a_later_token_changes_nothing_before_it() -> None:
    weights = SmallWeights(9)
    one, _ = hidden_states(weights, np.array([1, 2, 3, 4, 5]), (), silent)
    other, _ = hidden_states(weights, np.array([1, 2, 3, 9, 5]), (), silent)
    assert np.array_equal(one[:3], other[:3])
    assert not np.array_equal(one[3:], other[3:])


def test_only_the_asked_layers_are_kept_as_attention_reads_them() -> None:
    weights = SmallWeights(4)
    _, kept = hidden_states(weights, np.arange(7), (0, 2), silent)
    assert sorted(kept) == [0, 2]
    x = weights.tensor("token_embd.weight")[:7] * np.float32(math.sqrt(SMALL.n_embd))
    h = rms_norm(x, weights.tensor("blk.0.attn_norm.weight"), SMALL.rms_epsilon)
    k = (h @ weights.tensor("blk.0.attn_k.weight").T).reshape(7, 2, 6)
    k = rms_norm(k, weights.tensor("blk.0.attn_k_norm.weight"), SMALL.rms_epsilon)
    assert np.array_equal(kept[0].k, rope(k, np.arange(7), SMALL.rope_base_local))
    assert np.array_equal(kept[0].v, (h @ weights.tensor("blk.0.attn_v.weight").T).reshape(7, 2, 6))
    assert kept[2].q.shape == (7, 4, 6)
