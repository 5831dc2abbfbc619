"""An author's kernel on the seam: what runs every operation runs it, from its text to its verdict."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import Executor, StrataError
from strata.kernels.path import Path
from tests.validation.check.fake import FakeExecutor, kernel
from tests.validation.check.test_raw import Card
from validation.check import Output, Size
from validation.check.operation import OwnOperation, operations
from validation.check.raw import RawExecutor
from validation.core.operation import WORDS
from validation.core.settings import Settings
from validation.core.unknown_operation import UnknownOperationError
from validation.core.verdict import Verdict
from validation.operations import registry
from validation.run.executors import ExecutorPool
from validation.run.prebuild import Prebuild, kernels_of
from validation.run.runner import Job, run_jobs

OWN = OwnOperation(kernel())
PATH = OWN.loaded.path


def opened(name: str, **options: Any) -> FakeExecutor:
    return FakeExecutor()


def test_a_pool_of_executors_and_the_one_runner_serve_it() -> None:
    known = operations(kernel())
    planned = OWN.planned(1, "quick")[:3]
    jobs = [Job(one.case, PATH, "checked", turn) for turn, one in enumerate(planned)]
    executor_pool = ExecutorPool("lanes", open=opened, command=("check", "rows.py:rows"), says_rule=False)
    done: list[str] = []
    with Prebuild(jobs, executor_pool, operations=known) as built:
        results = run_jobs(
            jobs,
            lambda job: built.wait(job, executor_pool.of(job, ())),
            Settings(names_path=False),
            lambda job, result: done.append(result["case"]),
            operations=known,
        )
    assert [result["verdict"] for result in results] == ["WITHIN_BOUND"] * 3
    assert done == [one.case.text() for one in planned]
    words = shlex.split(results[1]["rerun"])
    start = ["python", "-m", "validation", "check", "rows.py:rows", "--executor", "lanes", "--flavor", "checked"]
    assert words == [*start, "--schedule-seed", "1", "--case", planned[1].case.text()]


def test_what_is_known_of_a_case_is_not_that_of_the_next() -> None:
    """Two cases of one recipe in one run, whose data differ."""
    planned = [OWN.parse(f"recipe=plain seed={seed} rows=3 width=5") for seed in (1, 2)]
    jobs = [Job(case, PATH) for case in planned]
    executor_pool = ExecutorPool("lanes", open=opened)
    results = run_jobs(
        jobs, lambda job: executor_pool.of(job, ()), Settings(), lambda *_: None, operations=operations(kernel())
    )
    assert all(Verdict(result["verdict"]).passes for result in results)
    assert results[0]["figures"]["slack"] != results[1]["figures"]["slack"]


@given(st.lists(st.integers(0, 2**32 - 1), min_size=WORDS, max_size=WORDS), st.integers(0, 99))
def test_random_words_choose_a_case_of_a_recipe(words: list[int], turn: int) -> None:
    name = OWN.random_recipe(turn, words)
    case = OWN.random_case(name, words, True)
    assert (case.recipe, case.seed) == (name, words[0])
    assert OWN.small(case)
    assert OWN.parse(case.text()) == case
    assert case == OWN.random_case(name, words, True)


def test_its_recipes_are_those_that_its_author_leaves() -> None:
    names = [recipe.name for recipe in OWN.recipes()]
    assert "subnormals" not in names
    assert {OWN.recipe(name).operation for name in names} == {"rows"}
    assert "rows" not in registry.found()


def test_another_operations_path_is_refused() -> None:
    with pytest.raises(UnknownOperationError, match="no kernel is known of operation 'router'"):
        OWN.kernels(Path("router", "fp32", "simt", 0))
    case = OWN.parse("recipe=plain seed=1 rows=3 width=5")
    with pytest.raises(StrataError, match="no operation is known of operation 'rows', expected one of"):
        list(kernels_of(Job(case, PATH)))
    assert [one.entry for one in kernels_of(Job(case, PATH), operations(kernel()))] == ["rows"]


def test_integers_of_a_launch_that_nobody_attests_are_not_exact() -> None:
    """On lanes the same outputs are EXACT, as the reference says every bit of them."""
    own = kernel()
    only = {"positive": Output("int32", ("rows",), start="zeros")}

    def reference(inputs: Any, sizes: Any) -> Any:
        return (inputs["x"] * inputs["weight"] > 0).sum(axis=1).astype(np.int32)

    def counts(x: Any, weight: Any, positive: Any) -> None:
        positive[...] += (x * weight > 0).sum(axis=1).astype(np.int32)

    changes: dict[str, Any] = {
        "outputs": only,
        "bound": None,
        "reference": reference,
        "sizes": {"rows": Size(1, 9), "width": Size(1, 99)},
        "launch": lambda sizes: type(own.kernel.launch(sizes))((1, 1, 1), ("x", "weight", "positive")),
    }

    class Raw:
        def compile(self) -> None:
            pass

    def verdict(executor: Executor, loaded: Any) -> str:
        case = OwnOperation(loaded).parse("recipe=plain seed=1 rows=3 width=5")
        job = Job(case, loaded.path)
        executor_pool = ExecutorPool("auto", open=lambda name, **options: executor)
        known = operations(loaded)
        (one,) = run_jobs([job], lambda job: executor_pool.of(job, ()), Settings(), lambda *_: None, operations=known)
        return str(one["verdict"])

    assert verdict(FakeExecutor(counts), kernel(**changes)) == "EXACT"
    loaded = kernel(source=None, raw=lambda cupy: Raw(), **changes)
    card = Card(counts)
    raw = RawExecutor(card, loaded)
    raw.launch = card.launch  # type: ignore[method-assign]
    assert verdict(raw, loaded) == "WITHIN_BOUND"
