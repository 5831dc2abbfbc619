"""Block selection on lanes: cases too large for the model are measured in part, differences are counted and proven, and
kernels that are wrong in one place are refused by the check made for it. What is wrong throughout stands in the
controls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from strata.executors.base import Executor, StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import PATHS, Path
from strata.kernels.selection import Result
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.settings import Settings
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Verdict
from validation.operations import registry
from validation.operations.block_select import sampling
from validation.operations.block_select.case import SelectCase
from validation.operations.block_select.operation import BlockSelect
from validation.operations.block_select.scorers import SCORERS, Scorer
from validation.run import runner

CASE = SelectCase("select_near", 3, 700, 6, 300)


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor(rule="sm_90", flavor="checked")


def judged(path: str, case: SelectCase, lanes: Executor, own: Scorer | None = None) -> Findings:
    name = PATHS[path].operation
    operation = BlockSelect(name, {**SCORERS, **({} if own is None else {name: own})})
    return operation.judge(Trial(operation, case, PATHS[path], lanes, Settings(), Memo()))


def refused(found: Findings) -> set[str]:
    return {check.name for check in found.checks if not check.verdict.passes}


@pytest.mark.parametrize("path", ["block_select/fp32/simt", "block_select/fp32/sm75", "block_select/fp32/sm80"])
def test_scorers_that_choose_differently_are_proven_and_counted(lanes: LanesExecutor, path: str) -> None:
    found = judged(path, CASE, lanes)
    assert runner.settle(found.checks) is Verdict.EXACT, refused(found)
    counted = found.figures["near_ties"]
    assert counted["queries"] > 0
    assert counted["pairs"] > 0
    assert 0 < counted["nearest"] < 1


def test_a_case_too_large_for_the_model_is_measured_in_part(
    lanes: LanesExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "MODELLED", 200)
    found = judged("block_select/fp32/sm80", CASE, lanes)
    names = {check.name: check for check in found.checks}
    assert "bits" not in names
    assert 0 < names["sampled bits"].figures["compared"] <= 200 // 4
    assert runner.settle(found.checks) is Verdict.WITHIN_BOUND, refused(found)


def _spoiled(change: Any) -> Scorer:
    own = SCORERS["block_select"]

    def run(executor: Executor, path: Path, *given: Any, **named: Any) -> Result:
        made = own.run(executor, path, *given, **named)
        scores = made.scores.copy()
        change(scores)
        return made._replace(scores=scores)

    return replace(own, run=run)


def test_a_sampled_bit_is_seen(lanes: LanesExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first block of the first query is always among them."""

    def bit(scores: np.ndarray) -> None:
        scores.view(np.uint32)[0, 0] ^= 1

    monkeypatch.setattr(sampling, "MODELLED", 200)
    assert "sampled bits" in refused(judged("block_select/fp32/simt", CASE, lanes, _spoiled(bit)))


def test_a_score_written_behind_the_blocks_of_a_query_is_seen(lanes: LanesExecutor) -> None:
    def behind(scores: np.ndarray) -> None:
        scores[0, -1] = 0

    case = SelectCase("select_bell", 3, 77, 3, 20, 120)
    assert "strayed" in refused(judged("block_select/fp32/simt", case, lanes, _spoiled(behind)))


def test_the_kernels_of_a_case_are_those_that_it_launches() -> None:
    operation, path = registry.found()["block_select"], PATHS["block_select/fp32/sm75"]
    entries = [kernel.entry for kernel in operation.kernels(path, CASE)]
    assert entries == ["block_split", "block_scores_tensor", "block_topk"]
    long = SelectCase("select_bell", 1, 1 << 18, 1)
    held = {(kernel.entry, dict(kernel.defines).get("EACH")) for kernel in operation.kernels(path, long)}
    assert ("block_topk", 0) in held
    with pytest.raises(UnknownOperationError):
        operation.kernels(PATHS["block_topk/fp32/simt"])


def test_a_recipe_that_does_not_exist_is_said() -> None:
    with pytest.raises(StrataError, match="no recipe is called 'select_bel'"):
        registry.parse("recipe=select_bel seed=1 context=9 queries=1")
