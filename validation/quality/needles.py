"""Needles: prompts in which a key and its answer are hidden, at any depth, and asked for at the end.

Around them stand other keys with other answers, which must not be taken for them, and fillers. All are drawn by a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strata.engine.forward import LostValuesError
from strata.executors.base import StrataError
from validation.quality.needle_model import ANSWERS, FILLERS, KEYS, SIZES

Int64 = NDArray[np.int64]
#: Logits behind the last token of a prompt, [vocabulary].
Answering = Callable[[Int64], NDArray[np.floating]]

LENGTHS = (2048, 8192, 32_000)
#: Of lanes, which need seconds for what a card does in milliseconds.
SHORT_LENGTHS = (64, 160, 384)
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
#: Other keys with other answers in a prompt, and the shortest prompt that has room for them.
OTHERS = 3
SHORTEST = 32


@dataclass(frozen=True)
class Needle:
    """A prompt.

    Parameters
    ----------
    depth
        Where the key stands: 0 is the prompt's start, 1 its end.
    tokens
        int64 [length]; the last one is the key.
    answer
        The token that follows the key inside.
    """

    depth: float
    tokens: Int64
    answer: int


@dataclass(frozen=True)
class Found:
    """What came of a needle. answer: the token of the largest logit, None where the engine gave none that is finite;
    refusal: what it said then."""

    length: int
    depth: float
    expected: int
    answer: int | None
    refusal: str = ""

    @property
    def right(self) -> bool:
        """Whether the answer is the expected one."""
        return self.answer == self.expected


def needle(seed: int, length: int, depth: float) -> Needle:
    """A prompt. Raises StrataError for a length without room, or beyond the model's context."""
    if not SHORTEST <= length <= SIZES.context:
        raise StrataError(f"a needle's prompt of {length} tokens, expected {SHORTEST} to {SIZES.context}")
    random = np.random.default_rng([seed, length, round(100 * depth)])
    tokens = random.choice(FILLERS, length)
    keys = random.permutation(KEYS)[: OTHERS + 1]
    answers = random.permutation(ANSWERS)[: OTHERS + 1]
    # Never at the start: the first token has none before it and takes itself for that, so it would answer with itself.
    at = 1 + round(depth * (length - 4))
    # Pairs never touch: places are drawn on a grid of two cells that leaves the needle's own out.
    free = [place for place in range(1, length - 3, 2) if abs(place - at) > 2]
    for place, key, answer in zip(random.permutation(free)[:OTHERS], keys[1:], answers[1:], strict=True):
        tokens[place], tokens[place + 1] = key, answer
    tokens[at], tokens[at + 1], tokens[-1] = keys[0], answers[0], keys[0]
    return Needle(depth, tokens.astype(np.int64), int(answers[0]))


def needles(seed: int, lengths: Sequence[int], depths: Sequence[float] = DEPTHS) -> list[Needle]:
    """Every length at every depth."""
    return [needle(seed, length, depth) for length in lengths for depth in depths]


def asked(answering: Answering, one: Needle) -> Found:
    """What a model answers. A refusal, or a logit that is not finite, is no answer."""
    try:
        logits = answering(one.tokens)
    except LostValuesError as error:
        return Found(len(one.tokens), one.depth, one.answer, None, str(error))
    if not np.isfinite(logits).all():
        return Found(len(one.tokens), one.depth, one.answer, None, "logits that are not finite")
    return Found(len(one.tokens), one.depth, one.answer, int(np.argmax(logits)))
