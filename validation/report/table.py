"""The table at the end of a run: one row a path with its worst figures, then the cases that did not pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from validation.core.verdict import Verdict
from validation.report.source import COUNTS

#: Columns: heading, figure of a case whose largest value is shown.
_ERRORS = {
    "new": "error_new_of_scale",
    "old": "error_old_of_scale",
    "new-old": "difference_of_scale",
    "head": "error_new_worst_head",
    "fp16 V": "error_new_to_rounded_v_of_scale",
}
#: Ratios that stand one by one; of more the median and the range do.
_SHOWN_RATIOS = 3
_LEGEND = {
    "new": "largest errors against FP64 over the output's scale: new of the path, old of its baseline",
    "new-old": "new-old between them",
    "head": "head: of the path over each head's own scale",
    "fp16 V": "fp16 V: of the path against V rounded to FP16",
    "bits": "bits: how many differ from the prediction",
    "speed": "speed: device time of the baseline over that of the path",
    "s": "s: seconds on this machine",
}


def _largest(results: Iterable[dict[str, Any]], name: str) -> str:
    found = [result["figures"].get(name) for result in results]
    numbers = [float(value) for value in found if value is not None]
    if not numbers:
        return ""
    return "NaN" if any(number != number for number in numbers) else f"{max(numbers):.1e}"


def _predicted(results: list[dict[str, Any]]) -> str:
    checks = [check for result in results for check in result["checks"] if check["name"] == "prediction"]
    figures = [check["figures"] for check in checks if "compared" in check["figures"]]
    if not figures:
        return ""
    return f"{sum(f['differing'] for f in figures):,} of {sum(f['compared'] for f in figures):,}"


def _ratios(results: list[dict[str, Any]]) -> str:
    ratios = [result["figures"]["device_ratio"] for result in results if "device_ratio" in result["figures"]]
    if len(ratios) > _SHOWN_RATIOS:
        return f"{median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"
    return ", ".join(f"{ratio:.2f}x" for ratio in ratios)


def verdicts(results: Sequence[Mapping[str, Any]]) -> Text:
    """How many cases came to what."""
    text = Text()
    for verdict in Verdict:
        count = sum(result["verdict"] == verdict.value for result in results)
        if count:
            style = "green" if verdict.passes else "bold red"
            text.append(" " if text else "").append(f"{count} {verdict.value}", style)
    return text


def path_table(results: list[dict[str, Any]]) -> Table:
    """One row for each path of `results`, in their order. Columns that no case fills are left out."""
    rows: list[dict[str, str | Text]] = []
    for name, own in grouped(results, "path").items():
        row: dict[str, str | Text] = {"path": name, "verdicts": verdicts(own)}
        row |= {heading: _largest(own, figure) for heading, figure in _ERRORS.items()}
        row |= {"bits": _predicted(own), "speed": _ratios(own), "s": took(own)}
        rows.append(row)
    return grid(rows)


def grouped(results: Sequence[dict[str, Any]], key: str) -> dict[str, list[dict[str, Any]]]:
    """Results by what they have under a key, in their order.

    Parameters
    ----------
    results
        The results of cases.
    key
        A key that all have.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        found.setdefault(result[key], []).append(result)
    return found


def took(results: Sequence[Mapping[str, Any]]) -> str:
    """The seconds of some cases."""
    return f"{sum(sum(result['seconds'].values()) for result in results):.1f}"


def grid(rows: Sequence[Mapping[str, str | Text]]) -> Table:
    """A table of rows by heading, the first column and the verdicts set left; columns that no row fills are left
    out."""
    used = [heading for heading in rows[0] if any(row[heading] for row in rows)] if rows else []
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in used:
        left = heading in (used[0], "verdicts")
        table.add_column(heading, justify="left" if left else "right", no_wrap=heading != "verdicts")
    for row in rows:
        table.add_row(*(row[heading] for heading in used))
    return table


def print_report(console: Console, results: list[dict[str, Any]], planned: int) -> None:
    """Print the table, the first case that did not pass (all were said when they ended), and the count.

    Parameters
    ----------
    console
        Where they go.
    results
        The results of cases.
    planned
        How many were to run.
    """
    if results:
        table = path_table(results)
        console.print(table)
        said = [text for heading, text in _LEGEND.items() if heading in [column.header for column in table.columns]]
        console.print(Text("; ".join(said) + ".", "dim"))
    print_counts(console, results, planned)


def near_ties(results: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each path that read other cells than its baseline did: how many, and how near the scores were."""
    said = []
    for path, own in grouped(results, "path").items():
        ties = [result["figures"]["near_ties"] for result in own if "near_ties" in result["figures"]]
        total = {name: sum(one[name] for one in ties) for name in COUNTS}
        if total["queries"]:
            nearest = max(float(one["nearest"]) for one in ties)
            held = f"{total['pairs']:,} pairs of blocks, the nearest used {nearest:.3g} of what the two bounds allow"
            left = f"; of {total['unknown']:,} more, not finite, nothing is promised" if total["unknown"] else ""
            said.append(
                f"{path}: {total['queries']:,} of {total['compared']:,} queries read other cells than the baseline,"
                f" {total['cells']:,} of them;"
                f" {held}{left}"
            )
    return said


def print_counts(
    console: Console, results: Sequence[Mapping[str, Any]], planned: int, where: str = "", *, first: bool = True
) -> None:
    """Print the first case that did not pass, and how many did and were run.

    Parameters
    ----------
    console
        Where they go.
    results
        The results of cases.
    planned
        How many were to run.
    where
        A line on which cases fail, empty where there is none.
    first
        Whether to say the first one, which may stand above already.
    """
    failed = [result["explain"] for result in results if result["explain"]]
    if failed and first:
        more = f"{len(failed)} cases did not pass; the first: " if len(failed) > 1 else ""
        console.print(Text(more + failed[0], "red"), soft_wrap=True)
    if failed and where:
        console.print(Text(where, "red"), soft_wrap=True)
    passed = sum(Verdict(result["verdict"]).passes for result in results)
    ran = sum(Verdict(result["verdict"]) is not Verdict.NOT_RUN for result in results)
    text = f"{passed} of {planned} planned cases passed; {ran} were run."
    console.print(Text(text, "green" if passed == planned else "bold red"))
