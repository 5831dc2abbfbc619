"""Whose bytes a slot holds, asked of experts of two sizes and of bytes that are nobody's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.pattern import patterned
from strata.memory.cache.verification import identify_slot

GEOMETRY = ExpertGeometry(2, 4, (1000, 1503))
SOURCE = patterned(GEOMETRY, absent=frozenset({2}))
ROWS = st.integers(0, GEOMETRY.rows - 1)


@given(row=ROWS, other=ROWS)
def test_another_expert_is_named(row: int, other: int) -> None:
    """Also one of another size, of which the slot holds a part, or that it holds with something behind."""
    if other == 2 or row in (2, other):
        return
    blob = SOURCE.blob(other)
    held = SOURCE.blob(row).copy()
    both = min(blob.size, held.size)
    held[:both] = blob[:both]
    assert identify_slot(SOURCE, row, held, 0) == GEOMETRY.expert(other)


@given(row=st.sampled_from([0, 1, 3, 4, 7]), at=st.integers(0, 999), flip=st.integers(1, 255))
def test_one_wrong_byte_is_nobodys(row: int, at: int, flip: int) -> None:
    held = SOURCE.blob(row).copy()
    held[at] ^= flip
    assert identify_slot(SOURCE, row, held, at) is None


@given(at=st.integers(0, 999))
def test_bytes_that_agree_near_the_wrong_one_alone_are_nobodys(at: int) -> None:
    held = SOURCE.blob(0).copy()
    held[at:] = SOURCE.blob(1)[at:]
    held[:at] = 0
    expected = (0, 1) if at == 0 else None
    assert identify_slot(SOURCE, 0, held, at) == expected
