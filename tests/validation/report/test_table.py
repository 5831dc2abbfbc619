"""The report shows the worst of each path and says what did not pass."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from validation.report import table
from validation.report.table import print_report


def result(path: str, verdict: str = "WITHIN_BOUND", **figures: Any) -> dict[str, Any]:
    checks = figures.pop("checks", [])
    explain = "" if verdict in ("EXACT", "WITHIN_BOUND") else f"{verdict} {path} bound: [brackets] | rerun: again"
    return {
        "path": path,
        "verdict": verdict,
        "explain": explain,
        "figures": figures,
        "checks": checks,
        "seconds": {"new": 1.25},
    }


def text(results: list[dict[str, Any]], planned: int) -> str:
    out = io.StringIO()
    print_report(Console(file=out, width=140), results, planned)
    return out.getvalue()


def test_the_worst_case_of_each_path_is_shown() -> None:
    shown = text(
        [
            result("a/b/c", error_new_of_scale=1e-7, error_old_of_scale=2e-7),
            result("a/b/c", error_new_of_scale=3e-6, error_old_of_scale=None),
            result("d/e/f", error_new_of_scale=5e-7),
        ],
        3,
    )
    row = next(line for line in shown.splitlines() if "a/b/c" in line)
    assert "3.0e-06" in row
    assert "2.0e-07" in row
    assert "2 WITHIN_BOUND" in row
    assert "2.5" in row
    assert "3 of 3 planned cases passed; 3 were run." in shown
    assert "fp16 V" not in shown
    assert "bits" not in shown


def test_nan_is_worse_than_any_number() -> None:
    assert "NaN" in text([result("a", error_new_of_scale="NaN"), result("a", error_new_of_scale=1.0)], 2)


def test_predictions_and_ratios_have_their_columns() -> None:
    check = {"name": "prediction", "figures": {"compared": 1500, "differing": 2}}
    shown = text([result("a", checks=[check], device_ratio=4.25), result("a", checks=[check], device_ratio=3.5)], 2)
    assert "4 of 3,000" in shown
    assert "4.25x, 3.50x" in shown


def test_failures_are_told_with_brackets_and_all() -> None:
    shown = text([result("a", "EXCEEDS"), result("a", "VOID"), result("a")], 4)
    assert "1 WITHIN_BOUND 1 EXCEEDS 1 VOID" in shown
    assert "2 cases did not pass; the first: EXCEEDS a bound: [brackets] | rerun: again" in shown
    assert "1 of 4 planned cases passed; 3 were run." in shown


def test_no_case_at_all_is_said() -> None:
    assert "0 of 2 planned cases passed; 0 were run." in text([], 2)


@pytest.mark.parametrize(
    ("ratios", "shown"),
    [([2.0], "2.00x"), ([2.0, 4.0, 3.0], "2.00x, 4.00x, 3.00x"), ([1, 4, 2, 9], "3.00x (1.00 to 9.00)")],
)
def test_many_ratios_are_shown_by_median_and_range(ratios: list[float], shown: str) -> None:
    assert table._ratios([{"figures": {"device_ratio": ratio}} for ratio in ratios]) == shown
