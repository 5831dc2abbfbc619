"""Tails of slots, against trying every slot."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.memory.loan.tail import first, floor, mapped, part_slots, sized, uniform, worth_lowering

OFFSETS = st.lists(st.integers(1, 3000), min_size=1, max_size=60).map(sized) | st.builds(
    uniform, st.integers(1, 200), st.integers(1, 3000)
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
@given(OFFSETS, st.integers(0, 200_000))
def test_part_slots(off: list[int], nbytes: int) -> None:
    slots = len(off) - 1
    fitting = [count for count in range(slots + 1) if off[slots] - off[slots - count] >= nbytes]
    assert part_slots(off, nbytes) == min(fitting, default=0)


@settings(deadline=None)
@given(st.integers(1, 500), st.integers(1, 5000), st.integers(1, 100_000))
def test_uniform_slots_are_counted_by_division(slots: int, blob: int, nbytes: int) -> None:
    wanted = -(-nbytes // blob)
    assert part_slots(uniform(slots, blob), nbytes) == (wanted if wanted <= slots else 0)


@settings(deadline=None)
@given(questions(), st.integers(1, 3000), st.integers(-10, 10), st.integers(0, 60))
def test_a_floor_is_lowered_only_for_a_piece(
    question: tuple[list[int], int, int], quantum: int, short: int, lower: int
) -> None:
    off, _, now = question
    lower = min(lower, len(off) - 1)
    worth = worth_lowering(off, now, lower, quantum, short)
    freed = -(-off[now] // quantum) - (-(-off[lower] // quantum))
    assert worth == (short > 0 and freed >= 1)
    assert mapped(off, now, quantum) % quantum == 0


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
            ask(uniform(3, 10), nbytes, keep)
