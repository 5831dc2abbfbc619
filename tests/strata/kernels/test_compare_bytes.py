"""The comparing kernel on checked lanes, against NumPy: ragged ends, every alignment, several differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import compare_bytes
from strata.kernels.compare_bytes import THREADS, Difference
from validation.core.random_streams import Stream

#: One more vector than a block's threads load at once, so that threads go around.
LONGEST = THREADS * 16 + 40


def data(seed: int, n: int) -> np.ndarray:
    return Stream.of(seed, "compare").octets(n)


@given(
    n=st.one_of(st.integers(0, 70), st.integers(LONGEST - 70, LONGEST)),
    memory_at=st.integers(0, 33),
    expected_at=st.integers(0, 33),
    aligned=st.booleans(),
    where=st.lists(st.integers(0, LONGEST - 1), max_size=4),
    flip=st.integers(1, 255),
)
@settings(max_examples=40, deadline=None)
def test_the_lowest_difference_and_the_count(
    checked: LanesExecutor, n: int, memory_at: int, expected_at: int, aligned: bool, where: list[int], flip: int
) -> None:
    """Differences outside the range are not seen; the lowest one inside is, whichever thread meets it."""
    if aligned:
        expected_at = memory_at
    want = data(n, LONGEST + 80)
    memory = data(n + 1, LONGEST + 80)
    memory[memory_at : memory_at + n] = want[expected_at : expected_at + n]
    inside = sorted({i for i in where if i < n})
    for i in inside:
        memory[memory_at + i] ^= flip
    got = compare_bytes.compare(checked, memory, want, n, memory_at, expected_at)
    assert got.compared == n
    assert got.guards_ok
    if not inside:
        assert got.difference is None
    else:
        i = inside[0]
        assert got.difference == Difference(i, int(want[expected_at + i]), int(memory[memory_at + i]))


@pytest.mark.parametrize("at", [0, 1, 15, 16, 17, LONGEST - 1])
def test_one_flipped_bit_at_each_kind_of_place(checked: LanesExecutor, at: int) -> None:
    want = data(7, LONGEST)
    memory = want.copy()
    memory[at] ^= 0x80
    got = compare_bytes.compare(checked, memory, want, LONGEST)
    assert got.difference == Difference(at, int(want[at]), int(want[at]) ^ 0x80)


@pytest.mark.parametrize("apart", [1, 2, 3, 4, 7, 12, 15])
@pytest.mark.parametrize("start", [0, 1])
def test_of_neighbours_in_a_word_and_a_vector_the_first_counts(checked: LanesExecutor, apart: int, start: int) -> None:
    """Both differ in every bit, so that neither place nor value of the later one may come through."""
    want = data(9, 64)
    for at in range(16, 16 + 16 - apart):
        memory = want.copy()
        memory[[at, at + apart]] ^= 0xFF
        got = compare_bytes.compare(checked, memory, want, 64 - start, start, start)
        assert got.difference == Difference(at - start, int(want[at]), int(want[at]) ^ 0xFF)


def test_both_entries_and_builds_agree() -> None:
    """The fast build says the same, over a grid of several blocks and a permuted order of them."""
    n = 3 * compare_bytes._BLOCK_BYTES + 5
    want = data(3, n)
    memory = want.copy()
    memory[[n - 1, n // 2]] ^= 1
    for seed in (None, 1, 2):
        got = compare_bytes.compare(LanesExecutor(seed=seed), memory, want, n)
        assert (got.compared, got.difference) == (n, Difference(n // 2, int(want[n // 2]), int(memory[n // 2])))


def test_copy_is_what_the_memory_holds(checked: LanesExecutor) -> None:
    memory, n = data(5, 777), 700
    source, out = checked.array(memory), checked.empty((n + 3,), np.uint8)
    args = (source, np.uint64(9), out, np.uint64(3), np.uint64(n))
    checked.launch(compare_bytes.kernel("copy_bytes"), (2, 1, 1), args)
    assert np.array_equal(out.host()[3:], memory[9 : 9 + n])
    assert out.guards_intact()


def test_ranges_that_do_not_lie_in_their_arrays_are_refused(checked: LanesExecutor) -> None:
    x = np.zeros(8, np.uint8)
    for n, memory_at, expected_at in ((9, 0, 0), (8, 1, 0), (8, 0, 1), (-1, 0, 0), (2, -1, 0)):
        with pytest.raises(StrataError):
            compare_bytes.compare(checked, x, x, n, memory_at, expected_at)
