"""The table of mutants: every entry applies to the sources as they are, and names what exists."""

from __future__ import annotations

import pytest

from strata.kernels.paths import select
from validation.mutants.faults import table
from validation.mutants.faults.decode_attention import DECODE
from validation.mutants.faults.prompt_attention import PROMPT
from validation.mutants.mutant import ROOT, Mutant, changed
from validation.operations.registry import recipes_of_all

TABLE = table()
RECIPES = set(recipes_of_all())
#: The design's limit of mutants that only a card can judge.
MOST_ON_A_CARD = 5


@pytest.mark.parametrize("mutant", TABLE.values(), ids=TABLE)
def test_it_applies_to_the_sources_as_they_are(mutant: Mutant) -> None:
    for edit in mutant.edits:
        source = (ROOT / edit.file).read_text()
        assert changed(mutant.name, edit, source) != source


@pytest.mark.parametrize("mutant", TABLE.values(), ids=TABLE)
def test_it_names_what_exists(mutant: Mutant) -> None:
    assert mutant.why.endswith(".")
    assert select(mutant.paths)
    assert set(mutant.recipes) <= RECIPES
    assert all((ROOT / test).exists() for test in mutant.tests)
    assert bool(mutant.shown) <= bool(mutant.device)


def test_no_two_entries_are_the_same_fault() -> None:
    assert len({mutant.edits for mutant in TABLE.values()}) == len(TABLE)


def test_few_need_a_card() -> None:
    assert sum(bool(mutant.device) for mutant in TABLE.values()) <= MOST_ON_A_CARD


def test_every_barrier_of_the_attention_kernels_has_a_mutant() -> None:
    for file, name in ((PROMPT, "prompt"), (DECODE, "decode")):
        source = (ROOT / file).read_text()
        for call, kind in (("__syncthreads();", "block-barrier"), ("__syncwarp();", "warp-barrier")):
            found = [one for one in TABLE if one.startswith(f"{name}-{kind}-")]
            assert len(found) == source.count(call)
    assert (ROOT / PROMPT).read_text().count("__sync") == 6
