"""Tails of slots, against trying every slot."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.memory.loan.tail import first, floor, mapped, sized

OFFSETS = st.lists(st.integers(1, 3000), min_size=1, max_size=60).map(sized) | st.builds(
    lambda slots, blob: [slot * blob for slot in range(slots + 1)], st.integers(1, 200), st.integers(1, 3000)
)


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[int], int, int]:
    off = draw(OFFSETS)
    keep = draw(st.integers(0, len(off) - 1))
    near = draw(st.sampled_from(off))
    nbytes = draw(st.integers(0, off[-1] + 500) | st.sampled_from([off[-1] - near, near, max(0, near - 1), near + 1]))
    return off, nbytes, keep


@settings(deadline=None)
@given(questions())
def test_first(question: tuple[list[int], int, int]) -> None:
    off, nbytes, keep = question
    fitting = [slot for slot in range(keep, len(off)) if off[-1] - off[slot] >= nbytes]
    assert first(off, nbytes, keep) == max(fitting, default=-1)


@settings(deadline=None)
@given(questions())
def test_floor(question: tuple[list[int], int, int]) -> None:
    off, nbytes, keep = question
    fitting = [slots for slots in range(keep, len(off)) if off[slots] - off[keep] >= nbytes]
    assert floor(off, nbytes, keep) == min(fitting, default=-1)


@settings(deadline=None)
@given(questions(), st.integers(1, 3000))
def test_what_stays_mapped_is_whole_pieces(question: tuple[list[int], int, int], quantum: int) -> None:
    off, _, slots = question
    assert mapped(off, slots, quantum) == min(n for n in range(0, off[slots] + quantum, quantum) if n >= off[slots])


def test_a_published_tail() -> None:
    """A cache of 8.09 GiB in pieces of 64 MiB, 1,400 MiB asked: 22 x 64 + 34 = 1,442 MiB. Checked here is that 1,442
    MiB is the smallest end of whole pieces with a short last one that holds 1,400; the last piece is inferred."""
    pieces = [64] * 129 + [34]
    ends = [sum(pieces[-count:]) for count in range(1, len(pieces) + 1)]
    assert min(end for end in ends if end >= 1400) == 1442 == 22 * 64 + 34
    assert abs(sum(pieces) / 1024 - 8.09) < 0.01


@pytest.mark.parametrize(("nbytes", "keep"), [(-1, 0), (0, -1), (0, 4)])
def test_senseless_questions(nbytes: int, keep: int) -> None:
    for ask in (first, floor):
        with pytest.raises(StrataError, match="expected 0 or more, and 0 to 3 slots"):
            ask([0, 10, 20, 30], nbytes, keep)
