"""An edition's plan stays what it was, later cases stand behind it, and a record of each accepted one is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ci.accepted import accepted
from fixtures.records import bases
from strata.executors.base import StrataError, source_digests
from strata.gates.evidence import plan_digest
from strata.kernels.paths import PATHS, Path, select
from tests.validation.record.forging import base
from validation.core.editions import EDITIONS, NEWEST, Edition
from validation.core.entry import Planned
from validation.operations.attention import plan
from validation.operations.kv_pack.case import Case
from validation.record.canonical import encode, name_of
from validation.record.rules.subject import Planner, Subject, standard_plan
from validation.record.verify import Against, cheap, examine
from validation.run import plan as profiles
from validation.run.plan import Entry

#: Digests of what edition 1 plans for all paths that take a kind of data, at seed 1.
FIRST = {
    ("prompt_attention/*", "quick"): "2829500072ccfd7e",
    ("prompt_attention/*", "standard"): "7d3748d9373e5e70",
    ("prompt_attention/*", "full"): "3267162ade40ae42",
    ("expert_*", "quick"): "350def4f5b5f6dae",
    ("expert_*", "standard"): "cc2c23ad2f72b2e3",
    ("expert_*", "full"): "b97cad7e1e10ed0a",
    ("kv_pack/*", "quick"): "bde149a9e8a75bdb",
    ("router/*", "quick"): "e95f0a2e7133938a",
    ("combine/*", "quick"): "2c3cb8496d6bfa32",
}
SMALL = Case("uniform", 1, 41, 1)


def pairs(paths: Sequence[Path], profile: str, edition: int) -> list[tuple[str, str]]:
    jobs = profiles.plan(paths, profiles.entries(1, profile, paths, edition), lanes=True)
    return [(job.path.name, job.case.text()) for job in jobs]


def test_editions_are_numbered_from_one_and_each_says_in_a_sentence_what_it_brought() -> None:
    assert [edition.number for edition in EDITIONS] == list(range(1, NEWEST + 1))
    assert all(edition.brought.endswith(".") and edition.brought.count(".") == 1 for edition in EDITIONS)
    assert EDITIONS[-1].accepted
    with pytest.raises(StrataError, match=f"edition 0 of the plans is not known, expected 1..{NEWEST}"):
        profiles.entries(1, "quick", select("router/*"), 0)


@pytest.mark.parametrize("profile", profiles.PROFILES)
def test_the_third_edition_is_the_second_and_attention_over_chosen_cells(profile: str) -> None:
    """Nothing else came, and nothing that was there has another place, build or schedule."""
    paths = list(PATHS.values())
    older, newer = (
        profiles.plan(paths, profiles.entries(1, profile, paths, edition), lanes=True) for edition in (2, 3)
    )
    brought = [job for job in newer if job.case.recipe == plan.SELECTED]
    assert [job for job in newer if job not in brought] == older
    held = {job.path.name for job in brought}
    assert held == {path.name for path in PATHS.values() if path.operation in ("prompt_attention", "decode_attention")}
    lengths = {job.case.context % 4 for job in brought if isinstance(job.case, Case)}
    assert len(brought) == len(held) * (1 if profile == "quick" else 3)
    assert lengths == ({1} if profile == "quick" else {1, 2, 3})


@pytest.mark.parametrize(("paths", "profile"), FIRST)
def test_the_first_edition_plans_what_it_planned(paths: str, profile: str) -> None:
    """Records hold it: a change of its cases or of their order voids them."""
    assert plan_digest(pairs(select(paths), profile, 1))[:16] == FIRST[paths, profile]


@pytest.mark.parametrize("profile", profiles.PROFILES)
@pytest.mark.parametrize("paths", ["prompt_attention/*", "kv_pack/*", "expert_*", "router/*", "combine/*"])
def test_an_edition_begins_with_the_one_before(paths: str, profile: str) -> None:
    chosen = select(paths)
    for edition in EDITIONS[1:]:
        before = profiles.entries(1, profile, chosen, edition.number - 1)
        assert profiles.entries(1, profile, chosen, edition.number)[: len(before)] == before


def test_a_case_of_a_later_edition_stands_behind_wherever_it_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    first, later = Entry(SMALL), Entry(replace(SMALL, queries=2), edition=NEWEST)
    listed = [Planned(later.case, edition=NEWEST), Planned(SMALL)]
    monkeypatch.setitem(plan.LISTS, "quick", lambda seed: listed)
    paths = select("prompt_attention/q4_0/*")
    assert profiles.entries(1, "quick", paths) == [first, later]
    assert profiles.entries(1, "quick", paths, 1) == [first]


def test_every_accepted_record_holds_the_plan_of_an_accepted_edition() -> None:
    """The records as they are; none is void by cases that came after it."""
    found = list(accepted())
    assert found
    for one in found:
        subject = Subject(one.value, one.record.sources)
        planned = [(path.name, case.text()) for path, case in subject.pairs]
        assert (subject.edition.accepted, plan_digest(planned)) == (True, one.record.plan_digest)


def fewer(paths: Sequence[Path], profile: str, seed: int) -> list[tuple[Path, Any]]:
    """A plan that no fixture holds."""
    return bases.planned(paths, profile, seed)[:1]


def refused(value: dict[str, Any], *earlier: tuple[Edition, Planner]) -> list[tuple[str, str]]:
    found = cheap(Subject(value, source_digests(), fewer, earlier))
    return [(refusal.rule, refusal.reason) for refusal in found]


def test_a_record_of_an_earlier_edition_is_accepted_and_the_verifier_says_which_it_holds() -> None:
    data = encode(base("hopper")["record"])
    file = f"{name_of(data)}.json"
    outcome = examine(data, file, Against(fewer, None, earlier=((EDITIONS[0], bases.planned),)))
    assert outcome.accepted
    assert outcome.notes[-1] == f"it holds edition 1 of the plan of profile quick; the newest is {NEWEST}"
    outcome = examine(data, file, Against(bases.planned, None, earlier=((EDITIONS[0], fewer),)))
    assert outcome.notes[-1] == f"it holds edition {NEWEST} of the plan of profile quick; the newest"


def test_a_record_of_an_edition_that_is_not_accepted_any_more_is_refused_by_its_number() -> None:
    first = replace(EDITIONS[0], accepted=False)
    assert refused(base("hopper")["record"], (first, bases.planned)) == [
        (
            "plan",
            f"it holds edition 1 of profile quick, which is not accepted any more: expected edition {NEWEST}",
        )
    ]


def test_a_record_of_no_edition_is_refused() -> None:
    said = [reason for rule, reason in refused(base("hopper")["record"], (EDITIONS[0], fewer)) if rule == "plan"]
    assert said[0] == "it planned 2 cases, profile quick has 1 for these paths"
    assert said[1] == "its plan is another than that of profile quick at seed 1, in any edition"


def test_two_editions_with_the_same_cases_for_some_paths_are_the_later_one() -> None:
    subject = Subject(base("hopper")["record"], source_digests(), bases.planned)
    assert subject.edition == EDITIONS[-1]


def test_a_new_record_holds_the_newest_edition() -> None:
    paths = [PATHS["prompt_attention/q4_0/sm80"]]
    jobs = profiles.record_plan(paths, "quick", 1)
    assert [(job.path, job.case) for job in jobs] == standard_plan(paths, "quick", 1)
