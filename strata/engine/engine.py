"""The engine: a model's file opened on an executor, and sequences of tokens through it.

    with Engine.open("model.gguf", kv="q4_0") as engine:
        logits = engine.prefill(tokens)
        logits = engine.decode(int(logits.argmax()))

Its law is that bits do not depend on how the work was cut. docs/engine.md has it in four parts and says how each is
kept.
"""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import Any

import numpy as np

from strata.dispatch import Gate
from strata.engine import weights as device_weights
from strata.engine.forward import Forward
from strata.engine.gemma3 import Gemma3, load
from strata.engine.gguf_file import GgufFile, open_gguf
from strata.engine.kv import KvCache
from strata.engine.pages import Pages, PageTable
from strata.engine.runner import Runner
from strata.engine.served import Plan, choose
from strata.engine.tokenizer import Tokenizer, tokenizer_of
from strata.executors import open_executor
from strata.executors.base import QueueingExecutor, StrataError
from strata.executors.lanes.rules import CAPABILITIES
from strata.kernels.pool import MODES
from strata.shown import shown

#: What is taken where nothing is asked for, and the most that may be.
PAGE_SIZE, MOST_PAGE_SIZE = 64, 1 << 12
CHUNK, MOST_CHUNK = 1024, 1 << 14
MOST_PAGES = 1 << 20
#: Rows of logits that `Engine.logits` holds at once.
SLICE = 64


