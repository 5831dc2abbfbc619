"""SentencePiece BPE as a GGUF file stores it: pieces, scores, byte fallback.

Text is cut at user-defined pieces (runs of spaces and newlines, HTML tags), leftmost and longest first.
Between them the characters, a space written as U+2581, are merged pair by pair: the pair whose joined
piece has the highest score first, the leftmost of equals. A character that ends up in no piece becomes the
pieces of its UTF-8 bytes. No normalisation, no space put in front: what Gemma's tokenizer was trained with.
"""

from __future__ import annotations

import codecs
import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from strata.engine.gguf_file import GgufFile
from strata.executors.base import StrataError
from strata.shown import shown

SPACE = "\u2581"
#: The piece with which Gemma ends an answer, where a model has it.
END_OF_TURN = "<end_of_turn>"
_BYTE = re.compile("<0x[0-9A-Fa-f]{2}>")
#: Characters of all user-defined pieces: the expression that finds them is compiled in a second. Gemma has 2,000.
MOST_USER_DEFINED = 1 << 20
_SHOWN = 60


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
    """The pieces of a model.

    Parameters
    ----------
    pieces, scores, types
        Three sequences of one length.
    bos
        The token that every text begins with.
    unknown
        The token of a byte without a piece.
    eos
        The token that ends a text; None when the model has none.
    """

    pieces: Sequence[str]
    scores: Sequence[float]
    types: Sequence[int]
    bos: int
    unknown: int
    eos: int | None = None


class Tokenizer:
    """Text to token ids and back.

    `decode(encode(text)) == text` for text without lone surrogates and without U+2581 (which reads back as a
    space), given a vocabulary with a piece for U+2581 and one for every byte, as Gemma's is. Its attribute `ends`
    holds the tokens after which nothing follows: the end of the text and, where it is there, of a turn; `longest` the
    characters of the longest piece, so that a text has at least `len(text) / longest` tokens.

    Parameters
    ----------
    vocabulary
        The pieces.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._merges: dict[str, tuple[float, int]] = {}
        self._bytes: dict[int, int] = {}
        user_defined: dict[str, int] = {}
        ends = set() if vocabulary.eos is None else {vocabulary.eos}
        rows = zip(vocabulary.pieces, vocabulary.scores, vocabulary.types, strict=True)
        for token, (piece, score, kind) in enumerate(rows):
            if kind == PieceType.NORMAL:
                self._merges[piece] = (score, token)
            elif kind == PieceType.USER_DEFINED:
                user_defined[piece] = token
            elif kind == PieceType.BYTE:
                self._bytes[int(piece[1:-1], 16)] = token
            elif kind == PieceType.CONTROL and piece == END_OF_TURN:
                ends.add(token)
        self.ends = frozenset(ends)
        self.longest = max(map(len, vocabulary.pieces), default=1)
        self._user_defined = user_defined
        longest_first = sorted(user_defined, key=len, reverse=True)
        self._cut = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None

    def __len__(self) -> int:
        return len(self._vocabulary.pieces)

    def encode(self, text: str) -> Iterator[int]:
        """Token ids of `text`, the first one `bos`; lazily, so a caller may stop after as many as it needs."""
        yield self._vocabulary.bos
        for part in self._cut.split(text) if self._cut else [text]:
            if part in self._user_defined:
                yield self._user_defined[part]
            elif part:
                yield from self._merge(part.replace(" ", SPACE))

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of `tokens`. Control pieces have none; bytes that are no UTF-8 become U+FFFD. Raises StrataError for
        a token outside of the vocabulary."""
        return b"".join(map(self.piece, tokens)).decode("utf-8", errors="replace")

    def piece(self, token: int) -> bytes:
        """The bytes of one token, which may be a part of a character. Raises StrataError for a token outside of the
        vocabulary."""
        if not 0 <= token < len(self):
            raise StrataError(f"token {token}: expected 0 to {len(self) - 1}")
        piece, kind = self._vocabulary.pieces[token], self._vocabulary.types[token]
        if kind == PieceType.BYTE:
            return bytes([int(piece[1:-1], 16)])
        if kind == PieceType.USER_DEFINED:
            return piece.encode()
        return piece.replace(SPACE, " ").encode() if kind == PieceType.NORMAL else b""

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


