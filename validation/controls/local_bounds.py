"""Controls of derived bounds: each element's is its own, whatever its neighbours need.

A bound that is the widest of its query, head, token or row is right of that one element and too wide for all others,
and nothing but the ledger would say so. So neighbours are made larger or smaller, and the bounds of all others must
keep every bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from strata.executors.lanes import RULES
from strata.kernels.paths import PATHS, Path
from strata.kernels.registry import taking
from validation.core.arrays import frozen
from validation.core.control import Control
from validation.core.stub_executor import StubExecutor
from validation.operations.attention import bound as path_bound
from validation.operations.attention import pools
from validation.operations.attention.pools import Inputs
from validation.operations.attention.reference import attend
from validation.operations.block_select import bound as selection_bounds
from validation.operations.block_select.case import SelectCase
from validation.operations.block_select.inputs import build as build_selection
from validation.operations.combine import bound as combine_bounds
from validation.operations.combine.inputs import sums
from validation.operations.embedding import bound as embedding_bounds
from validation.operations.embedding import inputs as embedding_inputs
from validation.operations.embedding import reference as embedding_reference
from validation.operations.embedding.case import EmbeddingCase
from validation.operations.experts import bound as expert_bounds
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import build as build_experts
from validation.operations.gated import bound as element_bounds
from validation.operations.kv_pack import bound as pack_bounds
from validation.operations.kv_pack.case import Case
from validation.operations.linear import bound as linear_bounds
from validation.operations.linear import reference as linear_reference
from validation.operations.linear.case import LinearCase
from validation.operations.linear.inputs import build as build_products
from validation.operations.rms_norm import bound as norm_bounds
from validation.operations.rope import bound as rope_bounds
from validation.operations.rope import inputs as rope_inputs
from validation.operations.rope.case import RopeCase
from validation.operations.router import bound as router_bounds
from validation.operations.router import reference as router_reference
from validation.operations.router.inputs import logits

LOCAL = "of its own, neighbours in"
#: Neighbours become so many times as large.
_LARGER = np.float32(2**12)
_CASE = Case("signed_decades", 5, 41, 3, 4, n_head_kv=2, group=4)
_LANES = StubExecutor()
_RULE = RULES["sm_90"]


def scorers() -> list[str]:
    """The paths that score blocks."""
    return [name for name, path in PATHS.items() if path.operation in taking("block_select")]


@cache
def _inputs() -> Inputs:
    """FP16, whose values can be made larger one by one."""
    return frozen(pools.build(_CASE, "fp16"))


def _attention(path: Path, inputs: Inputs, rows: np.ndarray) -> np.ndarray:
    reference = attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, rows)
    return path_bound.bound(path, inputs, reference, _LANES)


def _raised(bounds: np.ndarray, others: np.ndarray, kept: Any, raised: Any) -> str:
    """Whether bounds moved where they had to, and nowhere else."""
    if np.array_equal(bounds[raised], others[raised]):
        return "neighbours have the bounds they had"
    return LOCAL if np.array_equal(bounds[kept], others[kept]) else "neighbours change it"


def _query(path: Path) -> str:
    """One query's q is larger."""
    inputs, every = _inputs(), np.arange(_CASE.queries)
    q = inputs.q.copy()
    q[0] *= _LARGER
    bounds = [_attention(path, one, every) for one in (inputs, replace(inputs, q=q))]
    return _raised(bounds[0], bounds[1], np.s_[1:,], np.s_[:1,])


def _alone(path: Path) -> str:
    """A query by itself."""
    inputs = _inputs()
    last = np.array([_CASE.queries - 1])
    whole = _attention(path, inputs, np.arange(_CASE.queries))
    return LOCAL if np.array_equal(whole[-1:], _attention(path, inputs, last)) else "others change it"


def _head(path: Path) -> str:
    """One head's q is larger."""
    inputs, every = _inputs(), np.arange(_CASE.queries)
    q = inputs.q.copy()
    q[:, 0] *= _LARGER
    bounds = [_attention(path, one, every) for one in (inputs, replace(inputs, q=q))]
    return _raised(bounds[0], bounds[1], np.s_[:, 1:], np.s_[:, :1])


def _dim(path: Path) -> str:
    """Half of the dims of V are smaller, of all cells; the largest is another, whose share every dim of a head has."""
    inputs, every = _inputs(), np.arange(_CASE.queries)
    pools_of = []
    for factor in (1.0, 0.5):
        v = inputs.pool.v.copy()
        v[..., :128] *= np.float16(factor)
        v[..., -1] = np.finfo(np.float16).max
        pools_of.append(replace(inputs.pool, v=v))
    bounds = [_attention(path, replace(inputs, pool=pool), every) for pool in pools_of]
    return _raised(bounds[0], bounds[1], np.s_[..., 128:], np.s_[..., :128])


