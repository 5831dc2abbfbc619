"""Traces that random ones meet rarely, step by step: each is held against the model, with the invariants after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from validation.memory.machine import ROWS, Traces
from validation.memory.world import BYTES, EXPERTS


def opened(kind: str = "uniform", unfilled: int = 0) -> Traces:
    state = Traces()
    state.open(kind=kind, verify_all=False, unfilled=unfilled)
    return state


def misses(state: Traces) -> list[int]:
    return [row for row in range(ROWS) if row not in state.model.where and row not in state.model.landing]


def empty_slots_are_borrowed(state: Traces) -> None:
    """A prompt borrows slots that no row names: nobody is admitted there, and LEND waits."""
    size = state.model.mapped - state.model.off[state.model.slots - 3]
    state.prompt(nbytes=size, keep=0, stop=False)
    state.admit(row=misses(state)[0])
    state.lend(mib=1)
    state.read_on()
    state.refill()


def a_slot_is_in_flight(state: Traces) -> None:
    """A swap's copy is on its way: its slot is not free and its row is nobody else's, however often it is asked."""
    state.use_and_swap(rows=misses(state)[:3])
    incoming = next(iter(state.model.landing))
    for row in (incoming, *misses(state)[:3], incoming):
        state.admit(row=row)
        state.all_is_well()
    state.window()


def a_swap_lands_after_somebody_else_waited(state: Traces) -> None:
    """Admitting waits for all copies; a swap that has landed by that is still not promoted, and its slot not free."""
    state.shrink(keep=1)
    state.use_and_swap(rows=misses(state)[:2])
    for row in (*misses(state)[:2], *misses(state)[:2]):
        state.admit(row=row)
        state.all_is_well()
    state.window()


def lent_rows_are_used(state: Traces) -> None:
    """Misses because of a loan become hot: they are no candidates, and come home once."""
    state.lend(mib=1)
    assert state.model.lent
    state.use_and_swap(rows=list(state.model.lent))
    state.all_is_well()
    for row in list(state.model.lent)[:4]:
        state.admit(row=row)
    state.window()
    state.reclaim()


def evicted_rows_are_elsewhere(state: Traces) -> None:
    """What left a smaller cache becomes resident in what is left, and the cache grows again."""
    state.shrink(keep=BYTES // 2)
    state.use_and_swap(rows=list(state.model.evicted.values())[: EXPERTS // 2])
    state.all_is_well()
    state.shrink(keep=BYTES // 4)
    state.use_and_swap(rows=list(state.model.evicted.values())[: EXPERTS // 4])
    state.grow(want=BYTES // 2)
    state.all_is_well()
    state.grow(want=BYTES)


def a_reader_still_runs(state: Traces) -> None:
    """Kernels of a window still read when memory is lent, and when a cache is made smaller."""
    state.window()
    state.lend(mib=1)
    state.all_is_well()
    state.reclaim()
    state.window()
    state.shrink(keep=BYTES // 2)


def a_borrower_is_slow(state: Traces) -> None:
    """What was lent is taken by another process, which leaves later; a refused RECLAIM changes nothing."""
    state.lend(mib=1)
    state.borrower_comes(share=4)
    state.reclaim()
    state.all_is_well()
    state.lend(mib=2)
    state.reclaim()
    state.borrower_leaves()
    state.reclaim()


def a_prompt_below_a_loan(state: Traces) -> None:
    """While memory is lent a prompt borrows what is left; RECLAIM waits for it."""
    state.lend(mib=1)
    state.prompt(nbytes=1000, keep=0, stop=False)
    state.reclaim()
    state.all_is_well()
    state.prompt(nbytes=200_000, keep=0, stop=False)
    state.all_is_well()
    state.refill()
    state.reclaim()


def a_loan_is_refused_and_asked_for_again(state: Traces) -> None:
    """Refused LENDs take no row, whatever they are refused for; a second one answers as the first and takes no more."""
    state.lend(mib=1 << 20)
    state.lend(mib=1, least=state.model.slots + 1)
    state.all_is_well()
    state.lend(mib=1, absent=range(ROWS))
    state.all_is_well()
    state.lend(mib=1)
    state.all_is_well()
    for mib in (1, 2, 1 << 20):
        state.lend(mib=mib)
        state.all_is_well()
    state.reclaim()


@pytest.mark.parametrize(
    "situation",
    [
        a_loan_is_refused_and_asked_for_again,
        empty_slots_are_borrowed,
        a_slot_is_in_flight,
        a_swap_lands_after_somebody_else_waited,
        lent_rows_are_used,
        evicted_rows_are_elsewhere,
        a_reader_still_runs,
        a_borrower_is_slow,
        a_prompt_below_a_loan,
    ],
)
@pytest.mark.parametrize(("kind", "unfilled"), [("uniform", 0), ("sized", 0), ("uniform", 3)])
def test_situation(situation: Callable[[Traces], None], kind: str, unfilled: int) -> None:
    state = opened(kind, unfilled)
    situation(state)
    state.all_is_well()
    state.window()
    state.all_is_well()
    state.teardown()
