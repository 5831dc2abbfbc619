"""Executors are opened once each, and the words that choose them again are right."""

from __future__ import annotations

from typing import Any

import pytest

from strata.executors.base import Executor, ExecutorUnavailable
from strata.kernels.paths import PATHS
from tests.validation.stub import StubCard, StubExecutor
from validation.operations.kv_pack.case import Case
from validation.run.executors import ExecutorPool
from validation.run.runner import Job

JOB = Job(Case("uniform", 1, 64, 2), PATHS["prompt_attention/fp16/sm75"], "checked", 6)


class Opener:
    def __init__(self, card: bool = False, compiler: bool = True) -> None:
        self.opened: list[tuple[str, Any, Any, Any]] = []
        self.card, self.compiler = card, compiler

    def __call__(self, name: str, *, rule: str, flavor: str, seed: int | None, target: str | None) -> Executor:
        self.opened.append((name, rule, flavor, seed))
        if name == "cuda" or (name == "auto" and self.card):
            if not self.card:
                raise ExecutorUnavailable("no card")
            return StubCard()
        if not self.compiler:
            raise ExecutorUnavailable("no compiler")
        return StubExecutor(arch=f"{rule} {flavor} {seed}")


def test_a_job_on_lanes_has_its_build_and_a_twin_under_another_schedule() -> None:
    opener = Opener()
    executor_pool = ExecutorPool("auto", open=opener)
    assert executor_pool.lanes
    executors = executor_pool.of(JOB, ["--capture", "a file"])
    assert executors.executor.arch == "sm_90 checked 6"
    assert executors.repeat_executor is not None
    assert executors.repeat_executor.arch == "sm_90 checked 7"
    chosen = "--executor lanes --rule sm_90 --flavor checked --schedule-seed 6"
    assert executors.invocation == f"python -m validation parity {chosen} --capture 'a file'"
    count = len(opener.opened)
    assert executor_pool.of(JOB, []).executor is executors.executor
    assert len(opener.opened) == count


def test_the_command_line_overrides_the_job() -> None:
    executor_pool = ExecutorPool("lanes", rule="8,24", flavor="sanitize", schedule=3, open=Opener())
    executors = executor_pool.of(JOB, [])
    assert executors.executor.arch == "8,24 sanitize 3"
    assert "--rule 8,24 --flavor sanitize --schedule-seed 3" in executors.invocation


def test_a_card_runs_all_jobs_itself() -> None:
    executor_pool = ExecutorPool("auto", target="compute_75", open=Opener(card=True))
    assert not executor_pool.lanes
    executors = executor_pool.of(JOB, [])
    assert executors.executor is executor_pool.first
    assert executors.repeat_executor is None
    assert executors.invocation == "python -m validation parity --executor cuda --target compute_75"


def test_predictions_need_a_compiler() -> None:
    assert ExecutorPool("cuda", open=Opener(card=True)).can_predict()
    assert not ExecutorPool("cuda", open=Opener(card=True, compiler=False)).can_predict()


def test_an_executor_that_cannot_run_here_is_an_error() -> None:
    with pytest.raises(ExecutorUnavailable, match="no card"):
        ExecutorPool("cuda", open=Opener())
