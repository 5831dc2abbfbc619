"""What fuzzed experts are given: blobs, tokens and ids of any bits, at small sizes.

Scales of blocks and tokens may be infinite, NaN, subnormal or the largest there are; ids name experts twice, or nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from strata.formats import FORMATS
from strata.kernels.experts import EXPERT_MODES
from validation.core.arrays import frozen
from validation.core.fuzz_numbers import NUMBERS, floats, halves
from validation.core.random_streams import Stream
from validation.operations.experts import activations, blobs, random_cases, routing
from validation.operations.experts.inputs import Inputs, mode_formats
from validation.operations.experts.recipes import Routing, Values
from validation.operations.experts.reference import BLOCK

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
    tokens, experts, top, n, ff = random_cases.sizes(words, MOST_WORK[checked])
    scales, values, named = (
        kinds[word % len(kinds)]
        for kinds, word in zip((SCALES, TOKENS, ROUTINGS), words[random_cases.WORDS :], strict=True)
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
    arrays = (made, np.ascontiguousarray(x), np.ascontiguousarray(ids))
    return frozen(Inputs(*mode_formats(what.mode), what.ff, *arrays))
