"""A run against the ledger: whole families of the ledger's seed and rule, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strata.kernels.paths import PATHS
from validation.ledger import review as ledger_review
from validation.ledger import slack_statistics
from validation.ledger.ledger import FACTOR, KEPT, Ledger
from validation.ledger.review import Asked, review
from validation.ledger.slack_statistics import Family, Key
from validation.operations.attention import plan
from validation.run import plan as profiles
from validation.run.plan import SEED

ASKED = Asked("quick", SEED, "sm_90")
PATH = "prompt_attention/q4_0/sm80"
#: Two cases of one family, among others.
RECIPE = "signed_decades"


def cases(slack: float = 0.5, path: str = PATH) -> list[dict[str, Any]]:
    """Results of every case that the quick profile plans for a path, in its order."""
    jobs = profiles.plan([PATHS[path]], [profiles.Entry(*one) for one in plan.quick(SEED)], lanes=True)
    checks = [{"name": "bound", "figures": {"slack": slack, "rms": slack / 2, "compared": 9}}]
    return [
        {
            "path": path,
            "recipe": job.case.recipe,
            "case": job.case.text(),
            "verdict": "WITHIN_BOUND",
            "checks": checks,
        }
        for job in jobs
    ]


def held(slack: float = 0.5) -> Ledger:
    return Ledger({("sm_90", "quick"): slack_statistics.of_results(cases(slack))})


def test_a_run_like_the_ledgers_is_unmoved() -> None:
    got = review(ASKED, cases(), held())
    assert got.ok
    assert got.compared == len(held().sections["sm_90", "quick"])
    assert (got.partial, got.beside, got.reason) == (0, 0, "")
    assert f"{got.compared} families unmoved" in got.line()
    assert "median observed/bound 0.5" in got.line()


@pytest.mark.parametrize("factor", [FACTOR * 1.01, 1 / (FACTOR * 1.01)])
def test_drift_either_way_fails_and_says_all(factor: float) -> None:
    got = review(ASKED, cases(0.5 * factor), held(), "here/run.json")
    assert not got.ok
    assert {drift.figure for drift in got.drifts} == {"bound max", "bound median", "bound rms"}
    line = got.lines()[0]
    for word in (PATH, "bound max", f"{0.5 * factor:.4g}", "0.5", str(FACTOR), "--accept here/run.json --reason"):
        assert word in line
    assert "2 more of its figures moved" in line
    assert len(got.lines()) == ledger_review.SHOWN + 1
    assert got.lines()[-1] == f"ledger: {got.compared - ledger_review.SHOWN} families more"
    assert f"{got.compared} of {got.compared} families moved" in got.line()
    assert review(ASKED, cases(0.5 * (1 + (factor - 1) * 0.5)), held()).ok


def test_one_figure_of_one_family_is_enough() -> None:
    results = cases()
    results[3] = results[3] | {"checks": [{"name": "bound", "figures": {"slack": "NaN", "rms": 0.25, "compared": 9}}]}
    got = review(ASKED, results, held())
    assert {drift.key for drift in got.drifts} == {(PATH, results[3]["recipe"])}


def test_the_figure_that_moved_furthest_is_shown() -> None:
    results = cases()
    check = {"name": "bound", "figures": {"slack": 0.5 * FACTOR * 1.1, "rms": 0.25 * FACTOR * 2, "compared": 9}}
    results[3] = results[3] | {"checks": [check]}
    (line,) = review(ASKED, results, held()).lines()
    assert "bound rms is" in line


def test_a_family_that_the_ledger_lacks_fails() -> None:
    section = dict(held().sections["sm_90", "quick"])
    gone: Key = (PATH, RECIPE)
    del section[gone]
    got = review(ASKED, cases(), Ledger({("sm_90", "quick"): section}))
    assert [drift.key for drift in got.drifts] == [gone]
    assert "no figures of these cases" in got.lines()[0]
    # The other profile's figures do not stand in for it.
    standard = Ledger({("sm_90", "standard"): dict(held().sections["sm_90", "quick"])})
    assert not review(ASKED, cases(), standard).ok


def test_figures_of_other_cases_are_stale() -> None:
    section: dict[Key, Family] = dict(held().sections["sm_90", "quick"])
    section[PATH, RECIPE] = replace(section[PATH, RECIPE], digest="another")
    got = review(ASKED, cases(), Ledger({("sm_90", "quick"): section}))
    assert [drift.key for drift in got.drifts] == [(PATH, RECIPE)]


def test_a_partial_family_is_not_compared() -> None:
    results = cases(9.0)
    first = next(index for index, result in enumerate(results) if result["recipe"] == RECIPE)
    got = review(ASKED, results[first : first + 1], held())
    assert (got.ok, got.compared, got.partial) == (True, 0, 1)
    assert "1 not whole" in got.line()
    halted = [result | ({"verdict": "NOT_RUN"} if result["recipe"] == RECIPE else {}) for result in cases()]
    got = review(ASKED, halted, held())
    assert (got.ok, got.partial) == (True, 1)


def test_one_recipe_of_a_profile_is_whole() -> None:
    results = [result for result in cases(9.0) if result["recipe"] == RECIPE]
    got = review(ASKED, results, held())
    assert (got.ok, got.compared, got.partial) == (False, 1, 0)


def test_recipes_beside_the_profile_are_left_out() -> None:
    got = review(ASKED, [result | {"recipe": "captured"} for result in cases()[:1]], held())
    assert (got.ok, got.compared, got.partial, got.beside) == (True, 0, 0, 1)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (replace(ASKED, profile=None), "not those of a profile"),
        (replace(ASKED, profile="full"), " and ".join(KEPT)),
        (replace(ASKED, seed=SEED + 1), f"seed {SEED}"),
        (replace(ASKED, rule=None), "no tensor-core rule"),
        (replace(ASKED, rule="8,24"), "nothing under rule 8,24"),
    ],
)
def test_what_is_not_compared_is_said(asked: Asked, why: str) -> None:
    got = review(asked, cases(9.0), held())
    assert got.ok
    assert got.compared == 0
    assert why in got.line()
    assert got.record()["not_compared"] in got.line()


def test_the_record_holds_every_figure_that_moved() -> None:
    got = review(ASKED, cases(5.0), held())
    said = got.record()
    assert said["ok"] is False
    assert len(said["drifts"]) == len(got.drifts) > ledger_review.SHOWN
    assert said["drifts"][0]["now"] == 5.0
    assert said["drifts"][0]["ledger"] == 0.5


def test_a_family_that_the_profile_plans_no_more_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the paths that were run, and of them alone."""
    whole, other, results = held(), "prompt_attention/int8/sm80", cases()
    section = {**whole.sections["sm_90", "quick"], **slack_statistics.of_results(cases(path=other))}
    names = plan._attention_names()
    monkeypatch.setattr(plan, "_attention_names", lambda: [name for name in names if name != "flat"])
    got = review(ASKED, results, Ledger({("sm_90", "quick"): section}))
    assert {drift.key for drift in got.drifts} == {(PATH, "flat")}
    (line,) = got.lines()
    assert line.startswith(
        f"ledger: {PATH} flat: the ledger has figures of it, and the profile plans it no more | accept"
    )
