"""A card of capability 75 follows one of two readings, and the run says which; one that mixes them fails."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.executors.base import Executor
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import PATHS
from tests.validation.stub import LanesCard, asked_before, other_plans
from validation.__main__ import main
from validation.core.entry import Planned
from validation.core.memo import Memo
from validation.core.settings import Settings
from validation.core.verdict import Check, Verdict
from validation.numerics.rounding_hypotheses import Followed, followed
from validation.operations.attention import plan
from validation.operations.attention.kernels import ATTENTION
from validation.operations.attention.operation import judged as run_attention
from validation.operations.attention.pools import Inputs, build
from validation.operations.kv_pack.case import Case
from validation.parity import command as parity
from validation.run.executors import ExecutorPool
from validation.run.runner import Executors

TENSOR, PLAIN = PATHS["prompt_attention/int8/sm75"], PATHS["decode_attention/int8/simt"]
CASE = Case("signed_decades", 5, 70, 2, 4)
BLOCK8, BLOCK4 = "sm_75", "sm_75_block4"


def lanes(rule: str) -> Executor:
    return LanesExecutor(rule=rule)


def prediction(card: Executor, case: Case = CASE, predict: str = "all", path: Any = TENSOR) -> Check:
    """The prediction check of a case."""
    settings = Settings(predict=predict, predictor=lanes)
    found = run_attention(case, path, card, settings, Memo())
    return next(check for check in found.checks if check.name == "prediction")


@pytest.mark.parametrize("predict", ["all", "sample"])
@pytest.mark.parametrize("rule", [BLOCK8, BLOCK4])
def test_a_card_of_either_reading_is_exact_and_said_to_follow_it(rule: str, predict: str) -> None:
    check = prediction(LanesCard(rule), predict=predict)
    assert check.verdict is Verdict.EXACT
    assert check.figures["readings"] == [rule]
    assert check.figures["rule"] == rule
    assert check.figures["differing"] == 0


def test_a_card_of_neither_reading_exceeds_and_names_the_nearest() -> None:
    check = prediction(LanesCard("sm_90"))
    assert check.verdict is Verdict.EXCEEDS
    assert check.figures["readings"] == []
    assert check.reason.startswith("no reading of the card, nearest sm_75")


def test_a_case_that_is_partly_one_and_partly_the_other_exceeds() -> None:
    inputs = build(CASE, TENSOR.mode)
    out = {rule: ATTENTION["prompt_attention"].run(lanes(rule), TENSOR, inputs).out for rule in (BLOCK8, BLOCK4)}
    assert (out[BLOCK8][0] != out[BLOCK4][0]).any()
    assert (out[BLOCK8][1] != out[BLOCK4][1]).any()

    def launch(executor: Executor, path: Any, inputs: Inputs) -> Any:
        outcome = ATTENTION["prompt_attention"].run(executor, path, inputs)
        if executor.name == "cuda":  # answers query 0 by one reading and the others by the other
            outcome.out[0] = out[BLOCK4][0]
        return outcome

    operations = {**ATTENTION, "prompt_attention": replace(ATTENTION["prompt_attention"], run=launch)}
    settings = Settings(predict="all", predictor=lanes)
    found = run_attention(CASE, TENSOR, LanesCard(BLOCK8), settings, Memo(), operations)
    check = next(check for check in found.checks if check.name == "prediction")
    assert check.verdict is Verdict.EXCEEDS
    assert check.figures["readings"] == []


def test_paths_without_tensor_cores_and_other_cards_have_no_readings() -> None:
    assert "readings" not in prediction(LanesCard(BLOCK4), path=PLAIN).figures
    assert "readings" not in prediction(LanesCard("sm_90", 90)).figures


def result(case: str, names: list[str] | None, verdict: Verdict = Verdict.EXACT) -> dict[str, Any]:
    figures = {} if names is None else {"readings": names}
    checks = [{"name": "prediction", "verdict": verdict.value, "reason": "", "figures": figures}]
    return {"path": "p", "case": case, "checks": checks}


BOTH = [BLOCK8, BLOCK4]


@pytest.mark.parametrize(
    ("names", "agree", "common", "text"),
    [
        ([], True, (), ""),
        ([None], True, (), ""),
        ([BOTH, BOTH], True, (BLOCK8, BLOCK4), "nothing told the readings of this card apart: block 8 and block 4"),
        ([BOTH, [BLOCK8]], True, (BLOCK8,), "this card follows block 8 in 2 cases, 1 of which tell"),
        ([[BLOCK4]], True, (BLOCK4,), "this card follows block 4 in 1 case, 1 of which tell the two readings apart"),
        ([BOTH, [BLOCK8], [BLOCK4]], False, (), "EXCEEDS this card follows no one reading in 3 cases: block 4 alone"),
    ],
)
def test_cases_together(names: list[Any], agree: bool, common: tuple[str, ...], text: str) -> None:
    got = followed(result(str(index), each) for index, each in enumerate(names))
    assert got.agree == agree
    assert got.common == common
    assert got.text().startswith(text)
    assert bool(got.text()) == bool(text)
    assert "\n" not in got.text()
    json.dumps(got.record())


def test_a_failed_prediction_follows_nothing() -> None:
    assert followed([result("a", [], Verdict.EXCEEDS), result("b", BOTH, Verdict.VOID)]) == Followed(())


def run_on(
    rules: dict[str, str], monkeypatch: pytest.MonkeyPatch, out: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any], str]:
    """The command on a stand-in card that follows a rule in each recipe."""
    asked_before(monkeypatch)
    cards = {rule: LanesCard(rule) for rule in set(rules.values())}

    def opened(name: str, **options: Any) -> Any:
        return LanesExecutor(rule=options["rule"]) if name == "lanes" else cards[next(iter(rules.values()))]

    def of(self: ExecutorPool, job: Any, options: Any) -> Any:
        return Executors(cards[rules[job.case.recipe]], None, "python -m validation parity")

    monkeypatch.setattr(parity, "ExecutorPool", partial(ExecutorPool, open=opened))
    monkeypatch.setattr(ExecutorPool, "of", of)
    monkeypatch.setitem(plan.LISTS, "quick", lambda seed: [Planned(Case(recipe, seed, 70, 2, 4)) for recipe in rules])
    other_plans(monkeypatch)
    words = ["parity", "--executor", "cuda", "--paths", TENSOR.name, "--predict", "all", "--seed", "5"]
    status = main([*words, "--out", str(out)])
    return status, json.loads((out / "run.json").read_text()), capsys.readouterr().out


@pytest.mark.parametrize(("rule", "block"), [(BLOCK8, 8), (BLOCK4, 4)])
def test_a_run_says_which_reading_the_card_follows(
    rule: str, block: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, got, shown = run_on({"uniform": rule, "all_absent": rule}, monkeypatch, tmp_path, capsys)
    assert status == 0
    assert got["passed"] is True
    assert got["readings"] == {
        "cases": 2,
        "followed": [rule],
        "agree": True,
        "told_apart": got["readings"]["told_apart"],
    }
    assert got["readings"]["told_apart"][rule] == 1
    assert f"this card follows block {block} in 2 cases, 1 of which tell the two readings apart" in shown


def test_a_run_that_mixes_readings_fails_though_every_case_passes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, got, shown = run_on({"uniform": BLOCK8, "signed_decades": BLOCK4}, monkeypatch, tmp_path, capsys)
    assert [case["verdict"] for case in got["cases"]] == ["EXACT", "EXACT"]
    assert status == 1
    assert got["passed"] is False
    assert got["readings"]["agree"] is False
    assert "EXCEEDS this card follows no one reading in 2 cases" in shown


def test_a_run_in_which_nothing_tells_them_apart_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, got, shown = run_on({"all_absent": BLOCK4}, monkeypatch, tmp_path, capsys)
    assert status == 0
    assert got["readings"]["followed"] == [BLOCK8, BLOCK4]
    assert np.array_equal(list(got["readings"]["told_apart"].values()), [0, 0])
    assert "nothing told the readings of this card apart: block 8 and block 4 give the same bits in 1 case" in shown
