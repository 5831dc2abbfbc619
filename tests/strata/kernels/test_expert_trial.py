"""The small expert layer gives the bits that are known, and a card is held to them."""

from __future__ import annotations

import pytest

from strata.executors.lanes import LanesExecutor
from strata.kernels.expert_fused import LARGE, SMALL
from strata.kernels.expert_probe import Card
from strata.kernels.expert_trial import KNOWN, answer, digest, trial_inputs
from tests.strata.kernels.expert_small import Layer, expected


@pytest.mark.parametrize("mode", KNOWN)
def test_known_bits_are_the_models(mode: str) -> None:
    assert digest(expected(Layer(*trial_inputs(mode))).rows) == KNOWN[mode]


def test_trial_bits_are_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = LanesExecutor()
    for mode, known in KNOWN.items():
        assert answer(lanes, mode, 80, (SMALL, SMALL)) == known, mode
    card = Card(lanes)
    assert card.trial("iq3_xxs", 75, LARGE) == ""
    assert card.trial("iq4_nl", 80, LARGE) == ""
    monkeypatch.setitem(KNOWN, "iq3_xxs/q2_0", "0")
    assert "expected 0" in card.trial("iq3_xxs", 75, LARGE)