class Streamed:
    """Text as its tokens come. What `add` returns, one after the other and then `end`, is what `decode` gives.

    Parameters
    ----------
    tokenizer
        Whose tokens they are.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token: int) -> str:
        """The text that is whole with one more token: bytes of a character that may go on are held back."""
        return self._decoder.decode(self._tokenizer.piece(token))

    def end(self) -> str:
        """What was held back, as U+FFFD: no more tokens come."""
        return self._decoder.decode(b"", final=True)


def tokenizer_of(file: GgufFile, n_vocab: int) -> Tokenizer:
    """The tokenizer of a model's file.

    Parameters
    ----------
    file
        The open file.
    n_vocab
        Rows of its embedding, of which each has a piece.

    Raises
    ------
    ModelError
        For a tokenizer of another kind than Gemma's, and for one whose parts do not fit together.
    """
    for key, expected in (("model", "llama"), ("add_space_prefix", False), ("add_bos_token", True)):
        found = file.metadata(f"tokenizer.ggml.{key}")
        if type(found) is not type(expected) or found != expected:
            file.refuse(f"key tokenizer.ggml.{key} is {shown(repr(found), _SHOWN)}; expected {expected!r}")
    pieces = file.metadata("tokenizer.ggml.tokens")
    if not isinstance(pieces, list) or len(pieces) != n_vocab:
        found = len(pieces) if isinstance(pieces, list) else shown(pieces, _SHOWN)
        file.refuse(f"key tokenizer.ggml.tokens is {found} pieces; expected {n_vocab}, rows of the embedding")
    scores = _numbers(file, "scores", n_vocab, "f").tolist()
    types = _numbers(file, "token_type", n_vocab, "iu").tolist()
    for token, (piece, kind) in enumerate(zip(pieces, types, strict=True)):
        if not PieceType.NORMAL <= kind <= PieceType.BYTE:
            file.refuse(f"piece {token} has type {kind}; expected {PieceType.NORMAL} to {PieceType.BYTE}")
        if kind == PieceType.BYTE and not _BYTE.fullmatch(piece):
            file.refuse(f"piece {token} is the byte {shown(repr(piece), _SHOWN)}; expected one such as '<0x0A>'")
        if not piece and kind in (PieceType.NORMAL, PieceType.USER_DEFINED):
            file.refuse(f"piece {token} is empty; expected text")
    size = sum(len(piece) for piece, kind in zip(pieces, types, strict=True) if kind == PieceType.USER_DEFINED)
    if size > MOST_USER_DEFINED:
        file.refuse(f"its user-defined pieces have {size} characters; expected at most {MOST_USER_DEFINED}")
    return Tokenizer(
        Vocabulary(
            pieces,
            scores,
            types,
            bos=_token(file, "bos_token_id", n_vocab),
            unknown=_token(file, "unknown_token_id", n_vocab),
            eos=_token(file, "eos_token_id", n_vocab) if "tokenizer.ggml.eos_token_id" in file.values else None,
        )
    )


def _numbers(file: GgufFile, key: str, n_vocab: int, kinds: str) -> np.ndarray:
    found = file.metadata(f"tokenizer.ggml.{key}")
    if not isinstance(found, np.ndarray) or found.dtype.kind not in kinds or len(found) != n_vocab:
        size = f"{len(found)} of {found.dtype}" if isinstance(found, np.ndarray) else shown(found, _SHOWN)
        what = "numbers" if kinds == "f" else "whole numbers"
        file.refuse(f"key tokenizer.ggml.{key} is {size}; expected {n_vocab} {what}, one for each piece")
    if not np.isfinite(found).all():
        file.refuse(f"key tokenizer.ggml.{key} has a number that is not finite; expected finite ones")
    return found


def _token(file: GgufFile, key: str, n_vocab: int) -> int:
    token = file.metadata(f"tokenizer.ggml.{key}")
    if type(token) is not int or not 0 <= token < n_vocab:
        file.refuse(f"key tokenizer.ggml.{key} is {shown(token, _SHOWN)}; expected a token of 0 to {n_vocab - 1}")
    return token
