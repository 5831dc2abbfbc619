"""Pages of the KV cache: which physical page holds which cells of which sequence, and which tokens a full page holds.

Pure bookkeeping: nothing here touches a device. A page is in one of three states. It is *held* while tables refer to
it. It is *kept* when no table does and it is full of tokens that the index knows, so that a later prompt can share it.
It is *free* otherwise. Free pages are given out first, then the kept page that was let go longest ago is evicted.

An exception at any point, Ctrl-C too, may leave a change half made. So a change marks the books as open and closes them
at its end; whoever finds them open makes them anew from the tables that are alive before anything else.

The index is a chain: a full page is found by the page before it and by its own tokens, both compared exactly. A hash
alone decides nothing. Each entry has a number that is never used again, so what hung on an evicted page is never found.
A table lets its pages go from the last to the first: so every page is evicted before the page that it hangs on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakKeyDictionary, finalize

from strata.executors.base import StrataError

#: The number of the place before the first page.
_ROOT = 0
_Key = tuple[int, tuple[int, ...]]


@dataclass(frozen=True)
class _Entry:
    """A full page in the index: its number, the number of the page before it with its tokens, and the page."""

    number: int
    key: _Key
    page: int


@dataclass(eq=False)
class PageTable:
    """The pages of one sequence, in the order of its cells. Only `Pages` changes one.

    Parameters
    ----------
    pages
        Physical pages; page i holds cells i * size and on.
    tokens
        The tokens whose keys and values the cells hold.
    """

    pages: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    #: Entries of the leading pages that the index knows; one of another sequence's page ends them for good.
    _chain: list[int] = field(default_factory=list)
    _apart: bool = False

    def __len__(self) -> int:
        return len(self.tokens)


class Mark(NamedTuple):
    """How far a table was: its tokens, its pages, its chain, and whether it was apart."""

    tokens: int
    pages: int
    chain: int
    apart: bool


class Pages:
    """All pages of an engine.

    Parameters
    ----------
    count
        How many physical pages there are.
    size
        Cells of a page.
    order
        The order in which pages that were never used are given out, which may leave some out; None for 0, 1, 2 and on.

    Raises
    ------
    StrataError
        For fewer than one page or cell, and for an order that names another page or one twice.
    """

    def __init__(self, count: int, size: int, order: Sequence[int] | None = None) -> None:
        if count < 1 or size < 1:
            raise StrataError(f"{count} pages of {size} cells, expected at least 1 of each")
        given = list(range(count)) if order is None else list(order)
        if not given or len(set(given)) < len(given) or not set(given) <= set(range(count)):
            raise StrataError(f"an order of {len(given)} pages, expected pages of 0 to {count - 1}, each once")
        self.count = len(given)
        self.size = size
        self._all = frozenset(given)
        self._free = given[::-1]
        self._holders = [0] * count
        self._kept: OrderedDict[int, None] = OrderedDict()  # the page that was let go longest ago comes first
        self._index: dict[_Key, _Entry] = {}
        self._entry_of: dict[int, _Entry] = {}
        self._numbers = _ROOT
        #: What is called when a table is gone that was not released.
        self._tables: WeakKeyDictionary[PageTable, finalize[..., PageTable]] = WeakKeyDictionary()
        self._open = self._missed = False

    @property
    def available(self) -> int:
        """Pages that a table could get now: free ones, and kept ones, which would be evicted."""
        self._mend()
        return len(self._free) + len(self._kept)

    @property
    def kept(self) -> int:
        """Pages that no table holds and whose tokens a later prompt can share."""
        self._mend()
        return len(self._kept)

    def share(self, table: PageTable, tokens: Sequence[int]) -> int:
        """Give a table the pages that hold the next tokens already.

        The last token is never shared, for its logits have to be computed.

        Parameters
        ----------
        table
            A table that ends with a full page, or has none; any other gets nothing.
        tokens
            What follows the table's tokens.

        Returns
        -------
        int
            How many tokens the table has gained.
        """
        if len(table) % self.size or table._apart:
            return 0
        gained = 0
        with self._changing(table):
            while gained + self.size < len(tokens):
                piece = tuple(tokens[gained : gained + self.size])
                entry = self._index.get((self._last(table), piece))
                if entry is None:
                    break
                self._hold(entry.page)
                table.pages.append(entry.page)
                table.tokens.extend(piece)
                table._chain.append(entry.number)
                gained += self.size
        return gained

    def reserve(self, table: PageTable, more: int) -> None:
        """Give a table pages for cells that follow its tokens.

        Parameters
        ----------
        table
            A table.
        more
            How many cells.

        Raises
        ------
        StrataError
            When pages run out. Nothing has changed then.
        """
        wanted = -(-(len(table) + more) // self.size) - len(table.pages)
        if wanted > self.available:
            raise StrataError(
                f"the KV cache has room for {self.available} more pages of {self.size} cells, "
                f"and {more} more tokens need {wanted}; close sequences, or open the engine with more pages"
            )
        with self._changing(table):
            for _ in range(wanted):
                page = self._take()
                self._holders[page] = 1
                table.pages.append(page)

    def commit(self, table: PageTable, tokens: Sequence[int]) -> None:
        """Say that the cells that follow a table's tokens now hold these tokens. Full pages enter the index.

        A page enters only behind a page that is in it. Where another page of the same tokens is there already, the
        table keeps its own, and neither this page nor a later one of the table enters.

        Raises
        ------
        StrataError
            For more tokens than there is room reserved for.
        """
        if len(table) + len(tokens) > len(table.pages) * self.size:
            raise StrataError(
                f"{len(table) + len(tokens)} tokens in {len(table.pages)} pages of {self.size}, expected them reserved"
            )
        with self._changing(table):
            table.tokens.extend(tokens)
            while not table._apart and (len(table._chain) + 1) * self.size <= len(table):
                start = len(table._chain) * self.size
                key = (self._last(table), tuple(table.tokens[start : start + self.size]))
                if key in self._index:
                    table._apart = True
                    break
                self._numbers += 1
                entry = _Entry(self._numbers, key, table.pages[len(table._chain)])
                self._index[key] = entry
                self._entry_of[entry.page] = entry
                table._chain.append(entry.number)

    def cut(self, table: PageTable, length: int) -> None:
        """Take a table back to its first tokens, and let go what is not needed for them.

        Raises
        ------
        StrataError
            For a length that the table does not have, and for one that ends within a page that others may read: what
            follows would be written over their cells.
        """
        if not 0 <= length <= len(table):
            raise StrataError(f"a sequence of {len(table)} tokens cut to {length}, expected 0 to {len(table)}")
        whole = length // self.size
        if length % self.size and whole < len(table._chain):
            raise StrataError(
                f"cut to {length} tokens within a page that is shared; expected a multiple of {self.size}"
            )
        needed = -(-length // self.size)
        with self._changing(table):
            while len(table.pages) > needed:
                self._let_go(table.pages.pop())
            del table.tokens[length:]
            del table._chain[whole:]

    def mark(self, table: PageTable) -> Mark:
        """How far a table is, for `restore`."""
        self._mend()
        return Mark(len(table.tokens), len(table.pages), len(table._chain), table._apart)

    def restore(self, table: PageTable, mark: Mark) -> None:
        """Take a table back to a mark, after whatever stopped the changes since.

        Pages that it has gained go, and none of its pages behind the mark's chain is shared any more: what follows will
        be written over their cells.
        """
        self._know(table)
        self._open = True
        del table.tokens[mark.tokens :]
        del table.pages[mark.pages :]
        del table._chain[mark.chain :]
        table._apart = mark.apart
        self._mend()

    def release(self, table: PageTable) -> None:
        """Let go everything that a table holds; it is an empty table then."""
        self._mend()
        self._open = True
        known = self._tables.pop(table, None)  # where this is stopped, nobody counts its pages any more
        while table.pages:
            self._let_go(table.pages.pop())
        table.tokens.clear()
        table._chain.clear()
        table._apart = False
        if known is not None:
            known.detach()
        self._open = False

    @contextmanager
    def _changing(self, table: PageTable) -> Iterator[None]:
        """A change of a table: the books are open until its end."""
        self._mend()
        self._know(table)
        self._open = True
        yield
        self._open = False

    def _know(self, table: PageTable) -> None:
        """Count a table's pages from now on; where it is gone without having been released, the books are open."""
        if table not in self._tables:
            self._tables[table] = gone = finalize(table, self._gone)
            gone.atexit = False

    def _gone(self) -> None:
        """May come in the middle of a change, whose end does not close the books on it."""
        self._missed = True

    def _mend(self) -> None:
        """Where a change was not ended: make the books anew from the tables. It may be stopped and begun again."""
        if not self._open and not self._missed:
            return
        self._open, self._missed = True, False
        holders = [0] * len(self._holders)
        written = set()  # pages whose cells a table goes on writing
        for table in list(self._tables):
            for page in table.pages:
                holders[page] += 1
            written.update(table.pages[len(table._chain) :])
        entries = {entry.page: entry for entry in self._index.values() if entry.page not in written}
        waiting = [page for page in self._kept if page in entries and not holders[page]]
        waiting += [page for page in entries if page not in self._kept and not holders[page]]
        kept = OrderedDict((page, None) for page in waiting)
        unused = [page for page in self._free if not holders[page] and page not in kept]
        lost = sorted(self._all - set(unused) - set(kept) - {page for page, held in enumerate(holders) if held})
        index = {entry.key: entry for entry in entries.values()}
        self._index, self._entry_of = index, entries
        self._free, self._kept, self._holders = unused + lost, kept, holders
        self._open = False

    def _last(self, table: PageTable) -> int:
        return table._chain[-1] if table._chain else _ROOT

    def _hold(self, page: int) -> None:
        self._kept.pop(page, None)
        self._holders[page] += 1

    def _let_go(self, page: int) -> None:
        self._holders[page] -= 1
        if self._holders[page]:
            return
        if page in self._entry_of:
            self._kept[page] = None
        else:
            self._free.append(page)

    def _take(self) -> int:
        if self._free:
            return self._free.pop()
        page, _ = self._kept.popitem(last=False)
        del self._index[self._entry_of.pop(page).key]
        return page
