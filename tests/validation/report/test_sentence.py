"""What the page says first: only a run or record of which everything passed is green."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.validation.report.evidence import case, run
from validation.core.verdict import Verdict
from validation.report.from_run import of_run
from validation.report.read import Evidence
from validation.report.sentence import Tone, of_evidence, of_source
from validation.report.source import Source, Verified


def source(**changes: Any) -> Source:
    return of_run(run([case(seed=seed) for seed in range(3)], **changes), "run.json")


def record(**changes: Any) -> Source:
    return replace(source(), kind="record", name="ab" * 32, **changes)


ACCEPTED = Verified("ab" * 32, True, "ACCEPTED", file="verified.json")


def test_a_run_whose_cases_all_passed_is_green() -> None:
    sentence = of_source(source())
    assert sentence.tone is Tone.PASSED
    assert sentence.text == "All 3 planned cases passed on what its author calls Test Card."


@pytest.mark.parametrize("verdict", [*(v.value for v in Verdict if not v.passes), "", "exact", "PASSED"])
def test_any_other_verdict_of_one_case_is_a_failure(verdict: str) -> None:
    told = run([case(), case(verdict=verdict)], passed=True)
    sentence = of_source(of_run(told, "run.json"))
    assert sentence.tone is Tone.FAILED
    if verdict != "NOT_RUN":
        assert sentence.text.startswith("1 case of 2 planned did not pass")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": "interrupted"}, "Interrupted"),
        ({"status": "running"}, "Unfinished"),
        ({"status": "failed"}, "Broken off"),
        ({"planned": 9}, "Incomplete: 3 of 9"),
        ({"planned": 2}, "Incomplete"),
        ({"controls": 0}, "controls"),
        ({"failed": ["a control"]}, "controls"),
        ({"readings": {"agree": False}}, "arithmetic"),
        ({"readings": None}, "arithmetic"),
        ({"ledger": {"ok": False, "drifts": [{"figure": "max"}]}}, "ledger"),
        ({"passed": False}, "the file itself"),
    ],
)
def test_what_else_keeps_a_run_from_passing(changes: dict[str, Any], words: str) -> None:
    sentence = of_source(source(**changes))
    assert sentence.tone is Tone.FAILED
    assert words in " ".join([sentence.text, *sentence.more])


def test_nothing_run_proves_nothing() -> None:
    sentence = of_source(of_run(run([]), "run.json"))
    assert sentence.tone is Tone.FAILED
    assert sentence.text.startswith("Nothing was run")
    void = of_source(of_run(run([], planned=3, failed=["nan: accepted"]), "run.json"))
    assert void.text.startswith("No case was run")
    assert of_evidence(Evidence([])).tone is Tone.FAILED


def test_a_record_is_green_only_when_it_was_accepted() -> None:
    assert of_source(record()).tone is Tone.OPEN
    assert of_source(record(verified=ACCEPTED)).tone is Tone.PASSED
    assert of_source(record(verified=replace(ACCEPTED, outcome="ACCEPTED without bits"))).tone is Tone.OPEN
    refused = of_source(record(verified=Verified("ab" * 32, False, "REFUSED", ["rows: wrong"])))
    assert refused.tone is Tone.FAILED
    assert refused.more == ["rows: wrong"]


@pytest.mark.parametrize("verified", [None, ACCEPTED, replace(ACCEPTED, outcome="ACCEPTED without bits")])
def test_no_file_says_which_card_it_was(verified: Verified | None) -> None:
    """Its author does; and a file that says that the verifier accepted is named."""
    sentence = of_source(record(verified=verified, device="Tesla T4"))
    assert sentence.text.startswith("All 3 planned cases passed on what its author calls Tesla T4")
    assert ("verified.json says that the verifier accepts the record" in sentence.text) is (verified is not None)


def test_a_record_that_holds_a_case_twice_is_a_failure() -> None:
    cases = [source().cases[0]] * 3
    assert of_source(record(cases=cases, verified=ACCEPTED)).tone is Tone.FAILED


def test_one_bad_file_among_good_ones_decides() -> None:
    bad = of_run(run([case(verdict="VOID")]), "bad.json")
    assert of_evidence(Evidence([source(), source()])).tone is Tone.PASSED
    assert of_evidence(Evidence([source(), bad])).tone is Tone.FAILED
    assert of_evidence(Evidence([source(), record()])).tone is Tone.OPEN
    assert of_evidence(Evidence([source()], [("x.json", "no JSON")])).tone is Tone.FAILED


def test_a_record_of_a_run_that_is_here_is_said_beside_it_until_a_verifier_refuses_it() -> None:
    own = record(twin="run.json")
    sentence = of_evidence(Evidence([source(), own]))
    assert sentence.tone is Tone.PASSED
    assert "has not been verified" in sentence.more[0]
    refused = replace(own, verified=Verified("ab" * 32, False, "REFUSED", ["rows: wrong"]))
    assert of_evidence(Evidence([source(), refused])).tone is Tone.FAILED
