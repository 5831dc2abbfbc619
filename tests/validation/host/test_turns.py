"""Samples that change by the day."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from validation.host.turns import sample


@given(st.integers(1, 200), st.integers(1, 60), st.integers(0, 1 << 20))
def test_samples_rotate_through_all(total: int, count: int, turn: int) -> None:
    names = [str(i) for i in range(total)]
    turns = -(-total // count)
    seen = [sample(names, count, turn + i) for i in range(turns)]
    assert all(0 < len(some) <= count for some in seen)
    assert sorted(name for some in seen for name in some) == sorted(names)
