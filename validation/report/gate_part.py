"""The part of the page that says what the gate makes of the records."""

from __future__ import annotations

from collections.abc import Sequence

from validation.report.markup import Markup, Node, breakable, coded, joined, table, tag
from validation.report.matrix import Matrix, usable
from validation.report.outcome import section
from validation.report.read import Evidence

_MARKS = {"open": "\u2713", "locked": "\u2715", "surrogate": "~", "simulated": "\u25cb", "n/a": "\u2013"}


def gate(evidence: Evidence, made: Matrix) -> Markup:
    """The matrix, and the reasons of what is not open.

    Parameters
    ----------
    evidence
        The files.
    made
        The matrix of their records.
    """
    rows: list[list[Node]] = [[breakable(path), *(_state(cell.state) for cell in cells)] for path, cells in made.rows]
    headings: list[Node] = ["path"]
    headings += [joined(title, tag("br"), tag("small", cards)) for title, cards in made.columns]
    keys = [
        ("open", "the path serves there"),
        ("locked", "no record proves it; the baseline serves instead"),
        ("surrogate", "a record says that another kind of card ran the code, which opens nothing"),
        ("simulated", "ran on the CPU, which opens nothing"),
        ("n/a", "the path is not meant for that card"),
    ]
    key = tag("ul", *(tag("li", _state(state), f" {text}") for state, text in keys), class_="key")
    return section(
        "gate",
        "What the gate makes of it",
        tag("p", _basis(evidence)),
        table(headings, rows, "Paths by compute capability"),
        key,
        tag("h3", "Why, and what opens the rest"),
        tag("ul", *(tag("li", line) for line in reasons(made)), class_="reasons"),
    )


def _basis(evidence: Evidence) -> Markup:
    records = usable(evidence)
    refused = [source for source in evidence.sources if source.record is not None and source not in records]
    left = f" {len(refused)} that the verifier refused, or that are misnamed, are left out." if refused else ""
    asks = (
        "A path serves on a kind of card only where a record of a parity run proves it there; the gate decides"
        " that from"
        " the record alone."
    )
    if not records:
        return joined(
            f"{asks} There is no record here that it could look at: a run by itself opens nothing, and ",
            tag("code", "nox -s parity -- --record"),
            f" makes a record.{left}",
        )
    unverified = sum(source.verified is None for source in records)
    which = "the record" if len(records) == 1 else f"the {len(records)} records"
    some = f" No verifier has looked at {unverified} of these yet." if unverified else ""
    return joined(f"{asks} Shown is what it would say if {which} of this page were accepted.{some}{left}")


def reasons(made: Matrix) -> list[Markup]:
    """One line for each different reason, with the paths and cards it holds for."""
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for path, cells in made.rows:
        for (column, _), cell in zip(made.columns, cells, strict=True):
            found.setdefault((cell.state, cell.reason, cell.way), []).append((path, column))
    order = list(_MARKS)
    lines = []
    for (state, reason, way), places in sorted(found.items(), key=lambda item: order.index(item[0][0])):
        told = f"{reason}. To open it: {way}." if way else f"{reason}."
        lines.append(
            joined(
                tag("strong", _places(places)),
                " ",
                coded(told if state in told or state == "n/a" else f"{state}; {told}"),
            )
        )
    return lines


def _state(state: str) -> Markup:
    return tag("span", f"{_MARKS[state]} {state}", class_=f"state {state.replace('/', '-')}")


def _places(places: Sequence[tuple[str, str]]) -> str:
    paths = list(dict.fromkeys(path for path, _ in places))
    columns = list(dict.fromkeys(column for _, column in places))
    tiers = list(dict.fromkeys(path.rpartition("/")[2] for path in paths))
    who = f"all {' and '.join(tiers)} paths" if len(paths) > 2 else " and ".join(paths)
    return f"{who} on {', '.join(columns)}:"
