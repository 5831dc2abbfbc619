"""SentencePiece BPE as a GGUF file stores it: pieces, scores, byte fallback.

Text is cut at user-defined pieces (runs of spaces and newlines, HTML tags), leftmost and longest first.
Between them the characters, a space written as U+2581, are merged pair by pair: the pair whose joined
piece has the highest score first, the leftmost of equals. A character that ends up in no piece becomes the
pieces of its UTF-8 bytes. No normalisation, no space put in front: what Gemma's tokenizer was trained with.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

SPACE = "\u2581"


class PieceType(IntEnum):
    """What a piece is; the numbers are those of `tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Vocabulary:
    """The pieces of a model, their scores and types (three sequences of one length), and its first token."""

    pieces: Sequence[str]
    scores: Sequence[float]
    types: Sequence[int]
    bos: int
    unknown: int


class Tokenizer:
    """Text to token ids and back.

    `decode(encode(text)) == text` for text without lone surrogates and without U+2581 (which reads back as a
    space), given a vocabulary with a piece for U+2581 and one for every byte, as Gemma's is.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._merges: dict[str, tuple[float, int]] = {}
        self._bytes: dict[int, int] = {}
        user_defined: dict[str, int] = {}
        rows = zip(vocabulary.pieces, vocabulary.scores, vocabulary.types, strict=True)
        for token, (piece, score, kind) in enumerate(rows):
            if kind == PieceType.NORMAL:
                self._merges[piece] = (score, token)
            elif kind == PieceType.USER_DEFINED:
                user_defined[piece] = token
            elif kind == PieceType.BYTE:
                self._bytes[int(piece[1:-1], 16)] = token
        self._user_defined = user_defined
        longest_first = sorted(user_defined, key=len, reverse=True)
        self._cut = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None

    def encode(self, text: str) -> Iterator[int]:
        """Token ids of `text`, the first one `bos`; lazily, so a caller may stop after as many as it needs."""
        yield self._vocabulary.bos
        for part in self._cut.split(text) if self._cut else [text]:
            if part in self._user_defined:
                yield self._user_defined[part]
            elif part:
                yield from self._merge(part.replace(" ", SPACE))

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of `tokens`. Control pieces have none; bytes that are no UTF-8 become U+FFFD."""
        out = bytearray()
        for token in tokens:
            piece, kind = self._vocabulary.pieces[token], self._vocabulary.types[token]
            if kind == PieceType.BYTE:
                out.append(int(piece[1:-1], 16))
            elif kind == PieceType.USER_DEFINED:
                out += piece.encode()
            elif kind == PieceType.NORMAL:
                out += piece.replace(SPACE, " ").encode()
        return out.decode("utf-8", errors="replace")

    def _merge(self, part: str) -> Iterator[int]:
        """Merge the characters of `part`. Symbols form a list linked by index; a symbol swallowed by its left
        neighbour becomes empty, and a queued pair whose text has changed since is stale."""
        symbols = list(part)
        after = [*range(1, len(symbols)), -1]
        before = list(range(-1, len(symbols) - 1))
        queue: list[tuple[float, int, str]] = []

        def offer(left: int) -> None:
            if left >= 0 and after[left] >= 0:
                joined = symbols[left] + symbols[after[left]]
                if joined in self._merges:
                    heapq.heappush(queue, (-self._merges[joined][0], left, joined))

        for left in range(len(symbols)):
            offer(left)
        while queue:
            _, left, joined = heapq.heappop(queue)
            right = after[left]
            if not symbols[left] or right < 0 or symbols[left] + symbols[right] != joined:
                continue
            symbols[left], symbols[right] = joined, ""
            after[left] = after[right]
            if after[right] >= 0:
                before[after[right]] = left
            offer(before[left])
            offer(left)
        for symbol in filter(None, symbols):
            if symbol in self._merges:
                yield self._merges[symbol][1]
            else:
                for byte in symbol.encode():
                    yield self._bytes.get(byte, self._vocabulary.unknown)
