"""A thousand steps of random traces; 100,000 with `python -m validation memory traces`."""

from __future__ import annotations

import pytest

from strata.memory.adaptive import AdaptiveTier
from strata.memory.cache import ExpertCache
from strata.memory.loan import TailLoan
from strata.memory.residency import Residency
from strata.memory.verification import Verified
from validation.memory import machine

TRACES, LENGTH, SEED = 25, 50, 7


def test_no_trace_goes_wrong() -> None:
    steps = machine.run(TRACES, LENGTH, SEED)
    assert steps > TRACES * LENGTH // 2
    for name in ("LEND", "RECLAIM", "prompt", "shrink", "grow", "swap", "admit"):
        carried_out, refused = machine.tally[name]
        assert carried_out, name
        assert refused, name


def one_row_late(self: ExpertCache, pairs: list[tuple[int, int]], ledger: object = None) -> None:
    """A copy that has landed is never promoted."""


def forgets_to_wait(self: AdaptiveTier) -> None:
    """Swaps are promoted although their copies are still on their way."""
    landed, self._landing = self._landing, []
    self.cache.promote(landed)


def keeps_rows(self: TailLoan, verify_all: bool = False) -> Verified:
    """Rows come back without their bytes."""
    pairs, self.ledger.first = list(self.ledger), None
    self.cache.promote(pairs, self.ledger)
    return Verified(0, 0, 0)


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
    ],
)
def test_broken_code_is_seen(where: type, what: str, broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where, what, broken)
    with pytest.raises(Exception, match=r".") as caught:
        machine.run(TRACES, LENGTH, SEED, shorten=False)
    assert not isinstance(caught.value, AttributeError)