def _rotation() -> str:
    x = _CASE.stream("k").normals((3, 256), 0)
    other = x.copy()
    other[0] *= _LARGER
    # A bound may be one for a row.
    bounds = [np.broadcast_to(pack_bounds.hadamard(one), x.shape) for one in (x, other)]
    return _raised(bounds[0], bounds[1], np.s_[1:,], np.s_[:1,])


def _router() -> str:
    """Another token's logits lie further apart."""
    x = logits(ExpertCase("router_bell", 5, 4, 40, 5, 256, 64))
    other = x.copy()
    other[0] *= np.float32(4)
    bounds = [router_bounds.weights(router_reference.route(one, 5), 40) for one in (x, other)]
    return _raised(bounds[0], bounds[1], np.s_[1:,], np.s_[:1,])


def _rank() -> str:
    """A weight's share of its own bound falls with the weight: of the largest and the smallest of a token."""
    routed = router_reference.route(logits(ExpertCase("router_bell", 5, 4, 40, 5, 256, 64)), 5)
    bounds = router_bounds.weights(routed, 40)
    return LOCAL if (np.diff(bounds, axis=1) < 0)[np.diff(routed.weights, axis=1) < 0].all() else "ranks share one"


def _combine(axis: int) -> str:
    """Rows of one token, or one column of all, are larger."""
    data = sums(ExpertCase("combine_decades", 5, 4, 8, 3, 256, 64))
    rows = data.rows.copy()
    at: Any = np.s_[:1,] if axis == 0 else np.s_[..., :1]
    rows[at] *= _LARGER
    parts = (data.weights, data.shared, data.gate)
    bounds = [combine_bounds.rows(one, *parts) for one in (data.rows, rows)]
    kept, raised = (np.s_[1:,], np.s_[:1,]) if axis == 0 else (np.s_[:, 1:], np.s_[:, :1])
    return _raised(bounds[0], bounds[1], kept, raised)


def _norm(axis: int) -> str:
    """Another row, or another column's weight, is larger."""
    stream = _CASE.stream("norm")
    x, weight, residual = stream.child("x").normals((4, 12)), stream.child("w").normals(12), stream.normals((4, 12))
    others = x.copy(), weight.copy()
    others[axis][0] *= _LARGER
    bounds = [norm_bounds.norm(*one, residual, 2.0**-20) for one in ((x, weight), (others[0], others[1]))]
    kept, raised = (np.s_[1:,], np.s_[:1,]) if axis == 0 else (np.s_[:, 1:], np.s_[:, :1])
    return _raised(bounds[0], bounds[1], kept, raised)


def _element(name: str, axis: int) -> str:
    """The first operand is larger in another row or another column."""
    stream = _CASE.stream("elements")
    a, b = stream.child("a").normals((4, 5)), stream.child("b").normals((4, 5))
    other = a.copy()
    kept, raised = (np.s_[1:,], np.s_[:1,]) if axis == 0 else (np.s_[:, 1:], np.s_[:, :1])
    other[raised] *= np.float32(2)
    of: Callable[[np.ndarray], np.ndarray] = {
        "softcap": lambda x: element_bounds.softcap(x, 1.0),
        "residual": lambda x: element_bounds.residual(x, b),
    }.get(name, lambda x: element_bounds.gated(name, x, b))
    return _raised(of(a), of(other), kept, raised)


def _expert(axis: int) -> str:
    """Of the whole path: another token is larger. Of a product: another row of weights is."""
    data = build_experts(ExpertCase("experts_decades", 5, 3, 2, 1, 256, 64), "iq3_xxs/iq4_nl")
    gate, up, down = data.matrices(0)
    if axis == 0:
        x = data.x.copy()
        x[0] *= _LARGER
        bounds = [expert_bounds.path(gate, up, down, one).bound for one in (data.x, x)]
        return _raised(bounds[0], bounds[1], np.s_[1:,], np.s_[:1,])
    scale = gate.scale.copy()
    scale[0] *= _LARGER
    bounds = [expert_bounds.product(one, data.x).bound for one in (gate, replace(gate, scale=scale))]
    return _raised(bounds[0], bounds[1], np.s_[:, 1:], np.s_[:, :1])


