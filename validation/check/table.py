"""What a check prints at its end: a row for each recipe, the cases that did not pass, the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from validation.check.case import fields
from validation.check.contrast import contrast
from validation.check.folding import folded
from validation.check.load import Loaded
from validation.check.mutants import Matrix
from validation.check.sensitivity import doubtful, idle
from validation.report.table import grid, grouped, print_counts, took, verdicts

#: Last words of checks that compare every bit of an output, an integer's bound among them.
_BITS = ("bits", "prediction", "bound")
_LEGEND = (
    "slack: the largest share of its bound that an output used; bits: how many differ from those that are known; "
    "s: seconds on this machine."
)


def _slack(results: Sequence[Mapping[str, Any]]) -> str:
    found = [result["figures"]["slack"] for result in results if "slack" in result["figures"]]
    if not found:
        return ""
    numbers = [float(str(value).replace("Infinity", "inf")) for value in found]
    return "NaN" if any(number != number for number in numbers) else f"{max(numbers):.3g}"


def _bits(results: Sequence[Mapping[str, Any]]) -> str:
    checks = [check for result in results for check in result["checks"] if check["name"].split()[-1] in _BITS]
    figures = [check["figures"] for check in checks if "differing" in check["figures"]]
    if not figures:
        return ""
    return f"{sum(f['differing'] for f in figures):,} of {sum(f['compared'] for f in figures):,}"


def recipe_table(results: Sequence[dict[str, Any]]) -> Table:
    """One row for each recipe of `results`, in their order; columns that no case fills are left out."""
    return grid(
        [
            {"recipe": name, "verdicts": verdicts(own), "slack": _slack(own), "bits": _bits(own), "s": took(own)}
            for name, own in grouped(results, "recipe").items()
        ]
    )


def visited(loaded: Loaded, results: Sequence[Mapping[str, Any]]) -> str:
    """A line on how far the sizes of these cases went, of what the author allows."""
    cases = [fields(loaded.kernel).parse(result["case"]) for result in results]
    said = []
    for name, size in loaded.kernel.sizes.items():
        values = [int(case[name]) for case in cases]
        said.append(f"{name} {min(values)}..{max(values)} of {size.smallest}..{size.largest}")
    return f"sizes visited: {', '.join(said)}"


def print_cases(console: Console, loaded: Loaded, results: Sequence[dict[str, Any]], planned: int) -> None:
    """The table, what the author left out, how often each failure came, which sizes fail, and the count; the first
    case of each failure was said when it ended."""
    if results:
        console.print(recipe_table(results))
        console.print(Text(_LEGEND, "dim"))
    if results:
        console.print(Text(visited(loaded, results)), soft_wrap=True)
    for name, reason in loaded.kernel.without.items():
        console.print(Text(f"left out by its author: {name} ({reason})"), soft_wrap=True)
    every = ["self" if len(loaded.kernel.outputs) == 1 else f"{name} self" for name in loaded.kernel.outputs]
    if said := idle(results, every):
        console.print(Text(said, "yellow"), soft_wrap=True)
    for line in doubtful(results, loaded.self_checks):
        console.print(Text(line, "bold yellow"), soft_wrap=True)
    lines = [*folded(results), contrast(loaded.kernel, results)]
    print_counts(console, results, planned, "\n".join(line for line in lines if line), first=False)


def print_matrix(console: Console, matrix: Matrix) -> None:
    """How many mutants died of what, and the survivors as questions."""
    first, *others = matrix.lines()
    console.print(Text(first, "green" if not matrix.survivors else "yellow"), soft_wrap=True)
    for line in others:
        console.print(Text(line), soft_wrap=True)
