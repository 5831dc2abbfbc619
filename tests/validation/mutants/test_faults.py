"""The table of mutants: every entry applies to the sources as they are, and names what exists."""

from __future__ import annotations

from functools import cache

import pytest

from strata.kernels.paths import select
from validation.mutants.faults import table
from validation.mutants.faults.decode_attention import DECODE
from validation.mutants.faults.prompt_attention import PROMPT
from validation.mutants.mutant import ROOT, Mutant, MutantError, changed
from validation.operations.registry import recipes_of_all

TABLE = table()
RECIPES = set(recipes_of_all())
#: The design's limit of mutants that only a card can judge.
MOST_ON_A_CARD = 5
#: Mutants by the file that they change first: one test for each of a thousand would mostly be the harness at work.
BY_FILE: dict[str, list[Mutant]] = {}
for one in TABLE.values():
    BY_FILE.setdefault(one.edits[0].file, []).append(one)


@cache
def source_of(file: str) -> str:
    return (ROOT / file).read_text()


@pytest.mark.parametrize("file", BY_FILE)
def test_they_apply_to_the_sources_as_they_are(file: str) -> None:
    wrong = []
    for mutant in BY_FILE[file]:
        for edit in mutant.edits:
            source = source_of(edit.file)
            try:
                if changed(mutant.name, edit, source) == source:
                    wrong.append(f"{mutant.name} changes nothing")
            except MutantError as error:
                wrong.append(str(error))
    assert wrong == []


@pytest.mark.parametrize("file", BY_FILE)
def test_they_name_what_exists(file: str) -> None:
    wrong = [
        (mutant.name, what)
        for mutant in BY_FILE[file]
        for what, holds in {
            "its reason is a sentence": mutant.why.endswith("."),
            "its paths exist": bool(select(mutant.paths)),
            "its recipes exist": set(mutant.recipes) <= RECIPES,
            "its tests exist": all((ROOT / test).exists() for test in mutant.tests),
            "shown only of one that needs a card": bool(mutant.shown) <= bool(mutant.device),
        }.items()
        if not holds
    ]
    assert wrong == []


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
