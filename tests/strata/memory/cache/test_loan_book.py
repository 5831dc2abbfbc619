"""The ledger of a loan against a list of pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.memory.cache.loan_book import Ledger

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), unique_by=lambda pair: pair[1])


@given(PAIRS, st.sets(st.integers(0, 5)), st.sets(st.integers(0, 9)))
def test_against_a_list(pairs: list[tuple[int, int]], rows: set[int], slots: set[int]) -> None:
    ledger = Ledger("x")
    ledger.add(pairs)
    for step in range(3):
        assert list(ledger) == sorted(pairs, key=lambda pair: pair[1])
        assert len(ledger) == len(pairs)
        assert [ledger.owns(row) for row in range(6)] == [row in {row for row, _ in pairs} for row in range(6)]
        assert [ledger.holds(slot) for slot in range(10)] == [slot in {slot for _, slot in pairs} for slot in range(10)]
        if step == 0:
            ledger.remove(rows)
            pairs = [pair for pair in pairs if pair[0] not in rows]
        else:
            ledger.drop(slot for _, slot in pairs if slot in slots)
            pairs = [pair for pair in pairs if pair[1] not in slots]
    with pytest.raises(KeyError):
        ledger.drop([10])
