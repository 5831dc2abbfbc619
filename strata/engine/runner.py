"""Chunks of sequences through the forward pass: pages are reserved before, and committed only after a whole piece of
work, so that whatever stops it leaves the sequence as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from strata.cpus import usable
from strata.engine.forward import Forward, LostValuesError
from strata.engine.kv import KvCache
from strata.engine.pages import Pages, PageTable
from strata.executors.base import Buffer, QueueingExecutor, Replay

#: The least cells that a recording of one token is made for. Each next one is made for twice as many.
_LEAST_REACH = 64


class Runner:
    """Runs tokens of page tables.

    Parameters
    ----------
    executor
        Where everything lies.
    forward
        The forward pass.
    cache
        Its KV cache.
    pages
        Who holds which page of the cache.
    vocab
        Logits of a token.
    """

    def __init__(self, executor: QueueingExecutor, forward: Forward, cache: KvCache, pages: Pages, vocab: int) -> None:
        self._executor, self._forward, self._cache, self._vocab = executor, forward, cache, vocab
        self.pages = pages
        self._logits = executor.empty((1, vocab), np.float32, name="logits")
        self._many: Buffer | None = None
        self._replays: dict[int, Replay] = {}

    def read(self, table: PageTable, tokens: Sequence[int], chunks: Iterator[int]) -> np.ndarray:
        """Append tokens to a sequence.

        Parameters
        ----------
        table
            The sequence.
        tokens
            At least one token. Those whose keys and values lie in full pages already are not computed again.
        chunks
            Sizes of the chunks.

        Returns
        -------
        float32 array [vocab]
            Logits behind the last token.
        """
        with self._whole(table):
            gained = self.pages.share(table, tokens)
            rest = tokens[gained:]
            self.pages.reserve(table, len(rest))
            for start, rows in pieces(len(rest), chunks):
                self._run(table, rest[start : start + rows], len(table) + start, last=start + rows == len(rest))
            logits: np.ndarray = checked(self._logits.host()[0])
            self.pages.commit(table, rest)
        return logits

    def step(self, table: PageTable, token: int) -> np.ndarray:
        """Append one token to a sequence by launches that were recorded once.

        Parameters
        ----------
        table
            The sequence.
        token
            The token.

        Returns
        -------
        float32 array [vocab]
            Logits behind it: the bits that `read` gives.
        """
        with self._whole(table):
            self.pages.reserve(table, 1)
            self._cache.show(table.pages)
            self._forward.begin([token], len(table))
            replay = self._replay(len(table) + 1)
            with self._executor.queue():
                replay.replay()
            self._forward.check()
            logits: np.ndarray = checked(self._logits.host()[0])
            self.pages.commit(table, [token])
        return logits

    def every(self, tokens: Sequence[int], chunks: Iterator[int], most: int) -> Iterator[tuple[int, np.ndarray]]:
        """Logits of every token of a sequence of its own, which shares no page.

        Parameters
        ----------
        tokens
            The tokens.
        chunks
            Sizes of the chunks.
        most
            The most rows of logits at once.

        Yields
        ------
        (int, float32 array [k, vocab])
            The position of the first row, and k rows of logits.
        """
        table = PageTable()
        out = self._slices(most)
        try:
            self.pages.reserve(table, len(tokens))
            for start, rows in pieces(len(tokens), chunks):
                turn = -1
                for first in range(0, rows, most):
                    if turn != self._forward.turn:
                        # Nothing has run so far, or what else ran meanwhile has overwritten the chunk.
                        self._run(table, tokens[start : start + rows], start, last=False)
                        turn = self._forward.turn
                    count = min(most, rows - first)
                    with self._executor.queue():
                        self._forward.finish(rows)
                        self._forward.head(first, count, out)
                    self._forward.check()
                    yield start + first, checked(out.host()[:count])
        finally:
            self.pages.release(table)

    def prebuild(self, built: Callable[[int, int], None] | None = None) -> None:
        """Compile everything that will be launched, on all cores.

        Parameters
        ----------
        built
            Called with how many kernels are built and how many there are, in this thread.
        """
        kernels = self._forward.kernels(self._logits)
        pool = ThreadPoolExecutor(max_workers=usable())
        try:
            for done, one in enumerate([pool.submit(self._executor.build, kernel) for kernel in kernels], 1):
                one.result()
                if built is not None:
                    built(done, len(kernels))
        finally:
            # Whoever interrupts it does not wait for what has not begun.
            pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, table: PageTable, tokens: Sequence[int], first: int, last: bool) -> None:
        """Run a chunk, and where it is the last one the head of its last row."""
        self._cache.show(table.pages)
        self._forward.begin(tokens, first)
        rows = len(tokens)
        with self._executor.queue():
            self._forward.body(rows, first + rows)
            if last:
                self._forward.finish(rows)
                self._forward.head(rows - 1, 1, self._logits)
        self._forward.check()

    def _replay(self, cells: int) -> Replay:
        """The recording of one token that sees up to so many cells. Where grids grow with the cells, they reach as far
        as the next power of two, and blocks beyond the token's cells end at once."""
        reach = _LEAST_REACH if self._forward.grows else self._forward.context
        while reach < cells:
            reach *= 2
        reach = min(reach, self._forward.context)
        if reach not in self._replays:
            self._replays[reach] = self._executor.record(lambda: self._forward.token(reach, self._logits))
        return self._replays[reach]

    def _slices(self, most: int) -> Buffer:
        if self._many is None or self._many.shape[0] != most:
            self._many = self._executor.empty((most, self._vocab), np.float32, name="slices of logits")
        return self._many

    @contextmanager
    def _whole(self, table: PageTable) -> Iterator[None]:
        """All of it or nothing: what raises inside leaves the sequence as it was."""
        mark = self.pages.mark(table)
        try:
            yield
        except BaseException:
            self.pages.restore(table, mark)
            raise


def checked(logits: np.ndarray) -> np.ndarray:
    """Logits that are numbers. Raises LostValuesError for any that is not finite: the head's weights give such."""
    lost = logits.size - int(np.count_nonzero(np.isfinite(logits)))
    if lost:
        raise LostValuesError(
            f"{lost} of {logits.size} logits are not finite, expected none: the file's head gives such"
        )
    return logits


def pieces(count: int, chunks: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Starts and sizes of the chunks of so many tokens, the last one cut to what is left."""
    start = 0
    while start < count:
        rows = min(next(chunks), count - start)
        yield start, rows
        start += rows
