"""One measurement of the engine, in this process: seconds of prompts and of decoding, and how much of them was Python.

Kernels are built and loaded, and the graph of decoding is recorded, by a short prompt and two tokens before anything
is timed. Each prompt is read twice into an empty sequence, of other tokens each time, so that nothing is shared; the
second time counts. Tokens are those of the text, again and again where it is shorter: what a token is changes no time.

The host's share: what passes inside `executor.queue()` before its last launch is queued is the host's, what passes from
there until the card has ended is waiting. A prompt whose host share is small is limited by the card.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from strata.engine.engine import Engine

#: Tokens of the prompt that is read before anything is timed.
WARM = 64


@dataclass
class Host:
    """Seconds that a queue took to be filled, and seconds that the card needed afterwards."""

    filling: float = 0.0
    waiting: float = 0.0

    @contextmanager
    def watching(self, executor: Any) -> Iterator[None]:
        """Count the queues of an executor inside a `with` block."""
        whole = executor.queue

        @contextmanager
        def timed() -> Iterator[None]:
            queue: AbstractContextManager[None] = whole()
            began = time.perf_counter()
            with queue:
                yield
                filled = time.perf_counter()
            self.filling += filled - began
            self.waiting += time.perf_counter() - filled

        executor.queue = timed
        try:
            yield
        finally:
            executor.queue = whole


@dataclass(frozen=True)
class Phase:
    """Seconds of some tokens, and the share of them in which the card had no work because Python was between launches
    or copies.

    Parameters
    ----------
    tokens
        How many.
    seconds
        From the call to its result.
    host
        The share of the seconds in which the host did not wait for the card.
    """

    tokens: int
    seconds: float
    host: float

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


@dataclass(frozen=True)
class Measured:
    """What one process measured.

    Parameters
    ----------
    prompts
        Each prompt's phase.
    decodes
        The phase of the tokens decoded after each of them.
    facts
        What the engine says of itself.
    """

    prompts: Sequence[Phase]
    decodes: Sequence[Phase]
    facts: dict[str, Any] = field(default_factory=dict)


def tokens_of(engine: Engine, text: str, count: int, turn: int) -> np.ndarray:
    """The text's tokens, again and again.

    Parameters
    ----------
    engine
        Whose tokenizer cuts the text.
    text
        The text, of at least `turn` + 2 tokens.
    count
        How many tokens, at least 2.
    turn
        From which token behind the first one on: prompts of different turns share no prefix.

    Returns
    -------
    int32 array [count]
    """
    found = np.fromiter(engine.tokenizer.encode(text), np.int32)
    repeated = np.resize(np.roll(found[1:], -turn), count - 1)
    return np.concatenate([found[:1], repeated]).astype(np.int32)


def measure(
    model: Path, executor: Any, prompts: Sequence[int], decode: int, text: str, options: dict[str, Any]
) -> Measured:
    """Time prompts of some lengths, and decoding after each.

    Parameters
    ----------
    model
        The model file.
    executor
        What it runs on.
    prompts
        Tokens of each prompt.
    decode
        Tokens decoded after each prompt.
    text
        What prompts are made of.
    options
        Of `Engine.open`.
    """
    with Engine.open(model, executor=executor, context=max(prompts) + decode + 1, **options) as engine:
        turns = itertools.count()
        run(engine, tokens_of(engine, text, min(WARM, *prompts), next(turns)), 2, executor)
        read, written = [], []
        for count in prompts:
            run(engine, tokens_of(engine, text, count, next(turns)), 2, executor)
            first, second = run(engine, tokens_of(engine, text, count, next(turns)), decode, executor)
            read.append(first)
            written.append(second)
        return Measured(read, written, engine.facts())


def run(engine: Engine, tokens: np.ndarray, decode: int, executor: Any) -> tuple[Phase, Phase]:
    """A prompt read into an empty sequence, then `decode` tokens, each the likeliest."""
    engine.start()
    read, logits = _timed(executor, lambda: engine.prefill(tokens))
    last = [int(np.argmax(logits))]

    def write() -> None:
        for _ in range(decode):
            last[0] = int(np.argmax(engine.decode(last[0])))

    written, _ = _timed(executor, write)
    return Phase(len(tokens), *read), Phase(decode, *written)


def _timed(executor: Any, call: Callable[[], Any]) -> tuple[tuple[float, float], Any]:
    """Seconds of a call and the host's share of them; what it returned."""
    host = Host()
    with host.watching(executor):
        began = time.perf_counter()
        result = call()
        seconds = time.perf_counter() - began
    return (seconds, max(0.0, 1 - host.waiting / seconds)), result
