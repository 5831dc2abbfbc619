"""Cards by their names, drivers by their CUDA, and what tensor cores of each rule answer."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from strata.device import PINNED_ARCHS
from strata.executors.lanes import RULES
from validation.record.identify import names
from validation.record.rules.origin import CARDS, DRIVERS, expected_vectors


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("Tesla T4", 75),
        ("NVIDIA GeForce RTX 2060", 75),
        ("NVIDIA GeForce RTX 2080 Ti", 75),
        ("NVIDIA TITAN RTX", 75),
        ("Quadro RTX 8000", 75),
        ("NVIDIA GeForce GTX 1660 Ti", 75),
        ("NVIDIA A100-SXM4-80GB", 80),
        ("NVIDIA GeForce RTX 3090", 86),
        ("NVIDIA A10G", 86),
        ("NVIDIA RTX A6000", 86),
        ("NVIDIA GeForce RTX 4090", 89),
        ("NVIDIA L4", 89),
        ("NVIDIA L40S", 89),
        ("NVIDIA H100 80GB HBM3", 90),
        ("NVIDIA H200", 90),
        ("NVIDIA B200", 100),
        ("NVIDIA GeForce RTX 5090", 120),
    ],
)
def test_a_card_has_one_capability(name: str, capability: int) -> None:
    assert [known for words, known in CARDS.items() if re.search(words, name)] == [capability]


@pytest.mark.parametrize("name", ["NVIDIA RTX PRO 6000", "a card that is not here", "NVIDIA RTX 6000 Ada"])
def test_nothing_is_said_of_other_cards(name: str) -> None:
    assert not any(re.search(words, name) for words in CARDS)


def test_the_tables_know_what_the_project_compiles_for() -> None:
    known = {capability for archs in PINNED_ARCHS.values() for capability in archs}
    assert set(CARDS.values()) <= known
    assert set(DRIVERS) == set(PINNED_ARCHS)


def test_vectors_tell_the_rules_apart() -> None:
    """As far as rules differ: those of one block and F are one rule."""
    answers = {
        name: tuple(bits for k in (8, 16) for bits in expected_vectors(rule, k))
        for name, rule in RULES.items()
        if rule.block
    }
    assert all(len(found) == len(names(8)) + len(names(16)) for found in answers.values())
    for one, two in combinations(answers, 2):
        assert (answers[one] == answers[two]) == (RULES[one] == RULES[two]), (one, two)
