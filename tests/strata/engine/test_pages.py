"""Pages against a model of them that is a list of tokens: whatever happens, a table holds what it says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strata.engine.pages import Pages, PageTable
from strata.executors.base import StrataError

#: Few tokens, so that prompts share beginnings often.
TOKENS = st.lists(st.integers(0, 1), max_size=9)


class Machine(RuleBasedStateMachine):
    """Sequences that start, grow, are cut and end in any order. Memory is a list of what was written where."""

    @initialize(count=st.integers(1, 8), size=st.integers(1, 3), data=st.data())
    def start(self, count: int, size: int, data: st.DataObject) -> None:
        order = data.draw(st.permutations(range(count)))
        self.pages = Pages(count, size, order)
        self.memory: list[list[int | None]] = [[None] * size for _ in range(count)]
        self.tables: list[PageTable] = []
        self.expected: list[list[int]] = []

    def written(self, table: PageTable, cell: int, token: int) -> None:
        page = table.pages[cell // self.pages.size]
        readers = [other for other in self.tables if other is not table and page in other.pages]
        assert not readers, "a page that another sequence reads is written"
        self.memory[page][cell % self.pages.size] = token

    @rule()
    def open(self) -> None:
        self.tables.append(PageTable())
        self.expected.append([])

    @precondition(lambda self: self.tables)
    @rule(which=st.integers(0, 99), tokens=TOKENS, fails=st.booleans())
    def grow(self, which: int, tokens: list[int], fails: bool) -> None:
        which %= len(self.tables)
        table, before = self.tables[which], list(self.expected[which])
        gained = self.pages.share(table, tokens)
        assert gained % self.pages.size == 0
        assert gained < max(1, len(tokens))
        rest = tokens[gained:]
        held = [list(other.pages) for other in self.tables]
        cells = len(before) + len(tokens)
        if -(-cells // self.pages.size) - len(table.pages) > self.pages.available:
            with pytest.raises(StrataError, match="close sequences"):
                self.pages.reserve(table, len(rest))
            assert [list(other.pages) for other in self.tables] == held
            self.pages.cut(table, len(before))
            return
        self.pages.reserve(table, len(rest))
        for i, token in enumerate(rest):
            self.written(table, len(before) + gained + i, token)
        if fails:
            self.pages.cut(table, len(before))
        else:
            self.pages.commit(table, rest)
            self.expected[which] = before + tokens

    @precondition(lambda self: self.tables)
    @rule(which=st.integers(0, 99), length=st.integers(0, 30))
    def cut(self, which: int, length: int) -> None:
        which %= len(self.tables)
        table, size = self.tables[which], self.pages.size
        length = min(length, len(self.expected[which]))
        if length % size and table.pages[length // size] in self.pages._entry_of:
            with pytest.raises(StrataError, match="shared"):
                self.pages.cut(table, length)
        else:
            self.pages.cut(table, length)
            del self.expected[which][length:]

    @precondition(lambda self: self.tables)
    @rule(which=st.integers(0, 99))
    def close(self, which: int) -> None:
        which %= len(self.tables)
        self.pages.release(self.tables.pop(which))
        del self.expected[which]

    @invariant()
    def tables_hold_their_tokens(self) -> None:
        if not hasattr(self, "pages"):
            return
        size = self.pages.size
        for table, expected in zip(self.tables, self.expected, strict=True):
            assert table.tokens == expected
            assert len(table.pages) == -(-len(expected) // size)
            assert [self.memory[table.pages[i // size]][i % size] for i in range(len(expected))] == expected

    @invariant()
    def every_page_is_counted_once(self) -> None:
        if not hasattr(self, "pages"):
            return
        held = {page for table in self.tables for page in table.pages}
        assert self.pages.available == self.pages.count - len(held)
        assert self.pages.kept <= self.pages.available

    @invariant()
    def what_is_in_the_index_can_be_reached(self) -> None:
        if not hasattr(self, "pages"):
            return
        entries = self.pages._index.values()
        numbers = {0} | {entry.number for entry in entries}
        assert all(entry.key[0] in numbers for entry in entries)


def grown(pages: Pages, tokens: list[int]) -> tuple[PageTable, int]:
    """A new table of some tokens, and how many of them it shares."""
    table = PageTable()
    gained = pages.share(table, tokens)
    pages.reserve(table, len(tokens) - gained)
    pages.commit(table, tokens[gained:])
    return table, gained


def test_a_prompt_shares_full_pages_but_never_its_last_token() -> None:
    pages = Pages(8, 2)
    first, gained = grown(pages, [1, 2, 3, 4, 5])
    assert gained == 0
    second, gained = grown(pages, [1, 2, 3, 4])
    assert (gained, second.pages[0] == first.pages[0], second.pages[1] == first.pages[1]) == (2, True, False)
    third, gained = grown(pages, [1, 2, 3, 4, 6, 7])
    assert (gained, third.pages[:2]) == (4, first.pages[:2])


def test_a_page_is_found_behind_its_own_beginning_alone() -> None:
    pages = Pages(8, 2)
    grown(pages, [1, 2, 3, 4, 0])
    assert grown(pages, [9, 9, 3, 4, 0])[1] == 0
    assert grown(pages, [3, 4, 0])[1] == 0


def test_the_page_let_go_longest_ago_is_evicted_and_no_longer_found() -> None:
    pages = Pages(3, 2)
    tables = [grown(pages, [1, 2])[0], grown(pages, [3, 4])[0], grown(pages, [5, 6])[0]]
    for which in (1, 0, 2):
        pages.release(tables[which])
    grown(pages, [9])
    assert grown(pages, [5, 6, 9])[1] == 2
    pages = Pages(2, 2)
    old, _ = grown(pages, [1, 2])
    pages.release(old)
    new, _ = grown(pages, [3, 4])
    pages.release(new)
    again, gained = grown(pages, [1, 2, 5])  # touches the older one, takes the newer one's page
    assert gained == 2
    pages.release(again)
    assert grown(pages, [3, 4, 5])[1] == 0


def test_a_prompts_end_is_evicted_before_its_beginning() -> None:
    pages = Pages(3, 2)
    long, _ = grown(pages, [1, 2, 3, 4, 5, 6])
    pages.release(long)
    grown(pages, [9])
    table = PageTable()
    assert pages.share(table, [1, 2, 3, 4, 5, 6, 7]) == 4


def test_a_page_that_is_filled_bit_by_bit_is_shared_once_it_is_full() -> None:
    pages = Pages(4, 3)
    table = PageTable()
    for token in (1, 2, 3):
        assert pages.share(PageTable(), [1, 2, 3, 4]) == 0
        pages.reserve(table, 1)
        pages.commit(table, [token])
    assert pages.share(PageTable(), [1, 2, 3, 4]) == 3


def test_what_hung_on_an_evicted_page_is_not_found_behind_its_successor() -> None:
    pages = Pages(3, 1)
    old, _ = grown(pages, [1, 2, 3])
    pages.release(old)
    other, _ = grown(pages, [7, 8, 9])
    pages.release(other)
    renewed, gained = grown(pages, [1])
    assert gained == 0
    pages.release(renewed)
    assert grown(pages, [1, 2, 3])[1] == 1


def test_what_hangs_on_a_page_is_not_found_behind_one_that_came_after_an_eviction() -> None:
    pages = Pages(3, 1)
    gone, _ = grown(pages, [1, 2])
    pages.release(gone)
    seven, _ = grown(pages, [7])
    five, _ = grown(pages, [5])  # in the page of 2
    pages.reserve(seven, 1)
    pages.commit(seven, [8])
    pages.release(five)
    assert pages.share(PageTable(), [5, 8, 0]) == 1


def test_the_first_page_of_some_tokens_stays_the_one_that_is_shared() -> None:
    pages = Pages(9, 2)
    one, two = PageTable(), PageTable()
    for table in (one, two):
        assert pages.share(table, [1, 2, 3, 4, 5]) == 0
    for table in (one, two):
        pages.reserve(table, 5)
        pages.commit(table, [1, 2, 3, 4, 5])
    three, gained = grown(pages, [1, 2, 3, 4, 5])
    assert (gained, three.pages[:2]) == (4, one.pages[:2])
    pages.release(two)
    assert pages.kept == 0


def test_running_out_of_pages_says_so_and_changes_nothing() -> None:
    pages = Pages(3, 4)
    table, _ = grown(pages, list(range(8)))
    with pytest.raises(StrataError, match="room for 1 more pages of 4 cells, and 5 more tokens need 2"):
        pages.reserve(table, 5)
    assert (len(table), len(table.pages), pages.available) == (8, 2, 1)


@given(count=st.integers(-1, 3), size=st.integers(-1, 2))
def test_sizes_and_orders_that_are_none_are_refused(count: int, size: int) -> None:
    if min(count, size) < 1:
        with pytest.raises(StrataError, match="at least 1"):
            Pages(count, size)
    else:
        with pytest.raises(StrataError, match="each once"):
            Pages(count, size, [0] * (count + 1))


def test_a_table_is_not_committed_beyond_its_pages_nor_cut_beyond_its_tokens() -> None:
    pages = Pages(2, 2)
    table, _ = grown(pages, [1, 2, 3])
    with pytest.raises(StrataError, match="expected them reserved"):
        pages.commit(table, [4, 5])
    with pytest.raises(StrataError, match="expected 0 to 3"):
        pages.cut(table, 4)
    with pytest.raises(StrataError, match="within a page that is shared"):
        pages.cut(table, 1)


#: Last, for what it finds takes long to be made small.
TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
