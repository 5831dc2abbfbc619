"""The part of the page on selections that differ from the baseline's: how many, and that each is a near tie."""

from __future__ import annotations

from collections.abc import Sequence

from validation.report.markup import Markup, Node, breakable, table, tag
from validation.report.outcome import section
from validation.report.panels import by_path, share
from validation.report.source import COUNTS, CaseView, NearTies, Source


def near_ties(sources: Sequence[Source]) -> Markup | None:
    """A row for each path and file; None where no case chose anything."""
    rows = [_row(path, source, own) for source in sources for path, own in by_path(_held(source)).items()]
    if not rows:
        return None
    headings: list[Node] = [
        "path", "on", "cases", "queries", "that differ", "cells that differ", "pairs proved", "nearest", "no promise",
    ]  # fmt: skip
    return section(
        "selections",
        "Selections",
        tag(
            "p",
            "A path that sums in another order than its baseline may choose other cells where two scores nearly tie."
            " Each pair of blocks that the two preferred differently is held against exact scores: they may lie no"
            " further apart than the two error bounds together, and one pair further apart is a failure. The nearest"
            " pair is told as a share of what it may be. Of pairs with a NaN, an infinity or an overflow nothing is"
            " promised; they are counted apart.",
        ),
        table(headings, rows, "Selections that differ from the baseline's", (2, 3, 4, 5, 6, 7, 8)),
    )


def _held(source: Source) -> list[CaseView]:
    return [case for case in source.cases if case.ties is not None]


def _row(path: str, source: Source, cases: Sequence[CaseView]) -> list[Node]:
    total = _together([case.ties for case in cases if case.ties is not None])
    counts = (len(cases), total.compared, total.queries, total.cells, total.pairs)
    return [breakable(path), source.where, *(f"{one:,}" for one in counts), share(total.nearest), f"{total.unknown:,}"]


def _together(ties: Sequence[NearTies]) -> NearTies:
    sums = {name: sum(getattr(one, name) for one in ties) for name in COUNTS}
    return NearTies(nearest=max(one.nearest for one in ties), **sums)
