"""Accepting: with a reason, from a whole run that passed; what it changes is kept with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strata.executors.base import StrataError, source_digests
from tests.validation.ledger.test_review import PATH, RECIPE, cases, held
from validation.__main__ import main
from validation.ledger import command as ledger_command
from validation.ledger import floor, ledger, slack_statistics
from validation.ledger.ledger import Ledger
from validation.ledger.slack_statistics import Family
from validation.run.plan import SEED
from validation.run.run_file import SCHEMA


def record(results: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "status": "complete",
        "plan": {"profile": "quick", "seed": SEED, "rule": "sm_90"},
        "planned": len(results),
        "cases": results,
        "not_run": [],
        "sources": source_digests(),
        "controls": 3,
        "failed": [],
        "readings": {"agree": True},
    } | changes


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of its own."""
    path = tmp_path / "ledger.json"
    ledger.save(held(), path)
    monkeypatch.setattr(ledger, "FILE", path)
    monkeypatch.setattr(floor, "of_ledger", lambda _: floor.load().sections["ledger"])  # the real one lost nothing
    return path


def written(directory: Path, run: dict[str, Any]) -> str:
    path = directory / "run.json"
    path.write_text(json.dumps(run))
    return str(path)


def test_accepting_writes_figures_reason_and_history(file: Path, tmp_path: Path) -> None:
    results = cases(0.5)
    moved = [
        result | {"checks": cases(0.9)[0]["checks"]} if result["recipe"] == "flat" else result for result in results
    ]
    assert main(["ledger", "--accept", written(tmp_path, record(moved)), "--reason", "a new sum"]) == 0
    got = ledger.load(file)
    assert got.sections["sm_90", "quick"] == slack_statistics.of_results(moved)
    (entry,) = got.history
    assert entry["reason"] == "a new sum"
    assert entry["date"]
    assert entry["families"] == [f"{PATH} flat"]
    assert (entry["added"], entry["changed"], entry["removed"]) == (0, 1, 0)
    assert entry["up"]["old"] == 0.5
    assert entry["up"]["new"] == 0.9
    assert main(["ledger", "--accept", written(tmp_path, record(results)), "--reason", "back again"]) == 0
    assert [one["reason"] for one in ledger.load(file).history] == ["a new sum", "back again"]


def test_families_of_other_paths_stay_and_those_of_no_profile_go() -> None:
    other = "prompt_attention/fp16/sm75"
    section = {
        **slack_statistics.of_results(cases(path=other)),
        ("prompt_attention/fp4/sm75", "flat"): Family(1, "d", {}),
    }
    new, entry = ledger_command.accept(Ledger({("sm_90", "quick"): section}), record(cases()), "why", "today")
    assert {path for path, _ in new.sections["sm_90", "quick"]} == {PATH, other}
    assert entry["removed"] == 1
    assert entry["added"] == len(slack_statistics.of_results(cases()))


@pytest.mark.parametrize("words", [[], ["--reason", ""], ["--reason", "  "]])
def test_a_reason_is_required(file: Path, tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    before = file.read_bytes()
    assert main(["ledger", "--accept", written(tmp_path, record(cases(0.9))), *words]) == 2
    assert "--reason is empty" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_a_reason_alone_accepts_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "--reason", "why"]) == 2
    assert "--accept RUN.json" in capsys.readouterr().err


def _broken_family() -> list[dict[str, Any]]:
    """The cases without one of a family of several."""
    results = cases()
    recipes = [result["recipe"] for result in results]
    del results[next(index for index, recipe in enumerate(recipes) if recipes.count(recipe) > 1)]
    return results


def _changed(index: int, **changes: Any) -> list[dict[str, Any]]:
    results = cases()
    results[index] = results[index] | changes
    return results


_BROKEN = [{"name": "bound", "figures": {"slack": "NaN", "rms": 0.1, "compared": 1}}]
_PLAN = {"profile": "quick", "seed": SEED, "rule": "sm_90"}


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (record(_changed(2, verdict="EXCEEDS")), "1 cases of the run did not pass"),
        (record(_changed(2, verdict="VOID")), "did not pass"),
        (record(_changed(2, verdict="NOT_RUN")), "did not pass"),
        (record(_changed(2, verdict="FINE")), "no complete run.json"),
        (record(_changed(2, checks=_BROKEN)), "not a finite number"),
        (record(cases(), status="interrupted"), "interrupted"),
        (record(cases(), status="running"), "running"),
        (record(cases(), status="failed"), "failed"),
        (record(cases(), planned=99), "of 99 cases"),
        (record(cases(), not_run=[{"case": "x"}]), "expected a complete one"),
        (record([]), "0 of 0 cases"),
        (record(cases(), plan=_PLAN | {"profile": None}), "profile None"),
        (record(cases(), plan=_PLAN | {"profile": "full"}), "profile full"),
        (record(cases(), plan=_PLAN | {"seed": SEED + 1}), f"seed {SEED + 1}"),
        (record(cases(), plan=_PLAN | {"rule": None}), "rule None"),
        (record(_broken_family()), "whole families"),
        (record(_changed(2, case="recipe=flat seed=1 context=4 queries=1")), "whole families"),
        (record([cases()[0] | {"recipe": "captured"}]), "whole families"),
        ({"schema": SCHEMA}, "no complete run.json"),
        ({"schema": "another"}, "expected schema"),
        ({}, "expected schema"),
    ],
)
def test_refuses_what_is_not_a_whole_run_that_passed(
    file: Path, tmp_path: Path, run: dict[str, Any], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = file.read_bytes()
    assert main(["ledger", "--accept", written(tmp_path, run), "--reason", "why"]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1
    assert file.read_bytes() == before


@pytest.mark.parametrize("text", ["", "[1", "\x00"])
def test_a_file_that_is_no_run_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(StrataError, match="cannot be read"):
        ledger_command.read_run(path)
    with pytest.raises(StrataError, match="No such file"):
        ledger_command.read_run(tmp_path / "none.json")


def test_the_table_shows_paths_families_and_the_median(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger"]) == 1  # it is of one path, and says so
    shown = capsys.readouterr().out
    assert "has no figures of it" in shown
    assert PATH in shown
    assert RECIPE not in shown.partition("\nledger: ")[0]
    assert "families: 0.5" in shown
    assert main(["ledger", "--families"]) == 1
    assert RECIPE in capsys.readouterr().out


def test_the_run_of_a_record_is_taken_for_its_profile(file: Path, tmp_path: Path) -> None:
    """Such a run has the required sizes besides, and each case of the profile once."""
    results = cases(0.5)
    beside = [result | {"case": f"{result['case']}0"} for result in results[:1]]
    run = record([*results, *beside], for_record=True)
    assert main(["ledger", "--accept", written(tmp_path, run), "--reason", "first"]) == 0
    run = record([*results, *beside])
    assert main(["ledger", "--accept", written(tmp_path, run), "--reason", "first"]) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sources": {"prompt_attention.cu": "0" * 64}}, "other kernel sources"),
        ({"sources": None}, "other kernel sources"),
        ({"controls": 0}, "controls failed or were not asked"),
        ({"failed": ["within/nan"]}, "controls failed or were not asked"),
        ({"readings": {"agree": False}}, "two readings"),
        ({"readings": None}, "two readings"),
    ],
)
def test_a_run_that_is_worth_nothing_is_not_accepted(
    changes: dict[str, Any], said: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = file.read_bytes()
    words = ["ledger", "--accept", written(tmp_path, record(cases(0.5), **changes)), "--reason", "first"]
    assert main(words) == 2
    assert said in capsys.readouterr().err
    assert file.read_bytes() == before
