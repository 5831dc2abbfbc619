"""At whatever line of the books an interrupt comes, no page is lost, counted twice, or shared with wrong tokens."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import pytest

from strata.engine import pages as pages_module
from strata.engine.engine import Engine
from strata.engine.pages import Pages, PageTable
from strata.executors.base import StrataError

SIZE, COUNT = 2, 7


class Stopper:
    """Raises KeyboardInterrupt at a line, counted from the first one of `pages.py` that runs."""

    def __init__(self, line: int) -> None:
        self.left, self.stopped = line, False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != pages_module.__file__:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self.stopped = True
                raise KeyboardInterrupt
        return self

    def run(self, call: Callable[[], object]) -> None:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            call()
        except KeyboardInterrupt:
            assert self.stopped
        finally:
            sys.settrace(before)


class World:
    """Pages, tables, and the tokens that lie in each page's cells."""

    def __init__(self) -> None:
        self.pages = Pages(COUNT, SIZE)
        self.tables = [PageTable() for _ in range(3)]
        self.cells: dict[int, list[int]] = {page: [0] * SIZE for page in range(COUNT)}

    def read(self, table: PageTable, tokens: list[int]) -> None:
        """As `Runner.read`: all of it or nothing."""
        mark = self.pages.mark(table)
        try:
            rest = tokens[self.pages.share(table, tokens) :]
            self.pages.reserve(table, len(rest))
            for place, token in enumerate(rest, len(table)):
                self.cells[table.pages[place // SIZE]][place % SIZE] = token
            self.pages.commit(table, rest)
        except BaseException:
            self.pages.restore(table, mark)
            raise

    def close(self, number: int) -> None:
        table, self.tables[number] = self.tables[number], PageTable()
        self.pages.release(table)

    def check(self) -> None:
        pages = self.pages
        available = pages.available  # mends the books
        held = [page for table in self.tables for page in table.pages]
        assert sorted({*held, *pages._kept, *pages._free}) == list(range(COUNT))
        assert available + len(set(held)) == COUNT
        assert pages._holders == [held.count(page) for page in range(COUNT)]
        for table in self.tables:
            assert len(table.tokens) <= len(table.pages) * SIZE
            for place, token in enumerate(table.tokens):
                assert self.cells[table.pages[place // SIZE]][place % SIZE] == token
            assert not set(table.pages[len(table._chain) :]) & pages._entry_of.keys()
        assert pages._entry_of == {entry.page: entry for entry in pages._index.values()}
        assert set(pages._kept) <= pages._entry_of.keys()
        for (_, tokens), entry in pages._index.items():
            assert tuple(self.cells[entry.page]) == tokens


def history(draw: random.Random, world: World) -> None:
    """Some work that nothing stops."""
    for _ in range(draw.randint(0, 6)):
        number = draw.randrange(3)
        if draw.random() < 0.3:
            world.close(number)
        elif world.pages.available >= 2:
            world.read(world.tables[number], [draw.randint(1, 2) for _ in range(draw.randint(1, 3))])


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_no_line_leaves_the_books_wrong(seed: int, closes: bool) -> None:
    for line in range(1, 200):
        draw = random.Random(seed)
        world = World()
        history(draw, world)
        table = world.tables[0]
        tokens, before = [1, 2, 1], list(table.tokens)
        if not closes and world.pages.available < 2:
            return
        stopper = Stopper(line)
        stopper.run(partial(world.close, 0) if closes else partial(world.read, table, tokens))
        if stopper.stopped and not closes:
            assert table.tokens in (before, before + tokens)
        del table
        world.check()
        history(draw, world)
        world.check()
        if not stopper.stopped:
            return
    raise AssertionError("200 lines, and no end")


def opened(law_file: Any) -> Engine:
    return Engine.open(law_file, executor="lanes", context=32, page_size=2, pages=16, chunk=16)


@pytest.fixture(scope="module")
def law_file(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from tests.strata.engine import law_model

    return law_model.write(tmp_path_factory.mktemp("law") / "law.gguf")


def test_a_page_table_whose_write_was_stopped_is_written_again(law_file: Any) -> None:
    with opened(law_file) as engine, engine.sequence() as a, engine.sequence() as b:
        a.prefill([7, 200, 8])
        b.prefill([150, 9, 9])
        write = engine._cache._table.write

        def stopped(host: np.ndarray) -> None:
            write(host)
            raise KeyboardInterrupt

        engine._cache._table.write = stopped  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            a.decode(8)
        engine._cache._table.write = write  # type: ignore[method-assign]
        assert a.tokens == [7, 200, 8]
        got = b.decode(7)
    with opened(law_file) as fresh:
        np.testing.assert_array_equal(got, fresh.prefill([150, 9, 9, 7]))


def test_a_table_beside_another_one_s_pages_ends_its_chain_for_good(law_file: Any) -> None:
    """Its later pages hang on a page of its own, which the index does not know."""
    with opened(law_file) as engine, engine.sequence() as a, engine.sequence() as b:
        b.decode(7)
        a.prefill([7, 200, 8])
        b.decode(200)
        got = b.prefill([7, 200, 9])
    with opened(law_file) as fresh:
        np.testing.assert_array_equal(got, fresh.prefill([7, 200, 7, 200, 9]))


def test_logits_that_are_no_numbers_are_refused_and_the_sequence_is_kept(law_file: Any) -> None:
    with opened(law_file) as engine:
        engine.prefill([7, 200])
        forward = engine._forward.head

        def broken(first: int, rows: int, out: Any) -> None:
            forward(first, rows, out)
            out.write(np.full(out.shape, np.inf, np.float32))

        engine._forward.head = broken  # type: ignore[method-assign]
        with pytest.raises(StrataError, match="logits are not finite"):
            engine.prefill([8])
        assert engine._running().tokens == [7, 200]


@pytest.mark.parametrize("tokens", [[7], [7, 200]])
def test_counts_of_a_chunk_that_was_stopped_are_nobody_s(law_file: Any, tokens: list[int]) -> None:
    with opened(law_file) as engine:
        engine._forward.begin(tokens, 0)
        engine._forward._lost["norms"].write(np.array([3], np.int32))
        engine._forward.begin([7], 0)
        engine._forward.check()