def _linear(mode: str, axis: int) -> str:
    """Of products: another row, or another output's weights, are larger."""
    data = build_products(LinearCase("linear_decades", 5, 4, 6, 256), mode)
    w, x = linear_reference.exact(mode, data.matrix), data.x.copy()
    other = linear_reference.Exact(w.values.copy(), w.mass.copy())
    for one in (x,) if axis == 0 else other:
        one[0] *= _LARGER
    bounds = [linear_bounds.limits(mode, *one).bound for one in ((w, data.x), (other, x))]
    kept, raised = (np.s_[1:,], np.s_[:1,]) if axis == 0 else (np.s_[:, 1:], np.s_[:, :1])
    return _raised(bounds[0], bounds[1], kept, raised)


def _selection(path: Path, axis: int) -> str:
    """Of scores: another query's heads, or another block's key, are larger."""
    data = build_selection(SelectCase("select_bell", 5, 21, 3))
    q, keys = data.q.copy(), data.keys.copy()
    (q if axis == 0 else keys)[0] *= _LARGER
    bounds = [selection_bounds.limits(path, *one, _RULE).both for one in ((data.q, data.keys), (q, keys))]
    kept, raised = (np.s_[1:,], np.s_[:1,]) if axis == 0 else (np.s_[:, 1:], np.s_[:, :1])
    return _raised(bounds[0], bounds[1], kept, raised)


def _rope(axis: int) -> str:
    """Another row, another head, or another pair of dims is larger."""
    data = rope_inputs.build(RopeCase("rope_decades", 5, 3, 2, 16, 9))
    at, half = data.positions, data.x.shape[2] // 2
    x = data.x.copy()
    pair: Any = (np.s_[:1,], np.s_[:, :1], np.s_[..., ::half])[axis]
    kept: Any = (np.s_[1:,], np.s_[:, 1:], np.s_[..., np.arange(2 * half) % half > 0])[axis]
    x[pair] *= _LARGER
    bounds = [rope_bounds.turned(one, data.cos[at], data.sin[at], True) for one in (data.x, x)]
    return _raised(bounds[0], bounds[1], kept, pair)


def _embedding() -> str:
    """Another value is larger."""
    data = embedding_inputs.build(EmbeddingCase("embedding_bell", 5, 3, 64, 9), "q5_1")
    exact = embedding_reference.embed(data.mode, data.matrix[data.ids], float(data.factor))
    other = exact.copy()
    other[..., :1] *= float(_LARGER)
    bounds = [embedding_bounds.embedded(one, True) for one in (exact, other)]
    return _raised(bounds[0], bounds[1], np.s_[..., 1:], np.s_[..., :1])


def local() -> Iterator[Control]:
    """Bounds of every operation, along every axis along which elements know nothing of one another."""
    for name in ("prompt_attention/fp16/sm80", "prompt_attention/fp16/sm75", "decode_attention/fp16/simt"):
        path = PATHS[name]
        rows: tuple[tuple[str, Callable[[Path], str]], ...] = (
            ("other queries", _query),
            ("a query alone", _alone),
            ("other heads", _head),
            ("other dims", _dim),
        )
        for what, ask in rows:
            yield Control(f"bound/{name}: {what}", partial(ask, path), LOCAL)
    for name in scorers():
        for what, axis in (("other queries", 0), ("other blocks", 1)):
            yield Control(f"bound/{name}: {what}", partial(_selection, PATHS[name], axis), LOCAL)
    others: tuple[tuple[str, Callable[[], str]], ...] = (
        ("rotation: other rows", _rotation),
        ("router: other tokens", _router),
        ("router: other ranks", _rank),
        ("combine: other tokens", partial(_combine, 0)),
        ("combine: other columns", partial(_combine, 1)),
        ("rms_norm: other rows", partial(_norm, 0)),
        ("rms_norm: other columns", partial(_norm, 1)),
        *(
            (f"{name}: other {what}", partial(_element, name, axis))
            for name in ("gelu_tanh", "swiglu", "softcap", "residual")
            for axis, what in enumerate(("rows", "columns"))
        ),
        ("rope: other rows", partial(_rope, 0)),
        ("rope: other heads", partial(_rope, 1)),
        ("rope: other dims", partial(_rope, 2)),
        ("embedding: other values", _embedding),
        ("experts: other tokens", partial(_expert, 0)),
        ("experts: other rows of weights", partial(_expert, 1)),
        ("linear: other rows", partial(_linear, "q4_k", 0)),
        ("linear: other outputs", partial(_linear, "q4_k", 1)),
        ("linear of FP16: other rows", partial(_linear, "f16", 0)),
        ("linear of FP16: other outputs", partial(_linear, "f16", 1)),
    )
    for what, alone in others:
        yield Control(f"bound/{what}", alone, LOCAL)
