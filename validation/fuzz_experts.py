"""Fuzzed experts: random configurations, each run twice, and every bit compared with the exact model in NumPy.

The two runs have other work shapes, other cuts of experts into launches, other addresses of blobs and another order of
tokens; the second is on lanes, in the checked build under a permuted schedule where the first is on lanes too. Compared
are outputs, gates, ups, codes and scales of h, and what is counted. Scales of blocks and tokens may be any bits:
infinities and NaN, subnormals, the largest there are; ids name experts twice, or nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.executors.lanes import LanesExecutor
from strata.formats import FORMATS
from strata.kernels import expert_decode, expert_fused, expert_mmq
from strata.kernels.experts import Experts, Geometry, place
from strata.kernels.paths import EXPERT_MODES, EXPERTS, Path
from validation.draws import Stream
from validation.experts import activations, blobs, drawn, expected, kernels, routing
from validation.experts.checks import grouped, plain
from validation.experts.inputs import Inputs, mode_formats
from validation.experts.operation import Outcome
from validation.experts.recipes import Routing, Values
from validation.fuzz_compared import Compared
from validation.fuzz_numbers import NUMBERS, floats, halves
from validation.reference.experts import BLOCK, Codes

OPERATIONS = EXPERTS
#: Multiply-adds of a product of all pairs where the checked build, which is slow, runs them too, and elsewhere.
MOST_WORK = {True: 1 << 20, False: 1 << 22}
#: Of scales: `NUMBERS`, and one in so many of these FP16 bits among moderate ones: infinities and NaN of both signs,
#: zeros, the smallest and the largest.
SCALES = (*NUMBERS, "broken")
RARE = 256
BROKEN = (0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0x0000, 0x8000, 0x0001, 0x8001, 0x7BFF, 0xFBFF)
#: Of a token: `NUMBERS`, blocks that have sizes of their own over all of float32, and what recipes have.
RECIPES = (Values.BROKEN, Values.TINY, Values.TIES, Values.ZEROS, Values.DECADES)
TOKENS = (*NUMBERS, "blocks", *(kind.value for kind in RECIPES))
#: The smallest and the largest exponent of a block's values.
EXPONENTS = (-149, 126)
#: Which experts are named: as recipes have it, or `any` int32, three in four of them experts.
ROUTINGS = (*(kind.value for kind in Routing if kind is not Routing.EDGES), "any")
SHAPES = (None, *expert_fused.SHAPES, *kernels.MIXED)
#: A blob lies at an even address; so many of them are tried.
PLACES = 160
SCHEDULES = 8


@dataclass(frozen=True)
class Configuration:
    """Sizes of one draw and what its numbers may be. scales: of blocks, one of `SCALES`; values: of x, of `TOKENS`;
    routing: which experts are named, of `ROUTINGS`."""

    index: int
    mode: str
    scales: str
    values: str
    routing: str
    tokens: int
    experts: int
    top: int
    n: int
    ff: int

    def text(self) -> str:
        return (
            f"#{self.index} {self.mode} scales {self.scales}, tokens {self.values}, routing {self.routing}: "
            f"{self.tokens} tokens x {self.top} of {self.experts} experts, {self.n} x {self.ff}"
        )


def configuration(seed: int, index: int, modes: Sequence[str] = EXPERT_MODES, checked: bool = False) -> Configuration:
    """Configuration `index` of a seed, in one of `modes`; checked: whether it is run in the checked build. A pure
    function of them."""
    words = Stream.of(seed, "fuzz experts", index).words(8).tolist()
    tokens, experts, top, n, ff = drawn.sizes(words, MOST_WORK[checked])
    scales, values, named = (
        kinds[word % len(kinds)] for kinds, word in zip((SCALES, TOKENS, ROUTINGS), words[drawn.WORDS :], strict=True)
    )
    return Configuration(index, modes[index % len(modes)], scales, values, named, tokens, experts, top, n, ff)


def _blob(stream: Stream, what: Configuration, expert: int) -> np.ndarray:
    """uint8: one expert, of random bytes with scales as the configuration has them. Those that are not finite spread to
    all of a row, so of three experts one has them everywhere, one in down alone, and one nowhere."""
    parts = []
    wild = (expert % 3 == 0, expert % 3 != 2)
    for form, rows, k, own in zip(mode_formats(what.mode), (2 * what.ff, what.n), (what.n, what.ff), wild, strict=True):
        made, of = FORMATS[form], stream.child(form)
        count = rows * made.row_bytes(k) // made.nbytes
        data = of.child("bytes").octets((count, made.nbytes)).copy()
        kind = what.scales if own or what.scales == "finite" else "moderate"
        data[:, :2] = _scales(of.child("scales"), (count, 1), kind).view(np.uint8)
        parts.append(data.reshape(-1))
    return np.concatenate(parts)


def _scales(stream: Stream, shape: tuple[int, int], kind: str) -> np.ndarray:
    """float16 scales of blocks."""
    if kind != "broken":
        return halves(stream, shape, kind)
    broken = np.array(BROKEN, np.uint16)[stream.child("which").below(len(BROKEN), shape)].view(np.float16)
    return np.where(stream.child("broken").below(RARE, shape) == 0, broken, halves(stream, shape, "moderate"))


def _tokens(stream: Stream, what: Configuration) -> np.ndarray:
    """float32 [tokens, n]."""
    shape = (what.tokens, what.n)
    if what.values in NUMBERS:
        return floats(stream, shape, what.values)
    if what.values != "blocks":
        return activations.draw(stream, Values(what.values), *shape)
    low, high = EXPONENTS
    most = stream.child("most").below(high - low + 1, (what.tokens, 1))  # else all tokens overflow
    blocks = low + np.minimum(stream.child("exponent").below(high - low + 1, (what.tokens, what.n // BLOCK)), most)
    size = np.repeat(blocks, BLOCK, axis=1).astype(np.int32)
    return np.asarray(np.ldexp(stream.child("value").normals(shape).astype(np.float64), size).astype(np.float32))


def _ids(stream: Stream, what: Configuration) -> np.ndarray:
    """int32 [tokens, top]."""
    if what.routing != "any":
        return routing.draw(stream, Routing(what.routing), what.tokens, what.experts, what.top)
    shape = (what.tokens, what.top)
    wild = stream.child("bits").octets((*shape, 4)).view(np.int32)[..., 0]
    named = stream.child("expert").below(what.experts, shape)
    return np.where(stream.child("wild").below(4, shape) == 0, wild, named).astype(np.int32)


@lru_cache(1)
def draw(seed: int, what: Configuration) -> Inputs:
    """The inputs of a configuration."""
    stream = Stream.of(seed, "fuzz experts", what.index)
    made = np.stack([_blob(stream.child("blob", expert), what, expert) for expert in range(what.experts)])
    assert made.shape[1] == blobs.blob_bytes(*mode_formats(what.mode), what.n, what.ff)
    x, ids = _tokens(stream.child("x"), what), _ids(stream.child("ids"), what)
    return Inputs(*mode_formats(what.mode), what.ff, made, np.ascontiguousarray(x), np.ascontiguousarray(ids))


@lru_cache(3)
def due(seed: int, what: Configuration, operation: str) -> tuple[Inputs, Outcome]:
    """What an operation is given of a configuration, and what it must make of it. One that refuses ids that name
    nobody is given experts' in their place."""
    inputs, how = draw(seed, what), kernels.OPERATIONS[operation]
    if how.refuses_strays:
        ids = np.mod(inputs.ids, what.experts).astype(np.int32)
        inputs = Inputs(inputs.gate_up, inputs.down, inputs.ff, inputs.blobs, inputs.x, ids)
    pairs = np.flatnonzero(inputs.named)
    bits = expected.bits(inputs, pairs, how.arithmetic)

    def spread(rows: np.ndarray) -> np.ndarray:
        out = np.zeros((inputs.pairs, rows.shape[1]), rows.dtype)
        out[pairs] = rows
        return out

    lost = (bits.lost_x, bits.h.lost, int((~np.isfinite(bits.out)).sum()))
    h = Codes(spread(bits.h.q), spread(bits.h.scale))
    rows = [spread(x).reshape(*inputs.ids.shape, -1) for x in (bits.out, bits.gate, bits.up)]
    return inputs, Outcome(rows[0], [], True, inputs.pairs - len(pairs), rows[1], rows[2], h, None, lost)


