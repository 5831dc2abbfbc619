"""Small expert layers for tests of kernels, and the bits that they must give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strata.executors.base import Executor
from strata.kernels import expert_fused
from strata.kernels.experts import Experts, Geometry, Routed, formats_of
from strata.kernels.paths import PATHS
from validation.core.random_streams import Stream
from validation.operations.experts import reference
from validation.operations.experts.blobs import blob
from validation.operations.experts.inputs import decoded
from validation.operations.experts.recipes import Weights


@dataclass(frozen=True)
class Layer:
    """Experts, tokens [tokens, n] and ids [tokens, top]."""

    experts: Experts
    x: np.ndarray
    ids: np.ndarray


def layer(mode: str, tokens: int, experts: int, top: int, n: int = 256, ff: int = 64, seed: int = 1) -> Layer:
    """Random experts with scales of both signs, at addresses that differ modulo 8; ids from one below to one above the
    range; token 1 is zero."""
    gate_up, down = formats_of(mode)
    stream = Stream.of(seed, "small layer", mode, tokens, experts)
    kinds = (Weights.PLAIN, Weights.DECADES)
    blobs = [blob(stream.child("blobs"), kinds[e % 2], e, gate_up, down, n, ff) for e in range(experts)]
    x = ((stream.child("x").below(1 << 16, (tokens, n)) - (1 << 15)) / np.float32(1 << 14)).astype(np.float32)
    x[1:2] = 0
    ids = (stream.child("ids").below(experts + 2, (tokens, top)) - 1).astype(np.int32)
    return Layer(Experts(gate_up, down, Geometry(n, ff), blobs, [2 * (e % 4) for e in range(experts)]), x, ids)


@dataclass(frozen=True)
class Expected:
    """What a layer gives: as in `Routed`."""

    rows: np.ndarray
    gate: np.ndarray
    up: np.ndarray
    h_codes: np.ndarray
    h_scales: np.ndarray


def expected(made: Layer) -> Expected:
    """The bits of the model, expert by expert."""
    experts, ids = made.experts, made.ids
    n, ff, size = experts.geometry.n, experts.geometry.ff, experts.layout
    tokens = reference.quantise(made.x)
    out = Expected(
        np.zeros((*ids.shape, n), np.float32),
        np.zeros((*ids.shape, ff), np.float32),
        np.zeros((*ids.shape, ff), np.float32),
        np.zeros((*ids.shape, ff), np.int8),
        np.zeros((*ids.shape, ff // reference.BLOCK), np.float32),
    )
    for e, data in enumerate(experts.blobs):
        token, rank = np.nonzero(ids == e)
        if not len(token):
            continue
        one = reference.expert(
            decoded(experts.gate_up, data[: size.up], ff),
            decoded(experts.gate_up, data[size.up : size.down], ff),
            decoded(experts.down, data[size.down :], n),
            reference.Codes(tokens.q[token], tokens.scale[token]),
        )
        out.rows[token, rank], out.gate[token, rank], out.up[token, rank] = one.out, one.gate, one.up
        out.h_codes[token, rank], out.h_scales[token, rank] = one.h.q, one.h.scale
    return out


def fused(executor: Executor, made: Layer, tier: int, **options: object) -> Routed:
    """A run of the fused path of a tier."""
    path = PATHS[f"expert_fused/{made.experts.mode}/sm{tier}"]
    return expert_fused.run(executor, path, made.experts, made.x, made.ids, **options)  # type: ignore[arg-type]


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays hold the same bytes."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def differences(got: Routed, want: Expected) -> list[str]:
    """Names of the results that are not the model's, and of what else is wrong with a traced run."""
    assert got.gate is not None
    assert got.up is not None
    assert got.h_codes is not None
    assert got.h_scales is not None
    pairs = {
        "rows": (got.rows, want.rows),
        "gate": (got.gate, want.gate),
        "up": (got.up, want.up),
        "h_codes": (got.h_codes, want.h_codes),
        "h_scales": (got.h_scales, want.h_scales),
    }
    return [name for name, (a, b) in pairs.items() if not same_bits(a, b)] + ([] if got.guards_ok else ["guards"])