class TokenSequence:
    """Tokens of one sequence in an engine; made by `Engine.sequence`, and a context manager that closes it.

    Parameters
    ----------
    engine
        The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine: Engine | None = engine
        self._table = PageTable()

    def __len__(self) -> int:
        return len(self._table)

    @property
    def tokens(self) -> list[int]:
        """The tokens so far."""
        return list(self._table.tokens)

    @property
    def pages(self) -> list[int]:
        """The physical pages of its cells, in order."""
        return list(self._table.pages)

    def prefill(self, tokens: Sequence[int] | np.ndarray, chunks: Sequence[int] | None = None) -> np.ndarray:
        """Append tokens.

        Parameters
        ----------
        tokens
            Token ids, at least one.
        chunks
            Sizes of the chunks, the last one for all that follow; None for the engine's own. It changes no bit.

        Returns
        -------
        float32 array [vocab]
            Logits behind the last token.

        Raises
        ------
        StrataError
            For tokens that the vocabulary does not have, for more of them than the context or the pages hold, for
            chunks that are none, and for values that no kernel holds. The sequence has kept its tokens then.
        """
        engine = self._open()
        return engine._runner.read(self._table, engine._tokens(tokens, len(self)), engine._chunks(chunks))

    def decode(self, token: int) -> np.ndarray:
        """Append one token.

        Parameters
        ----------
        token
            A token id.

        Returns
        -------
        float32 array [vocab]
            Logits behind it, of the same bits as `prefill` gives.

        Raises
        ------
        StrataError
            As `prefill`.
        """
        engine = self._open()
        return engine._runner.step(self._table, engine._tokens([token], len(self))[0])

    def kv_bytes(self) -> list[np.ndarray]:
        """A copy of the keys and values of every layer, as bytes: see `KvCache.host`."""
        return self._open()._cache.host(self._table.pages, len(self))

    def close(self) -> None:
        """Let its pages go; those that are full stay for prompts that begin with its tokens."""
        if self._engine is not None:
            engine, table = self._engine, self._table
            self._engine, self._table = None, PageTable()
            engine._runner.pages.release(table)

    def __enter__(self) -> TokenSequence:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> Engine:
        if self._engine is None:
            raise StrataError("the sequence is closed; expected an open one, see Engine.sequence")
        return self._engine


class Engine:
    """A model on an executor. `Engine.open` makes one. It is used from one thread at a time.

    Its attributes are `executor`, `file`, `model` (sizes and constants), `plan` (what serves), `mode` of the KV cache,
    `context`, `page_size`, `chunk`, and `pages`, who holds which page.

    Parameters
    ----------
    executor
        Where it runs.
    file
        The model's file.
    model
        The model, loaded and checked.
    plan
        Which paths serve, for the mode of the KV cache.
    context
        The most tokens of a sequence.
    pages
        Pages of the KV cache.
    chunk
        The most tokens that are computed at once.
    built
        Called with how many kernels are compiled and how many there are.
    """

    def __init__(
        self,
        executor: QueueingExecutor,
        file: GgufFile,
        model: Gemma3,
        plan: Plan,
        context: int,
        pages: Pages,
        chunk: int,
        built: Callable[[int, int], None] | None = None,
    ) -> None:
        self.executor, self.file, self.model, self.plan = executor, file, model, plan
        self.mode, self.context, self.page_size, self.chunk = plan.mode, context, pages.size, chunk
        self._weights = device_weights.to_executor(executor, model)
        entries = -(-context // pages.size)
        self._cache = KvCache(executor, plan.mode, model.n_layer, model.n_head_kv, pages.count, pages.size, entries)
        self._forward = Forward(executor, model, self._weights, self._cache, plan, chunk, context)
        self._runner = Runner(executor, self._forward, self._cache, pages, model.vocab)
        self._runner.prebuild(built)
        self._current: TokenSequence | None = None

    @classmethod
    def open(
        cls,
        file: str | os.PathLike[str] | GgufFile,
        *,
        executor: str | QueueingExecutor = "auto",
        kv: str = "fp16",
        context: int | None = None,
        page_size: int = PAGE_SIZE,
        pages: int | None = None,
        chunk: int | None = None,
        capability: int | None = None,
        environ: Mapping[str, str] | None = None,
        gate: Gate | None = None,
        built: Callable[[int, int], None] | None = None,
    ) -> Engine:
        """Open a model.

        Parameters
        ----------
        file
            A GGUF file of Gemma 3, or its path.
        executor
            `auto`, `lanes`, `cuda`, or an executor.
        kv
            The mode of the KV cache: `fp16`, `int8`, `k8v4` or `q4_0`.
        context
            The most tokens of a sequence; None for what the model was made for.
        page_size
            Cells of a page.
        pages
            Pages of the KV cache, which all sequences share; None for one sequence of `context` tokens.
        chunk
            The most tokens that are computed at once; None for as many as is usual.
        capability
            On lanes, the compute capability, times ten, of a card: the paths that would serve there serve, and lanes of
            the rule of that card give its bits.
        environ
            The variables that switches and the directory of records are read from; None for this process's.
        gate
            The decision for a path and a device; None for the gate of this installation.
        built
            Called with how many kernels are compiled and how many there are.

        Raises
        ------
        ModelError
            For a file that is no such model.
        StrataError
            For a size or a mode that cannot be, and where nothing can run.
        """
        if kv not in MODES:
            raise StrataError(f"kv {shown(kv)!r}: expected one of {', '.join(MODES)}")
        opened = file if isinstance(file, GgufFile) else open_gguf(file)
        model = load(opened)
        most = _within("context", model.context_length if context is None else context, model.context_length)
        size = _within("page_size", page_size, MOST_PAGE_SIZE)
        count = _within("pages", -(-most // size) if pages is None else pages, MOST_PAGES)
        rows = min(_within("chunk", CHUNK if chunk is None else chunk, MOST_CHUNK), most)
        chosen: Any = executor
        if capability is not None and str(capability) not in map(str, CAPABILITIES):
            known = ", ".join(map(str, CAPABILITIES))
            raise StrataError(f"capability {capability}: expected one of {known}, ten times what is known of a card")
        if isinstance(executor, str):
            chosen = open_executor(executor) if capability is None else open_executor(executor, rule=f"sm_{capability}")
        asked = os.environ if environ is None else environ
        plan = choose(chosen, kv, device_weights.formats(model), capability, asked, gate)
        return cls(chosen, opened, model, plan, most, Pages(count, size), rows, built)

    def start(self) -> None:
        """Begin a new sequence, and let go the one that `prefill` and `decode` were about."""
        if self._current is not None:
            self._current.close()
        self._current = self.sequence()

    def prefill(self, tokens: Sequence[int] | np.ndarray, chunks: Sequence[int] | None = None) -> np.ndarray:
        """Append tokens to the current sequence, or begin one: see `TokenSequence.prefill`."""
        return self._running().prefill(tokens, chunks)

    def decode(self, token: int) -> np.ndarray:
        """Append one token to the current sequence: see `TokenSequence.decode`."""
        return self._running().decode(token)

    def logits(
        self, tokens: Sequence[int] | np.ndarray, chunks: Sequence[int] | None = None, rows: int = SLICE
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Logits of every position of some tokens, in slices. No other sequence is touched, and none is shared.

        Parameters
        ----------
        tokens
            Token ids, at least one.
        chunks
            As of `TokenSequence.prefill`.
        rows
            The most rows of a slice.

        Yields
        ------
        (int, float32 array [k, vocab])
            The position of the first row, and the rows.

        Raises
        ------
        StrataError
            As `TokenSequence.prefill`.
        """
        most = min(_within("rows", rows, MOST_CHUNK), self.chunk)
        return self._runner.every(self._tokens(tokens, 0), self._chunks(chunks), most)

    def sequence(self) -> TokenSequence:
        """A new sequence beside all others. They share the pages of the KV cache, and what their prompts begin with."""
        return TokenSequence(self)

    def forget(self, order: Sequence[int] | None = None) -> None:
        """Forget what is kept for later prompts.

        Parameters
        ----------
        order
            The order in which physical pages are given out from now on, which may leave some out; None for 0, 1, 2 and
            on. It changes no bit.

        Raises
        ------
        StrataError
            While a sequence holds pages, and for an order that is none.
        """
        if self.pages.available < self.pages.count:
            raise StrataError(
                f"{self.pages.count - self.pages.available} pages are held, expected all sequences closed"
            )
        self._runner.pages = Pages(self._cache.pages, self.page_size, order)

    def facts(self) -> dict[str, Any]:
        """What serves and why, the sizes, and the bytes of everything on the executor."""
        return {
            "executor": self.executor.describe(),
            "device": self.plan.device.title,
            "kv": self.mode,
            "attention": self.plan.attention.path,
            "paths": self.plan.lines(),
            "layers": self.model.n_layer,
            "vocabulary": self.model.vocab,
            "context": self.context,
            "chunk": self.chunk,
            "page_size": self.page_size,
            "pages": self.pages.count,
            "pages_available": self.pages.available,
            "bytes": {
                "weights": self._weights.nbytes,
                "kv": self._cache.nbytes,
                "buffers": self._forward.nbytes,
            },
        }

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the file. Raises ModelError where it has none that is known."""
        return tokenizer_of(self.file, self.model.vocab)

    @property
    def pages(self) -> Pages:
        """Who holds which page of the KV cache."""
        return self._runner.pages

    def close(self) -> None:
        """End the current sequence. Memory is given back when nobody refers to the engine any more."""
        if self._current is not None:
            self._current.close()
            self._current = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _running(self) -> TokenSequence:
        if self._current is None:
            self.start()
        assert self._current is not None
        return self._current

    def _tokens(self, tokens: Sequence[int] | np.ndarray, before: int) -> list[int]:
        """Token ids as plain numbers, checked."""
        found = [_whole(token, f"token {place}") for place, token in enumerate(tokens)]
        if not found:
            raise StrataError("no tokens, expected at least one")
        for place, token in enumerate(found):
            if not 0 <= token < self.model.vocab:
                raise StrataError(f"token {place} is {token}, expected 0 to {self.model.vocab - 1}")
        if before + len(found) > self.context:
            raise StrataError(f"{len(found)} tokens behind {before}, expected up to {self.context} in all, the context")
        return found

    def _chunks(self, chunks: Sequence[int] | None) -> Iterator[int]:
        sizes = [self.chunk] if chunks is None else [_within("a chunk", size, self.chunk) for size in chunks]
        if not sizes:
            raise StrataError("no sizes of chunks, expected at least one")
        return itertools.chain(sizes, itertools.repeat(sizes[-1]))


def _whole(value: Any, what: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise StrataError(f"{what} is {shown(repr(value))}, expected a whole number") from None


def _within(what: str, value: Any, most: int) -> int:
    found = _whole(value, what)
    if not 1 <= found <= most:
        raise StrataError(f"{what} of {found}, expected 1 to {most}")
    return found
