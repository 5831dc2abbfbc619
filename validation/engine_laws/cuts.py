"""Ways to cut the work on some tokens: all of them must give the same bits."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Cut:
    """One way.

    Parameters
    ----------
    tokens
        How many tokens of the prompt are read.
    calls
        Tokens of each call of `prefill`, in order; what is left is decoded, token by token.
    chunks
        Sizes of the chunks of each call.
    shared
        How many tokens another sequence has read and let go before, so that full pages of them are shared.
    neighbour
        How many tokens of its own another sequence reads before each call, so that pages and buffers of both mix.
    unrelated
        How many tokens of another prompt a sequence has read and let go before, whose pages are evicted as need be.
    layout
        The seed of the order in which physical pages are given out.
    """

    tokens: int
    calls: tuple[int, ...]
    chunks: tuple[int, ...]
    shared: int
    neighbour: int
    unrelated: int
    layout: int

    def __str__(self) -> str:
        decoded = self.tokens - sum(self.calls)
        return (
            f"{self.tokens} tokens, calls {_joined(self.calls)}, {decoded} decoded, chunks {_joined(self.chunks)}, "
            f"{self.shared} shared, {self.neighbour} of a neighbour, {self.unrelated} unrelated, layout {self.layout}"
        )


def random_cut(draw: random.Random, tokens: int, chunk: int) -> Cut:
    """A way to cut the work, with every number of it random.

    Parameters
    ----------
    draw
        Where its numbers come from.
    tokens
        The most tokens.
    chunk
        The largest chunk.
    """
    count = draw.randint(1, tokens)
    decoded = draw.randint(0, min(3, count - 1)) if draw.random() < 0.3 else 0
    read = count - decoded
    borders = sorted(draw.sample(range(1, read), min(draw.choice((0, 0, 1, 2)), read - 1)))
    calls = tuple(after - before for before, after in zip((0, *borders), (*borders, read), strict=True))
    chunks = tuple(min(chunk, draw.choice((1, 2, 3, 5, 8, 13, 64)) + draw.randint(0, 2)) for _ in range(3))
    return Cut(
        tokens=count,
        calls=calls,
        chunks=(*chunks, chunk),
        shared=draw.randint(0, tokens) if draw.random() < 0.5 else 0,
        neighbour=draw.randint(1, 3) if draw.random() < 0.3 else 0,
        unrelated=draw.randint(1, tokens) if draw.random() < 0.2 else 0,
        layout=draw.getrandbits(32),
    )


def ways(tokens: int, chunk: int) -> dict[str, tuple[int, ...]]:
    """Up to five ways to cut a whole prompt, by name: sizes of chunks, the last one for all that follow. A short prompt
    is cut alike by several, of which one is asked.

    Parameters
    ----------
    tokens
        Tokens of the prompt.
    chunk
        The largest chunk.
    """
    known = {
        "as large as may be": (chunk,),
        "64 at a time": (min(64, chunk),),
        "a prime at a time": (min(251, chunk),),
        "one token, then the rest": (1, chunk),
        "ever larger": tuple(min(size, chunk) for size in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377)),
    }
    asked: dict[tuple[int, ...], str] = {}
    for name, sizes in known.items():
        asked.setdefault(_pieces(tokens, sizes), name)
    return {name: known[name] for name in asked.values()}


def _pieces(tokens: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The chunks that so many tokens are read in."""
    pieces: list[int] = []
    for place in range(tokens):
        if place == sum(pieces):
            pieces.append(min(sizes[min(len(pieces), len(sizes) - 1)], tokens - place))
    return tuple(pieces)


def _joined(numbers: tuple[int, ...]) -> str:
    return "+".join(map(str, numbers)) or "none"
