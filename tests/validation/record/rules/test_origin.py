"""Cards by their names, drivers by their CUDA, and what tensor cores of each rule answer."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.records.bases import BASES, EXPERTS, planned
from strata.device import PINNED_ARCHS
from strata.executors.base import source_digests
from strata.executors.lanes import RULES
from strata.gates.sources import of_path
from strata.kernels.paths import PATHS
from tests.validation.record.forging import base
from validation.record.identify import names
from validation.record.rules.origin import CARDS, DRIVERS, expected_vectors, sources
from validation.record.rules.subject import Subject

#: What a record may say of each file: today's digest, another, or nothing.
SAID = st.sampled_from(("today", "another", "nothing"))
TODAY = source_digests()
#: Of base records, each of one path.
MADE_OF = {of.name: of_path(PATHS[of.path]) for of in (*BASES, *EXPERTS) if of.name in ("hopper", "experts_turing")}


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


@given(said=st.lists(st.tuples(st.sampled_from([*TODAY, "gone.cu"]), SAID), max_size=8))
@settings(max_examples=30)
def test_the_verifier_asks_for_the_sources_that_the_gate_asks_for(said: list[tuple[str, str]]) -> None:
    """Files of its own paths alone, whatever else has changed, come or gone since it was made."""
    for name, made_of in MADE_OF.items():
        record = base(name)["record"]
        for file, how in said:
            if how == "nothing":
                record["sources"].pop(file, None)
            else:
                record["sources"][file] = TODAY.get(file, "1" * 64) if how == "today" else "0" * 64
        told = list(sources(Subject(record, TODAY, planned)))
        assert [reason.partition(" is ")[0] for reason in told] == made_of.changed(record["sources"], made_of.codebooks)


@pytest.mark.parametrize("name", ["hopper", "experts_turing"])
def test_a_change_of_another_operation_takes_nothing_from_a_record(name: str) -> None:
    """As between a contributor's run and the merge; a change of its own files closes it."""
    record, own = base(name)["record"], MADE_OF[name].files
    others = dict.fromkeys(TODAY.keys() - own.keys(), "0" * 64) | {"new_kernel.cu": "0" * 64}
    assert {"kv_pack.cu", "router.cu"} <= set(others)
    assert list(sources(Subject(record, {**TODAY, **others}, planned))) == []
    for file in own:
        (reason,) = sources(Subject(record, {**TODAY, file: "0" * 64}, planned))
        assert reason.startswith(f"{file} is another")