def _run(executor: Executor, path: Path, inputs: Inputs, stream: Stream) -> Outcome:
    """One run, whose addresses, work shape and cuts a stream draws."""
    places = stream.child("places").below(PLACES, inputs.experts) * 2
    geometry = Geometry(inputs.n, inputs.ff)
    experts = Experts(inputs.gate_up, inputs.down, geometry, list(inputs.blobs), places.tolist())
    held = place(executor, experts)
    if path.operation == "expert_fused":
        shape: Any = SHAPES[int(stream.child("shape").below(len(SHAPES), ()))]
        edges = np.sort(stream.child("cuts").below(inputs.experts + 1, int(stream.child("count").below(4, ()))))
        cuts = list(pairwise([0, *edges.tolist(), inputs.experts]))  # empty ones among them
        ready = expert_fused.prepare(executor, path, held, inputs.x, inputs.ids, shape, cuts, True)
        return kernels.outcome(ready.result(ready.launch()))
    if path.operation == "expert_decode":
        return kernels.outcome(expert_decode.run(executor, path, held, inputs.x, inputs.ids, trace=True))
    together = 1 + int(stream.child("together").below(inputs.experts, ()))
    return kernels.outcome(expert_mmq.run(executor, path, held, inputs.x, inputs.ids, trace=True, together=together))


