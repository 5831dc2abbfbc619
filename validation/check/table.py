"""What a check prints at its end: a row for each recipe, the cases that did not pass, the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from validation.check.contrast import contrast
from validation.check.load import Loaded
from validation.check.mutants import Matrix
from validation.core.verdict import Verdict

_LEGEND = (
    "slack: the largest share of its bound that an output used; bits: how many differ from a model or from lanes; "
    "s: seconds on this machine."
)


def _verdicts(results: Sequence[Mapping[str, Any]]) -> Text:
    text = Text()
    for verdict in Verdict:
        count = sum(result["verdict"] == verdict.value for result in results)
        if count:
            style = "green" if verdict.passes else "bold red"
            text.append(" " if text else "").append(f"{count} {verdict.value}", style)
    return text


def _slack(results: Sequence[Mapping[str, Any]]) -> str:
    found = [result["figures"]["slack"] for result in results if "slack" in result["figures"]]
    if not found:
        return ""
    numbers = [float(str(value).replace("Infinity", "inf")) for value in found]
    return "NaN" if any(number != number for number in numbers) else f"{max(numbers):.3g}"


def _bits(results: Sequence[Mapping[str, Any]]) -> str:
    checks = [check for result in results for check in result["checks"] if check["figures"].get("all_bits")]
    figures = [check["figures"] for check in checks if "compared" in check["figures"]]
    if not figures:
        return ""
    return f"{sum(f['differing'] for f in figures):,} of {sum(f['compared'] for f in figures):,}"


def recipe_table(results: Sequence[Mapping[str, Any]]) -> Table:
    """One row for each recipe of `results`, in their order; columns that no case fills are left out."""
    by_recipe: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        by_recipe.setdefault(result["recipe"], []).append(result)
    rows: list[dict[str, str | Text]] = [
        {
            "recipe": name,
            "verdicts": _verdicts(own),
            "slack": _slack(own),
            "bits": _bits(own),
            "s": f"{sum(sum(result['seconds'].values()) for result in own):.1f}",
        }
        for name, own in by_recipe.items()
    ]
    used = [heading for heading in rows[0] if any(row[heading] for row in rows)] if rows else []
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in used:
        left = heading in ("recipe", "verdicts")
        table.add_column(heading, justify="left" if left else "right", no_wrap=heading != "verdicts")
    for row in rows:
        table.add_row(*(row[heading] for heading in used))
    return table


def print_cases(console: Console, loaded: Loaded, results: Sequence[Mapping[str, Any]], planned: int) -> None:
    """The table, what the author left out, the first case that did not pass, which sizes fail, and the count."""
    if results:
        console.print(recipe_table(results))
        console.print(Text(_LEGEND, "dim"))
    for name, reason in loaded.kernel.without.items():
        console.print(Text(f"left out by its author: {name} ({reason})"), soft_wrap=True)
    failed = [result["explain"] for result in results if result["explain"]]
    if failed:
        more = f"{len(failed)} cases did not pass; the first: " if len(failed) > 1 else ""
        console.print(Text(more + failed[0], "red"), soft_wrap=True)
        where = contrast(loaded.kernel, results)
        if where:
            console.print(Text(where, "red"), soft_wrap=True)
    passed = sum(Verdict(result["verdict"]).passes for result in results)
    ran = sum(Verdict(result["verdict"]) is not Verdict.NOT_RUN for result in results)
    style = "green" if passed == planned else "bold red"
    console.print(Text(f"{passed} of {planned} planned cases passed; {ran} were run.", style))


def print_matrix(console: Console, matrix: Matrix) -> None:
    """How many mutants died of what, and the survivors as questions."""
    first, *others = matrix.lines()
    console.print(Text(first, "green" if not matrix.survivors else "yellow"), soft_wrap=True)
    for line in others:
        console.print(Text(line), soft_wrap=True)
