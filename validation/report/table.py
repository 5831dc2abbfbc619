"""The table at the end of a run: one row a path, with its worst case; and what a failing case says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from validation.verdict import Verdict

_COLOURS = {Verdict.EXACT: "green", Verdict.WITHIN_BOUND: "green"}


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.1e}" if isinstance(value, float) else str(value)


def _largest(results: Iterable[dict[str, Any]], name: str) -> float | None:
    found = [result["figures"].get(name) for result in results]
    return max((value for value in found if value is not None), default=None)


def _predicted(results: list[dict[str, Any]]) -> str:
    checks = [check for result in results for check in result["checks"] if check["name"] == "prediction"]
    figures = [check["figures"] for check in checks if "compared" in check["figures"]]
    if not figures:
        return "-"
    return f"{sum(f['differing'] for f in figures):,} of {sum(f['compared'] for f in figures):,}"


def _verdicts(results: list[dict[str, Any]]) -> Text:
    text = Text()
    for verdict in Verdict:
        count = sum(result["verdict"] == verdict.value for result in results)
        if count:
            text.append(" " if text else "").append(f"{count} {verdict.value}", _COLOURS.get(verdict, "bold red"))
    return text


def _ratio(results: list[dict[str, Any]]) -> str:
    ratios = [result["figures"]["device_ratio"] for result in results if "device_ratio" in result["figures"]]
    return ", ".join(f"{ratio:.2f}x" for ratio in ratios) or "-"


def path_table(results: list[dict[str, Any]]) -> Table:
    """One row for each path of `results`, in their order. Errors are the largest of any case, over the output's scale.

    The last columns appear only when some case has them.
    """
    by_path: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        by_path.setdefault(result["path"], []).append(result)
    rows = [
        {
            "path": name,
            "cases": str(len(own)),
            "verdicts": _verdicts(own),
            "new - FP64": _number(_largest(own, "error_new_of_scale")),
            "worst head": _number(_largest(own, "error_new_worst_head")),
            "old - FP64": _number(_largest(own, "error_old_of_scale")),
            "new - old": _number(_largest(own, "difference_of_scale")),
            "new - rounded V": _number(_largest(own, "error_new_to_rounded_v_of_scale")),
            "bits differ": _predicted(own),
            "old / new time": _ratio(own),
            "seconds": f"{sum(sum(result['seconds'].values()) for result in own):.1f}",
        }
        for name, own in by_path.items()
    ]
    table = Table(title="largest errors over the output's scale", title_justify="left", pad_edge=False)
    for name in rows[0] if rows else ():
        if name in ("path", "cases", "verdicts", "seconds") or any(row[name] != "-" for row in rows):
            table.add_column(name, justify="left" if name in ("path", "verdicts") else "right", no_wrap=name == "path")
    headings = [str(column.header) for column in table.columns]
    for row in rows:
        table.add_row(*(row[name] for name in headings))
    return table


def print_report(console: Console, results: list[dict[str, Any]], planned: int) -> None:
    """The table, then a line for each case that did not pass, then the count."""
    if results:
        console.print(path_table(results))
    for result in results:
        if result["explain"]:
            console.print(Text(result["explain"], "red"), soft_wrap=True)
    passed = sum(Verdict(result["verdict"]).passes for result in results)
    text = f"{passed} of {planned} planned cases passed, {len(results)} were run."
    console.print(Text(text, "green" if passed == planned else "bold red"))