@lru_cache(SCHEDULES)
def _checked(rule: Any, schedule: int) -> LanesExecutor:
    return LanesExecutor(rule=rule, flavor="checked", seed=schedule)


@lru_cache(1)
def _lanes() -> LanesExecutor:
    return LanesExecutor()


def other(executor: Executor, schedule: int) -> LanesExecutor:
    """Where the second run is made: no rule of a tensor core plays a part."""
    return _checked(executor.rule, schedule) if isinstance(executor, LanesExecutor) else _lanes()


def compare(executor: Executor, seed: int, what: Configuration, path: Path) -> Compared:
    """A path of the configuration's mode, run twice and held against the model."""
    inputs, want = due(seed, what, path.operation)
    stream = Stream.of(seed, "fuzz runs", what.index)
    order = stream.child("order").permutation(what.tokens)
    second = other(executor, 1 + int(stream.child("schedule").below(SCHEDULES, ())))
    turned = inputs.tokens(order)
    one = _run(executor, path, inputs, stream.child("first"))
    two = _run(second, path, turned, stream.child("second"))
    asked = [_differing(inputs, one, want), _differing(turned, two, _turned(want, order, what.top))]
    return Compared(
        what.text(),
        path.name,
        2 * want.out.size,
        sum(count for count, _ in asked),
        int((~np.isfinite(want.out)).sum()),
        one.guards_ok and two.guards_ok,
        "; ".join(f"{name} run: {said}" for name, (_, said) in zip(("first", "second"), asked, strict=True) if said),
        tuple(sorted({witness.arch for witness in one.witnesses})),
    )


def _turned(want: Outcome, order: np.ndarray, top: int) -> Outcome:
    """What is due of tokens in another order."""
    assert want.gate is not None
    assert want.up is not None
    assert want.h is not None
    pairs = (order[:, None] * top + np.arange(top)).reshape(-1)
    h = Codes(want.h.q[pairs], want.h.scale[pairs])
    rows = (want.gate[order], want.up[order])
    return Outcome(want.out[order], [], True, want.ignored, *rows, h, None, want.lost)


def _differing(inputs: Inputs, got: Outcome, want: Outcome) -> tuple[int, str]:
    """How many outputs differ, and in words whatever else does."""
    out, said = _count(got.out, want.out), []
    assert got.h is not None
    assert want.h is not None
    steps = {
        "gates": (got.gate, want.gate),
        "ups": (got.up, want.up),
        "codes of h": (got.h.q, want.h.q),
        "scales of h": (got.h.scale, want.h.scale),
    }
    said = [f"{_count(a, b)} {name} differ" for name, (a, b) in steps.items() if _count(a, b)]
    if got.ignored != want.ignored:
        said.append(f"{got.ignored} pairs ignored, expected {want.ignored}")
    if got.lost != want.lost:
        said.append(f"lost of x, h and outputs {got.lost}, expected {want.lost}")
    if got.grouping is not None and not grouped(inputs, got.grouping).verdict.passes:
        said.append(grouped(inputs, got.grouping).reason)
    return out, ", ".join(said)


def _count(got: np.ndarray | None, want: np.ndarray | None) -> int:
    """How many elements of two arrays differ in a bit; a NaN is as good as another."""
    if got is None or want is None or got.shape != want.shape or got.dtype != want.dtype:
        return 0 if want is None else want.size
    if got.dtype == np.float32:
        got, want = plain(got).view(np.uint32), plain(want).view(np.uint32)
    return int((got != want).sum())
