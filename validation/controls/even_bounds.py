"""Controls of derived bounds: elements that are copies of one another have one bound, which grows as the data does.

A factor on the bound of one query, head, dim, token, rank, row or column changes no verdict of a sound kernel. So
inputs are made in which all of them are alike, and their bounds must be too, to the rounding of their evaluation. One
that is wrong of all elements is seen by the ledger, unless it is a term that does not follow the data: so all data is
taken a power of two as large, and its bounds must be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

import numpy as np

from strata.executors.lanes import RULES
from strata.kernels.paths import PATHS, Path
from strata.kernels.pool import HEAD_DIM
from validation.controls.local_bounds import scorers
from validation.core.arrays import frozen
from validation.core.control import Control
from validation.core.memo import Memo
from validation.core.stub_executor import StubExecutor
from validation.numerics.roundoff import WIDENED
from validation.operations.attention import bound as path_bound
from validation.operations.attention import pools
from validation.operations.attention.kernels import ATTENTION
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
from validation.operations.experts import bound_decode as decode_bounds
from validation.operations.experts import expected
from validation.operations.experts import reference as expert_reference
from validation.operations.experts import reference_decode as decode_reference
from validation.operations.experts.arithmetic import DECODE, FUSED, MMQ, Arithmetic
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import Inputs as Routed
from validation.operations.experts.inputs import Matrices
from validation.operations.experts.inputs import build as build_experts
from validation.operations.experts.reference import Weights
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

EVEN, GROWS = "alike", "grows with the data"
#: Data becomes so many times as large.
_LARGER = 2.0**3
_CASE = Case("signed_decades", 5, 41, 2, 4, n_head_kv=2, group=4)
_ROUTED = ExpertCase("experts_decades", 5, 3, 2, 1, 256, 256)
_LANES = StubExecutor()
_RULE = RULES["sm_90"]
_NORMED = (("x", (3, 132)), ("weight", (132,)), ("residual", (3, 132)))


def _alike(*bounds: np.ndarray) -> str:
    """Whether all elements of an array have one bound, of each array."""
    for bound in bounds:
        low, high = float(bound.min()), float(bound.max())
        if not 0 < low <= high <= low * WIDENED:
            return f"from {low:.4g} to {high:.4g}"
    return EVEN


def _grown(bound: np.ndarray, of_larger: np.ndarray) -> str:
    due = bound * _LARGER
    return GROWS if (np.abs(of_larger - due) <= (WIDENED - 1) * due).all() else "does not"


def _copies(x: np.ndarray, *axes: int) -> np.ndarray:
    """What is first on some axes, in every place of them."""
    for axis in axes:
        x = np.broadcast_to(np.take(x, [0], axis=axis), x.shape)
    return np.ascontiguousarray(x)


@cache
def _attention_inputs(mode: str) -> Inputs:
    """Queries, heads and dims of V that are copies of one another."""
    inputs = pools.build(_CASE, mode)
    pool = inputs.pool
    v = pool.v
    if v.dtype == np.uint8:  # blocks of a scale and two codes a byte
        blocks = _copies(v.reshape(*v.shape[:-1], 8, 18), -2).copy()
        blocks[..., 2:] = 0x11 * (blocks[..., 2:3] & 15)
        v = blocks.reshape(v.shape)
    else:
        v = _copies(v, -1)
    k_scale, v_scale = (None if one is None else _copies(one, 1) for one in (pool.k_scale, pool.v_scale))
    even = replace(
        pool,
        k=_copies(pool.k, 1),
        v=_copies(v, 1),
        k_scale=k_scale,
        v_scale=None if v_scale is None else _copies(v_scale, -1),
    )
    # The last query is the widest.
    q, ids, steps, widths = (x[::-1] for x in (inputs.q, inputs.ids, inputs.steps, inputs.widths))
    return frozen(Inputs(_copies(q, 0, 1), even, _copies(ids, 0), _copies(steps, 0), _copies(widths, 0)))


def _attention_bounds(path: Path, inputs: Inputs) -> tuple[np.ndarray, ...]:
    """As a case has them."""
    reference = attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, np.arange(len(inputs.q)))
    limits = path_bound.limits(path, inputs, reference, _LANES, Memo(), path.mode)
    return tuple(one for one in (*limits, path_bound.bound(path, inputs, reference, _LANES)) if one is not None)


def _attention(path: Path) -> str:
    return _alike(*_attention_bounds(path, _attention_inputs(path.mode)))


def _attention_grows(path: Path) -> str:
    inputs = pools.build(replace(_CASE, queries=1), path.mode)
    pool = inputs.pool
    with np.errstate(invalid="ignore"):  # poison
        larger = replace(inputs, pool=replace(pool, v=pool.v * np.float16(_LARGER)))
    pairs = zip(*(_attention_bounds(path, one) for one in (inputs, larger)), strict=True)
    said = {_grown(*pair) for pair in pairs}
    return ", ".join(sorted(said))


def _rotation_rows() -> np.ndarray:
    return _copies(_CASE.stream("k").normals((3, HEAD_DIM), 0), 0)


def _rotation() -> str:
    x = _rotation_rows()
    return _alike(np.broadcast_to(pack_bounds.hadamard(x), x.shape))


def _rotation_grows() -> str:
    x = _rotation_rows()
    return _grown(*(pack_bounds.hadamard(one) for one in (x, x * np.float32(_LARGER))))


def _router(recipe: str) -> np.ndarray:
    x = _copies(logits(ExpertCase(recipe, 5, 4, 40, 5, 256, 64)), 0)
    return router_bounds.weights(router_reference.route(x, 5), 40)


def _router_weights() -> str:
    """Of equal logits all weights are equal."""
    return _alike(_router("router_equal"))


def _router_tokens() -> str:
    """Weights that differ, of tokens that do not."""
    return _alike(*_router("router_bell").T)


def _sums() -> tuple[np.ndarray, ...]:
    """Rows, weights, shared row and gate: tokens and columns that are copies of one another."""
    data = sums(ExpertCase("combine_decades", 5, 4, 8, 3, 256, 64)).tokens(np.array([1, 1, 1]))
    assert data.shared is not None
    assert data.gate is not None
    return _copies(data.rows, -1), data.weights, _copies(data.shared, -1), data.gate


def _combine() -> str:
    return _alike(combine_bounds.rows(*_sums()))


def _combine_ranks() -> str:
    """A sum knows no order of its ranks."""
    rows, weights, _, _ = _sums()
    orders = [np.roll(np.arange(weights.shape[1]), turn) for turn in range(weights.shape[1])]
    return _alike(np.stack([combine_bounds.rows(rows[:, order], weights[:, order]) for order in orders]))


def _combine_grows() -> str:
    rows, weights, shared, gate = _sums()
    larger = np.float32(_LARGER)
    pairs = ((rows, weights, shared, gate), (rows * larger, weights, shared * larger, gate))
    return _grown(*(combine_bounds.rows(*one) for one in pairs))


def _normed(residual: bool) -> str:
    """Rows and columns that are copies of one another."""
    x = _copies(_CASE.stream("x").normals((3, 132)), 0, 1)
    weight = np.full(132, np.float32(1.5))
    return _alike(norm_bounds.norm(x, weight, x if residual else None, 2.0**-20))


def _normed_grows() -> str:
    """With the weights, and with the residual besides."""
    stream, larger = _CASE.stream("norm"), np.float32(_LARGER)
    x, weight, residual = (stream.child(name).normals(shape) for name, shape in _NORMED)
    bounds = [norm_bounds.norm(x, weight * one, residual * one, 2.0**-20) for one in (np.float32(1), larger)]
    return _grown(*bounds)


def _element_bound(name: str, *arrays: np.ndarray) -> np.ndarray:
    if name == "softcap":
        return element_bounds.softcap(arrays[0], 30.0)
    if name == "residual":
        return element_bounds.residual(*arrays)
    return element_bounds.gated(name, *arrays)


def _elements(name: str) -> str:
    return _alike(_element_bound(name, np.full((3, 5), np.float32(1.25)), np.full((3, 5), np.float32(-3))))


def _elements_grow(name: str) -> str:
    """Of a sum with both operands, of an activation with its ups; of soft capping with its cap and values."""
    stream, larger = _CASE.stream("elements"), np.float32(_LARGER)
    a, b = (stream.child(one).normals((3, 5)) for one in ("a", "b"))
    if name == "softcap":
        return _grown(element_bounds.softcap(a, 1.0), element_bounds.softcap(a * larger, _LARGER))
    grown = (a * larger if name == "residual" else a, b * larger)
    return _grown(_element_bound(name, a, b), _element_bound(name, *grown))


def _rows_alike(w: Weights) -> Weights:
    return Weights(_copies(w.q, 0), _copies(w.scale, 0))


@cache
def _experts() -> tuple[Matrices, np.ndarray]:
    """An expert all of whose rows of a matrix are copies of one another, and what codes of such tokens stand for."""
    data = build_experts(_ROUTED, "iq3_xxs/iq4_nl")
    made = Matrices(*(_rows_alike(one) for one in data.matrices(0)))
    return frozen((made, expert_reference.values(expert_reference.quantise(_copies(data.x, 0)))))


def _products() -> str:
    made, x = _experts()
    return _alike(*(expert_bounds.product(one, x).bound for one in (made.gate, made.up)))


def _products_grow() -> str:
    made, x = _experts()
    return _grown(*(expert_bounds.product(made.gate, one).bound for one in (x, x * _LARGER)))


def _hidden() -> str:
    made, x = _experts()
    gate, up = (expert_bounds.product(one, x) for one in (made.gate, made.up))
    return _alike(expert_bounds.swiglu(gate.value, up.value).bound, expert_bounds.hidden(gate, up).bound)


def _codes() -> str:
    """The smallest and largest allowed codes and scales, of both arithmetics."""
    made, x = _experts()
    h = expert_bounds.hidden(*(expert_bounds.product(one, x) for one in (made.gate, made.up)))
    both = expert_bounds.codes(h), decode_bounds.codes(h)
    return _alike(
        *(side for one in both for side in (one.scale_low, one.scale_high)),
        *(np.abs(side) for one in both for side in (one.low, one.high, one.nearest)),
    )


def _path() -> str:
    made, x = _experts()
    return _alike(expert_bounds.path(*made, x).bound)


@cache
def _routed() -> Routed:
    """Inputs of which all rows of a matrix have the same bytes, and all tokens are one."""
    data = build_experts(_ROUTED, "iq3_xxs/iq4_nl")
    gate, up, down = data.parts(0)
    rows = [_copies(part.reshape(count, -1), 0) for part, count in ((gate, data.ff), (up, data.ff), (down, data.n))]
    blob = np.concatenate([one.reshape(-1) for one in rows])
    even = replace(data, blobs=np.stack([blob] * data.experts), x=_copies(data.x, 0), ids=np.zeros_like(data.ids))
    return frozen(even)


def _model(arithmetic: Arithmetic) -> str:
    """As a case has them, of the pairs of several tokens: of the whole and of every step."""
    data = _routed()
    pairs = np.arange(data.pairs)
    bits = expected.bits(data, pairs, arithmetic)
    steps = expected.steps(data, pairs, bits.gate, bits.up, bits.h, arithmetic)
    whole = expected.model(data, pairs, arithmetic)
    return _alike(whole.rounded.bound, steps.gate.bound, steps.up.bound, steps.down.bound)


def _decode_products() -> str:
    data = build_experts(_ROUTED, "iq3_xxs/iq4_nl")
    found = decode_reference.matrix(data.gate_up, data.parts(0)[0], data.ff)
    w = replace(found, q=_copies(found.q, 0), d=_copies(found.d, 0), level=_copies(found.level, 0))
    return _alike(decode_bounds.product(w, decode_reference.quantise(_copies(data.x, 0))).bound)


def _selection(path: Path) -> tuple[np.ndarray, ...]:
    """Queries and keys that are copies of one another, and both a power of two as large."""
    data = build_selection(SelectCase("select_bell", 5, 21, 3))
    q, keys = _copies(data.q, 0), _copies(data.keys, 0)
    larger = q * np.float32(_LARGER)
    return tuple(selection_bounds.limits(path, one, keys, _RULE).both for one in (q, larger))


def _scores(path: Path) -> str:
    return _alike(*_selection(path))


def _scores_grow(path: Path) -> str:
    return _grown(*_selection(path))


def _linear(mode: str) -> tuple[np.ndarray, ...]:
    """Rows and outputs that are copies of one another, and rows a power of two as large."""
    data = build_products(LinearCase("linear_bell", 5, 3, 4, 512), mode)
    w, x = linear_reference.exact(mode, _copies(data.matrix, 0)), _copies(data.x, 0)
    return tuple(linear_bounds.limits(mode, w, one).bound for one in (x, x * np.float32(_LARGER)))


def _linear_even(mode: str) -> str:
    return _alike(*_linear(mode))


def _linear_grows(mode: str) -> str:
    return _grown(*_linear(mode))


@cache
def _turned() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, heads and dims of both halves that are copies of one another, and such tables."""
    data = rope_inputs.build(RopeCase("rope_decades", 5, 3, 2, 16, 1))
    at = data.positions
    return frozen((_copies(data.x, 0, 1, 2), _copies(data.cos[at], 0, 1), _copies(data.sin[at], 0, 1)))


