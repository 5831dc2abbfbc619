"""The parts of the page with plots: errors, units in the last place, bits, times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from validation.report import figures, heat
from validation.report.about import badge, numbers
from validation.report.markup import Markup, Node, breakable, coded, folded, joined, table, tag
from validation.report.outcome import path_rows, section
from validation.report.panels import by_path, share
from validation.report.source import CaseView, Source, Timing

#: Kinds of machines drawn; each takes a set of plots.
MOST = 4
#: Rows of the table of times that is shown at once, for each path.
_SLOWEST = 2


def groups(sources: Sequence[Source]) -> list[tuple[str, list[CaseView]]]:
    """Cases by where they ran, in the order of the files."""
    found: dict[str, list[CaseView]] = {}
    for source in sources:
        found.setdefault(source.where, []).extend(source.cases)
    return list(found.items())


def _drawn(sources: Sequence[Source], draw: Any, alone: str, caption: str) -> list[Node]:
    """A plot for each place, with its caption; alone: what is said where there is nothing to draw."""
    parts: list[Node] = []
    places = groups(sources)
    for index, (place, cases) in enumerate(places[:MOST]):
        picture = draw(cases, f"g{index}")
        where = f" {place}." if len(places) > 1 else ""
        if picture is None:
            parts.append(tag("p", coded(alone), where, class_="empty"))
        else:
            parts.append(tag("figure", picture, tag("figcaption", f"{caption}{where}")))
    if len(places) > MOST:
        parts.append(tag("p", f"{len(places) - MOST} more kinds of machines are not drawn; the tables have them."))
    return parts


def errors(sources: Sequence[Source]) -> Markup:
    """Errors against bounds: the table of paths, the histograms, the map."""
    kinds = dict.fromkeys(numbers(source) for source in sources)
    words = (
        ". EXACT means that every output has its predicted bits, WITHIN_BOUND that no output is further from the"
        " double-precision result than its bound; any other verdict is a failure."
    )
    parts: list[Node] = [
        tag(
            "p",
            "The numbers are ",
            joined(*(joined(" and " if index else None, badge(kind)) for index, kind in enumerate(kinds))),
            words,
        )
    ]
    for place, cases in groups(sources):
        if len(groups(sources)) > 1:
            parts.append(tag("h3", place))
        parts.append(path_rows(cases))
    parts.append(tag("h3", "How much of its bound each case used"))
    parts += _drawn(
        sources,
        figures.shares,
        "No case was held to a bound.",
        "Every case counts once, at the largest error of its outputs over the bound of that output. All of it"
        " left of the"
        " dashed line is right; the further left, the more room. The baseline is an older kernel with a bound of"
        " its own.",
    )
    parts.append(tag("h3", "Largest share of the bound, by recipe and path"))
    parts += _drawn(
        sources,
        heat.heat,
        "No case was held to a bound.",
        "Each number is the largest error over its bound among the cases of a recipe on a path: above 1 it would"
        " be a"
        " failure. Lighter is nearer to the bound.",
    )
    for place, cases in groups(sources)[:MOST]:
        parts.append(folded(f"The same as a table: {place}", _map(cases)))
    return section("errors", "Errors, path by path", *parts)


def _map(cases: Sequence[CaseView]) -> Markup:
    worst = heat.largest(cases)
    paths = list(by_path(cases))
    recipes = sorted({recipe for recipe, _ in worst})
    rows: list[list[Node]] = [
        [recipe, *(share(worst[recipe, path]) if (recipe, path) in worst else "-" for path in paths)]
        for recipe in recipes
    ]
    return table(
        ["recipe", *map(breakable, paths)], rows, "Largest share of the bound", tuple(range(1, len(paths) + 1))
    )


def ulps(sources: Sequence[Source]) -> Markup:
    """Distances in units in the last place, old against new."""
    return section(
        "ulps",
        "Distance from the right float",
        *_drawn(
            sources,
            figures.ulps,
            "This file has no distances in units in the last place: records do not hold them, nor do runs of"
            " older versions.",
            "How many floats lie between an output and the double-precision result rounded to float32, in powers"
            " of two. A"
            " small output beside large ones may be many floats away and still right, since errors go with the"
            " terms of a sum,"
            " so this plot judges nothing; it shows whether path and baseline are alike. Outputs that are not a"
            " number have no"
            " distance and are not drawn.",
        ),
    )


def bits(sources: Sequence[Source]) -> Markup:
    """The prediction, and the vectors that tell tensor cores apart."""
    parts: list[Node] = [
        tag(
            "p",
            "The kernels fix the order of every operation, so the only thing that differs between cards is how"
            " the tensor core"
            " rounds. Where that is known, the CPU predicts every output bit of a run, and one different bit is"
            " a failure.",
        )
    ]
    rows: list[list[Node]] = []
    for source in sources:
        for path, own in by_path(source.cases).items():
            held = [case for case in own if case.compared is not None]
            if held:
                differing = sum(case.differing or 0 for case in held)
                compared = sum(case.compared or 0 for case in held)
                rows.append(
                    [breakable(path), source.where, f"{len(held)} of {len(own)}", f"{compared:,}", f"{differing:,}"]
                )
    if rows:
        headings: list[Node] = ["path", "on", "cases compared", "outputs compared", "outputs that differ"]
        parts.append(table(headings, rows, "Predicted bits", (2, 3, 4)))
    else:
        parts.append(
            tag(
                "p",
                "No bits were compared with a prediction here; where a model knows all of a case, it is EXACT.",
                class_="empty",
            )
        )
    return section("bits", "Predicted bits", *parts)


def identification(sources: Sequence[Source]) -> Markup:
    """The bits that a card gave for vectors that tell tensor cores apart."""
    parts: list[Node] = [
        tag(
            "p",
            "Small sums that different tensor cores round differently. The verifier refuses a record whose"
            " vectors are not"
            " those of the named card's rule; the special functions are a hint that nothing depends on.",
        )
    ]
    told = [source for source in sources if source.vectors]
    if not told:
        parts.append(tag("p", "Only records hold these, and none here does.", class_="empty"))
    for source in told:
        assert source.vectors is not None
        vectors: list[Node] = [
            tag("span", f"{key} ", tag("code", value)) for key, value in sorted(source.vectors.items())
        ]
        name = f"{source.name[:12]} ({source.where})"
        inside: list[Node] = [tag("p", *(joined(item, " ") for item in vectors), class_="vectors")]
        if source.special:
            rows: list[list[Node]] = [
                [key, tag("code", value.replace(",", " "))] for key, value in sorted(source.special.items())
            ]
            inside.append(table(["instruction", "bits for 16 inputs"], rows, "Special functions (advisory)"))
        parts.append(folded(f"{len(vectors)} vectors of record {name}", *inside))
    return section("identification", "Which tensor core it was", *parts)


def times(sources: Sequence[Source]) -> Markup:
    """Device times with their spread."""
    parts: list[Node] = [
        tag(
            "p",
            badge("advisory"),
            " Device time of path and baseline on the same inputs in one run. Nothing here depends on it. Most"
            " cases of a profile are of a few"
            " queries, which neither fill a card nor take longer than a launch; the paths are made for hundreds.",
        )
    ]
    parts += _drawn(
        sources,
        figures.speeds,
        "Nothing was timed: `--reps N` on a card does that.",
        "One dot a case: how many times faster the path was than its baseline, by the median. Lines span the"
        " extremes of the"
        " repetitions, slowest against fastest. Above the dashed line the path is faster.",
    )
    every: list[list[Node]] = []
    few: list[list[Node]] = []
    for source in sources:
        for _, own in by_path(source.cases).items():
            timed = [case for case in own if case.new is not None]
            timed.sort(key=lambda case: (-(case.old or case.new or Timing(0, 0, 0)).median, case.text))
            rows = [_times(case) for case in timed]
            few += rows[:_SLOWEST]
            every += rows
    headings: list[Node] = ["path", "recipe", "queries of cells", "path, ms", "baseline, ms", "speed-up"]
    if few:
        parts.append(
            table(headings, few, f"The {_SLOWEST} longest cases of each path: median (least to most)", (3, 4, 5))
        )
    if len(every) > len(few):
        parts.append(folded(f"All {len(every):,} timed cases", table(headings, every, "Every timed case", (3, 4, 5))))
    return section("times", "Time", *parts)


def _times(case: CaseView) -> list[Node]:
    ratio = case.ratio
    return [
        breakable(case.path),
        case.recipe,
        case.size,
        _spread(case.new),
        _spread(case.old),
        "-" if ratio is None else f"{ratio:.2f}x",
    ]


def _spread(timing: Timing | None) -> str:
    if timing is None:
        return "-"
    return f"{timing.median:#.4g} ({timing.least:#.4g} to {timing.most:#.4g})"
