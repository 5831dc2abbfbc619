"""The laws as equalities. Each function returns what differs, a line each; nothing is a pass."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strata.engine.engine import Engine, TokenSequence
from validation.engine_laws.cuts import Cut

#: Tokens that each request of `repeated` generates.
GENERATED = 4
#: Called with a stage's name, the positions done and the positions in all.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Truth:
    """What every way of cutting the work must give.

    Parameters
    ----------
    tokens
        The prompt.
    digests
        SHA-256 of the logits behind each token.
    kv
        Keys and values of all tokens, see `TokenSequence.kv_bytes`.
    """

    tokens: tuple[int, ...]
    digests: tuple[str, ...]
    kv: tuple[np.ndarray, ...]


def digest(row: np.ndarray) -> str:
    """SHA-256 of the bytes of one position's logits, low byte first."""
    return hashlib.sha256(np.ascontiguousarray(row, dtype="<f4").tobytes()).hexdigest()


def digests(
    engine: Engine, tokens: Sequence[int], chunks: Sequence[int] | None, progress: Progress, stage: str
) -> tuple[str, ...]:
    """Digests of the logits of every position, cut in one way."""
    found: list[str] = []
    for first, rows in engine.logits(tokens, chunks):
        assert first == len(found)
        found += map(digest, rows)
        progress(stage, len(found), len(tokens))
    return tuple(found)


def truth(engine: Engine, tokens: Sequence[int], progress: Progress, kv: bool = True) -> Truth:
    """What one way of cutting the work gives, which all others are compared with. kv: whether keys and values are asked
    for, which takes the prompt once more."""
    every = digests(engine, tokens, None, progress, "every position")
    if not kv:
        return Truth(tuple(tokens), every, ())
    engine.forget()
    with engine.sequence() as sequence:
        sequence.prefill(tokens)
        return Truth(tuple(tokens), every, tuple(sequence.kv_bytes()))


def chunked(engine: Engine, known: Truth, ways: Mapping[str, Sequence[int]], progress: Progress) -> Iterator[str]:
    """E1: the logits of every position, whatever the sizes of the chunks are."""
    for name, chunks in ways.items():
        found = digests(engine, known.tokens, chunks, progress, name)
        wrong = [place for place, (one, other) in enumerate(zip(found, known.digests, strict=True)) if one != other]
        if wrong:
            yield f"cut {name}: logits of {len(wrong)} positions differ, the first one {wrong[0]}"


def cut(engine: Engine, known: Truth, way: Cut) -> Iterator[str]:
    """E1 and E2: chunks, calls, decoding, shared prefixes, neighbours and page layouts in one piece of work."""
    order = list(range(engine.pages.count))
    random.Random(way.layout).shuffle(order)
    engine.forget(order)
    tokens = known.tokens[: way.tokens]
    if way.unrelated:
        with engine.sequence() as unrelated:
            unrelated.prefill(known.tokens[: way.unrelated][::-1])
    if way.shared:
        with engine.sequence() as earlier:
            earlier.prefill(known.tokens[: way.shared])
    with engine.sequence() as sequence, engine.sequence() as other:
        for called, count in enumerate(way.calls):
            if way.neighbour:
                other.prefill([tokens[-1 - called % len(tokens)]] * way.neighbour)
            yield from _compared(known, sequence, way, sequence.prefill(tokens[len(sequence) :][:count], way.chunks))
        for token in tokens[len(sequence) :]:
            yield from _compared(known, sequence, way, sequence.decode(token))
        for place, (one, expected) in enumerate(zip(sequence.kv_bytes(), known.kv, strict=True)):
            if not np.array_equal(one, expected[: way.tokens]):
                yield f"cut {way}: bytes of keys and values, plane {place}, differ"


def _compared(known: Truth, sequence: TokenSequence, way: Cut, logits: np.ndarray) -> Iterator[str]:
    position = len(sequence) - 1
    if digest(logits) != known.digests[position]:
        yield f"cut {way}: logits of position {position} differ"


def repeated(engine: Engine, prompts: Sequence[Sequence[int]], draw: random.Random, orders: int) -> Iterator[str]:
    """E4: every request gives the same tokens and logits, in whatever order requests come and however they mix."""
    expected = [_answer(engine, prompt) for prompt in prompts]
    for _ in range(orders):
        order = draw.sample(range(len(prompts)), len(prompts))
        for which in order:
            if _answer(engine, prompts[which]) != expected[which]:
                yield f"request {which} in the order {order}: its answer differs"
        sequences = [engine.sequence() for _ in prompts]
        answers: list[list[str]] = [[] for _ in prompts]
        chosen: list[int | None] = [None] * len(prompts)
        for which in draw.sample([*range(len(prompts))] * (GENERATED + 1), len(prompts) * (GENERATED + 1)):
            token, sequence = chosen[which], sequences[which]
            logits = sequence.prefill(prompts[which]) if token is None else sequence.decode(token)
            chosen[which] = int(logits.argmax())
            answers[which].append(digest(logits))
        for which, sequence in enumerate(sequences):
            sequence.close()
            if answers[which] != expected[which]:
                yield f"request {which} with its steps among those of others: its answer differs"


def _answer(engine: Engine, prompt: Sequence[int]) -> list[str]:
    """Digests of the logits of a greedy answer: equal logits choose equal tokens."""
    engine.start()
    logits = engine.prefill(prompt)
    found = [digest(logits)]
    for _ in range(GENERATED):
        logits = engine.decode(int(logits.argmax()))
        found.append(digest(logits))
    engine.close()
    return found
