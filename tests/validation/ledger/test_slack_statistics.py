"""Families: their figures from the cases of a run, and which cases a profile plans for each."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.kernels.paths import PATHS
from validation.core.verdict import within
from validation.ledger import slack_statistics
from validation.ledger.ledger import KEPT
from validation.run.plan import SEED
from validation.run.run_file import plain

PATH = "prompt_attention/q4_0/sm80"


def result(slack: float, rms: float = 0.0, compared: int = 1, index: int = 0, **changes: Any) -> dict[str, Any]:
    check = {"name": "bound", "figures": {"slack": slack, "rms": rms, "compared": compared}}
    case: dict[str, Any] = {"path": PATH, "recipe": "uniform", "case": f"case {index}", "verdict": "WITHIN_BOUND"}
    return dict(plain(case | {"checks": [check, {"name": "guards", "figures": {}}]} | changes))


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 9)), min_size=1, max_size=6))
def test_figures_are_those_of_all_elements(cases: list[tuple[float, int]]) -> None:
    results = []
    elements: list[float] = []
    for index, (size, count) in enumerate(cases):
        got = np.full(count, size, np.float32)
        got[0] /= 2
        check = within("bound", got, np.zeros(count), 1.0)
        results.append(result(0.0, index=index, checks=[{"name": check.name, "figures": check.figures}]))
        elements += got.astype(np.float64).tolist()
    (family,) = slack_statistics.of_results(results).values()
    largest = [check["checks"][0]["figures"]["slack"] for check in results]
    assert family.cases == len(cases)
    assert family.figures["bound max"] == max(elements)
    assert family.figures["bound median"] == median(largest)
    assert math.isclose(family.figures["bound rms"], math.sqrt(sum(x * x for x in elements) / len(elements)))


@pytest.mark.parametrize("broken", [math.nan, math.inf])
@given(st.permutations([0.25, 0.5, 0.75]))
def test_what_is_not_finite_stays_visible(broken: float, order: list[float]) -> None:
    results = [result(slack, index=index) for index, slack in enumerate([*order, broken])]
    figure = slack_statistics.of_results(results)[PATH, "uniform"].figures["bound max"]
    assert not math.isfinite(figure)
    assert math.isnan(broken) == math.isnan(slack_statistics.median_slack(results) or 0.0)


def test_a_case_that_was_not_run_takes_its_family_out() -> None:
    assert slack_statistics.of_results([result(0.5), result(0.5, index=1, verdict="NOT_RUN")]) == {}


def test_captured_data_has_no_family() -> None:
    assert slack_statistics.of_results([result(0.5, recipe="captured")]) == {}


def test_what_is_no_result_is_refused() -> None:
    with pytest.raises(StrataError, match="no results of cases"):
        slack_statistics.of_results([{"path": PATH, "recipe": "uniform"}])


@given(st.lists(st.text(alphabet="ab", min_size=1), min_size=1, max_size=4), st.randoms())
def test_a_digest_is_of_the_cases_and_not_of_their_order(texts: list[str], random: Any) -> None:
    shuffled = texts.copy()
    random.shuffle(shuffled)
    assert slack_statistics.digest(shuffled) == slack_statistics.digest(texts)
    assert slack_statistics.digest([*texts, texts[0]]) != slack_statistics.digest(texts)
    assert slack_statistics.digest(texts[1:]) != slack_statistics.digest(texts)


@pytest.mark.parametrize("profile", KEPT)
def test_every_path_has_families_and_the_seed_is_part_of_them(profile: str) -> None:
    plan = slack_statistics.planned(profile, SEED)
    assert {path for path, _ in plan} == set(PATHS)
    other = slack_statistics.planned(profile, SEED + 100)
    assert plan.keys() == other.keys()
    assert all(plan[key] != other[key] for key in plan)


def test_the_median_is_of_the_paths_own_bound() -> None:
    beside = {"name": "mean", "figures": {"slack": 9.0}}
    results = [result(x, index=i) for i, x in enumerate((0.1, 0.2, 0.9))]
    results[0]["checks"].append(beside)
    assert slack_statistics.median_slack(results) == 0.2
    assert slack_statistics.median_slack([]) is None
