"""The book of a loan against a list of pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.memory.cache.loan_book import LoanBook

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), unique_by=lambda pair: pair[1])


@given(PAIRS, st.sets(st.integers(0, 5)), st.sets(st.integers(0, 9)))
def test_against_a_list(pairs: list[tuple[int, int]], rows: set[int], slots: set[int]) -> None:
    book = LoanBook("x")
    book.add(pairs)
    for step in range(3):
        assert list(book) == sorted(pairs, key=lambda pair: pair[1])
        assert len(book) == len(pairs)
        assert [book.owns(row) for row in range(6)] == [row in {row for row, _ in pairs} for row in range(6)]
        assert [book.holds(slot) for slot in range(10)] == [slot in {slot for _, slot in pairs} for slot in range(10)]
        if step == 0:
            book.remove(rows)
            pairs = [pair for pair in pairs if pair[0] not in rows]
        else:
            book.drop(slot for _, slot in pairs if slot in slots)
            pairs = [pair for pair in pairs if pair[1] not in slots]
    with pytest.raises(KeyError):
        book.drop([10])
