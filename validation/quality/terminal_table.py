"""The tables of a run on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table as Grid

from validation.quality.gate import GateResult
from validation.quality.loss import EXACT, Table
from validation.quality.measures import Spread
from validation.quality.outcome import Outcome
from validation.quality.planted import Planted
from validation.quality.run_needles import NeedleResult


def show(outcome: Outcome, console: Console) -> None:
    """Print a table for each part that is there, and a line for each verdict."""
    if outcome.gate:
        _gate(outcome.gate, console)
    if outcome.loss:
        _loss(outcome.loss, console)
    if outcome.needles:
        _needles(outcome.needles, console)
    if outcome.planted:
        _planted(outcome.planted, console)
    for name, verdict in outcome.verdicts.items():
        console.print(f"{verdict.value:12} {name}", soft_wrap=True)


def signed(spread: Spread | None) -> str:
    """A mean with its sign and its standard error; a dash where there is none."""
    return "-" if spread is None else f"{spread.mean:+.5f} ± {spread.error:.5f}"


def _grid(*headings: str) -> Grid:
    grid = Grid(box=None, pad_edge=False)
    for place, heading in enumerate(headings):
        grid.add_column(heading, justify="left" if place == 0 else "right", no_wrap=place == 0)
    return grid


def rows_of_gate(result: GateResult) -> dict[str, str]:
    """The figures of the gate, by name."""
    kl, likelihood = result.kl, result.likelihood
    whole = len(result.prompts) * result.continued
    return {
        "top-1 agreement": f"{100 * result.top:.2f} %",
        "KL(A || B) median, nats": f"{kl.median:.3e}",
        "KL(A || B) mean": f"{kl.mean:.3e} ± {kl.error:.1e}",
        "KL(A || B) largest": f"{kl.largest:.3e}",
        "ln p of the next token, B less A": signed(likelihood),
        "greedy tokens that agree": f"{sum(one.same for one in result.prompts)} of {whole}",
        "greedy tokens before the first that differs": f"{sum(one.agreeing for one in result.prompts)} of {whole}",
        "prompts beyond their limits": f"{len(result.exceeding)} of {len(result.prompts)}",
    }


def _gate(result: GateResult, console: Console) -> None:
    grid = _grid(f"A {result.a}, B {result.b}, {len(result.prompts)} prompts", "")
    for name, value in rows_of_gate(result).items():
        grid.add_row(name, value)
    console.print(grid)
    console.print(f"{result.verdict.value}: {result.reason}", soft_wrap=True)


def _loss(table: Table, console: Console) -> None:
    grid = _grid(f"loss of {table.tokens - 1} tokens", "nats a token", "less FP64", "less FP64 of its KV format")
    for row in table.rows:
        name = f"FP64, KV {row.name}" if row.kind == "fp64" else row.name
        if len(row.losses):
            grid.add_row(name, f"{row.mean:.5f}", signed(table.against(row, EXACT)), signed(table.against(row, row.kv)))
        else:
            grid.add_row(name, f"absent: {row.note}", "", "")
    console.print(grid)


def _needles(result: NeedleResult, console: Console) -> None:
    grid = _grid("needles", "found")
    for one in result.answers:
        grid.add_row(one.setting, f"{one.right} of {len(one.found)}")
    console.print(grid)


def _planted(found: list[Planted], console: Console) -> None:
    grid = _grid("planted fault", "gate", "needles found", "why")
    for one in found:
        said = "flagged" if one.flagged else one.verdict.value
        grid.add_row(one.name, said, f"{one.found} of {one.asked}", one.reason)
    console.print(grid)