def _rope() -> str:
    return _alike(*(rope_bounds.turned(*_turned(), rounded) for rounded in (False, True)))


def _rope_grows() -> str:
    """Of tables that are exact: the rounding of a subnormal cosine does not grow."""
    x, cos, sin = _turned()
    return _grown(*(rope_bounds.turned(one, cos, sin, False) for one in (x, x * np.float32(_LARGER))))


def _embeddings() -> np.ndarray:
    data = embedding_inputs.build(EmbeddingCase("embedding_bell", 5, 3, 64, 9), "q5_1")
    return _copies(embedding_reference.embed(data.mode, data.matrix[data.ids], float(data.factor)), 0, 1)


def _embedding() -> str:
    return _alike(*(embedding_bounds.embedded(_embeddings(), offset) for offset in (False, True)))


def _embedding_grows() -> str:
    return _grown(*(embedding_bounds.embedded(_embeddings() * by, True) for by in (1, _LARGER)))


def even() -> Iterator[Control]:
    """Bounds of every operation, over all their elements at once."""
    for name, path in PATHS.items():
        if path.operation in ATTENTION:
            yield Control(f"even/{name}", partial(_attention, path), EVEN)
            if path.mode == "fp16" and path.baseline:
                yield Control(f"even/{name}: larger V", partial(_attention_grows, path), GROWS)
    for name in scorers():
        yield Control(f"even/{name}", partial(_scores, PATHS[name]), EVEN)
        yield Control(f"even/{name}: larger queries", partial(_scores_grow, PATHS[name]), GROWS)
    rows: tuple[tuple[str, Callable[[], str], str], ...] = (
        ("rotation", _rotation, EVEN),
        ("rotation: larger rows", _rotation_grows, GROWS),
        ("router", _router_weights, EVEN),
        ("router: tokens", _router_tokens, EVEN),
        ("combine", _combine, EVEN),
        ("combine: ranks in another order", _combine_ranks, EVEN),
        ("combine: larger rows", _combine_grows, GROWS),
        ("rms_norm", partial(_normed, False), EVEN),
        ("rms_norm: with a residual", partial(_normed, True), EVEN),
        ("rms_norm: larger weights", _normed_grows, GROWS),
        ("rope", _rope, EVEN),
        ("rope: larger heads", _rope_grows, GROWS),
        ("embedding", _embedding, EVEN),
        ("embedding: larger factors", _embedding_grows, GROWS),
        ("experts: products", _products, EVEN),
        ("experts: products of larger tokens", _products_grow, GROWS),
        ("experts: hidden", _hidden, EVEN),
        ("experts: codes", _codes, EVEN),
        ("experts: path", _path, EVEN),
        ("experts of decode: products", _decode_products, EVEN),
    )
    for mode in ("q4_k", "f16"):
        yield Control(f"even/linear of {mode}", partial(_linear_even, mode), EVEN)
        yield Control(f"even/linear of {mode}: larger rows", partial(_linear_grows, mode), GROWS)
    for one in ("gelu_tanh", "swiglu", "softcap", "residual"):
        yield Control(f"even/{one}", partial(_elements, one), EVEN)
        yield Control(f"even/{one}: larger", partial(_elements_grow, one), GROWS)
    for name, arithmetic in (("expert_fused", FUSED), ("expert_mmq", MMQ), ("expert_decode", DECODE)):
        yield Control(f"even/{name}", partial(_model, arithmetic), EVEN)
    for what, ask, due in rows:
        yield Control(f"even/{what}", ask, due)
