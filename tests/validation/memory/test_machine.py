"""A thousand steps of random traces; 100,000 with `python -m validation memory traces`."""

from __future__ import annotations

from collections import Counter

import pytest

from strata.executors.base import StrataError
from strata.memory.cache.adaptive import AdaptiveTier
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.cache_resize import TwoSizes
from strata.memory.cache.loan_book import LoanBook
from strata.memory.cache.residency import Residency
from strata.memory.cache.verification import Verified
from strata.memory.loan.output_head import Head
from strata.memory.loan.tail_loan import TailLoan
from validation.memory import machine
from validation.memory.model import REFUSED

TRACES, LENGTH, SEED = 25, 50, 7
SHRINK = TwoSizes.shrink


def test_no_trace_goes_wrong() -> None:
    steps = machine.run(TRACES, LENGTH, SEED)
    assert steps > TRACES * LENGTH // 2
    for name in machine.FLOORS:
        assert machine.tally[name][0], name
    for name in ("LEND", "prompt", "read in the tail", "shrink", "grow", "swap", "admit"):
        assert machine.tally[name][1], name
    assert machine.tally["LEND"][0] >= steps * machine.FLOORS["LEND"] // 1000
    assert machine.tally["RECLAIM"][0] >= steps * machine.FLOORS["RECLAIM"] // 1000
    assert len(machine.boundaries) >= 6  # of one size there would be one for each kind of slots and size of a loan


def test_what_was_done_too_rarely_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "steps", 10_000)
    monkeypatch.setattr(machine, "tally", {name: [10 * floor, 0] for name, floor in machine.FLOORS.items()})
    monkeypatch.setattr(machine, "boundaries", Counter(range(machine.LEAST_BOUNDARIES)))
    assert machine.shortfalls() == []
    machine.tally["LEND"] = [10 * machine.FLOORS["LEND"] - 1, 99_999]
    del machine.tally["STOP"]
    del machine.boundaries[0]
    assert [line.partition(":")[0] for line in machine.shortfalls()] == [
        "LEND",
        "STOP",
        f"LEND began in {machine.LEAST_BOUNDARIES - 1} places, expected at least {machine.LEAST_BOUNDARIES}",
    ]


def test_an_error_is_no_refusal() -> None:
    state = machine.Traces()
    state.open(kind="uniform", verify_all=True, unfilled=0)

    def broken() -> None:
        raise StrataError("not an answer")

    with pytest.raises(StrataError, match="not an answer"):
        state._same("LEND", broken, REFUSED)


def one_row_late(self: ExpertCache, pairs: list[tuple[int, int]], book: object = None) -> None:
    """A copy that has landed is never promoted."""


def forgets_to_wait(self: AdaptiveTier) -> None:
    """Swaps are promoted although their copies are still on their way."""
    landed, self._landing = self._landing, []
    self.cache.promote(landed)


def keeps_rows(self: TailLoan, verify_all: bool = False) -> Verified:
    """Rows come back without their bytes."""
    pairs, self.book.first = list(self.book), None
    self.cache.promote(pairs, self.book)
    return Verified(0, 0, 0)


def never_rests(self: ExpertCache) -> None:
    """Slots change hands while queued kernels still use them."""


def brings_no_head(self: Head) -> None:
    """The head is where it was, with a prompt's bytes."""
    self._present = True


def keeps_its_size(self: TwoSizes, book: LoanBook) -> None:
    """The cache stays as large as it was for the prompt; when the engine opens it is made smaller."""
    if not book.out:
        SHRINK(self, book)


def no_upload(self: Residency) -> None:
    """The device's table stays as it was."""
    self.stale = False


@pytest.mark.parametrize(
    ("where", "what", "broken"),
    [
        (ExpertCache, "promote", one_row_late),
        (AdaptiveTier, "apply_pending", forgets_to_wait),
        (TailLoan, "refill", keeps_rows),
        (Residency, "upload", no_upload),
        (ExpertCache, "rest", never_rests),
        (Head, "load", brings_no_head),
        (TwoSizes, "shrink", keeps_its_size),
    ],
)
def test_broken_code_is_seen(where: type, what: str, broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where, what, broken)
    with pytest.raises(Exception, match=r".") as caught:
        machine.run(TRACES, LENGTH, SEED, shorten=False)
    assert not isinstance(caught.value, AttributeError)
