"""The parts of the page that say what came out: the sentence, the cases that failed, a row for each path,"
" reruns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from validation.report.markup import Markup, Node, breakable, folded, joined, shown, table, tag
from validation.report.panels import by_path, share
from validation.report.sentence import Sentence, Tone
from validation.report.source import CaseView, Source

_MARKS = {Tone.PASSED: "\u2713", Tone.OPEN: "?", Tone.FAILED: "\u2717"}
#: Failed cases shown open; the rest is folded, and none is left out.
_OPEN = 20
_UNKNOWN = "No command is offered: this version knows no such path or case."
#: Cases of which the command is given although they passed.
_RERUNS = 10


def banner(sentence: Sentence) -> Markup:
    """The first thing on the page."""
    mark = tag("span", f"{_MARKS[sentence.tone]} {sentence.tone.value}", class_="mark")
    more = tag("ul", *(tag("li", line) for line in sentence.more)) if sentence.more else None
    return tag("header", mark, tag("h1", sentence.text), more, class_=f"banner {sentence.tone.name.lower()}")


def failures(sources: Sequence[Source]) -> Markup | None:
    """Every case that did not pass, with its reason and its command. None where there is none."""
    items = [_failure(case, source, len(sources) > 1) for source in sources for case in source.failed]
    if not items:
        return None
    parts: list[Node] = [
        tag("h2", f"Cases that did not pass ({len(items):,})"),
        tag("ol", *items[:_OPEN], class_="failed"),
    ]
    if items[_OPEN:]:
        rest = tag("ol", *items[_OPEN:], class_="failed", start=_OPEN + 1)
        parts.append(folded(f"{len(items) - _OPEN:,} more", rest))
    return tag("section", *parts, id="failed")


def _failure(case: CaseView, source: Source, many: bool) -> Markup:
    where = f" in {source.name[:24]}" if many else ""
    return tag(
        "li",
        tag("strong", f"{case.path}, {case.recipe}: {case.verdict}"),
        where,
        tag("p", case.explain or "no reason is given"),
        tag("pre", tag("code", case.rerun)) if case.rerun else tag("p", _UNKNOWN),
    )


def path_rows(cases: Sequence[CaseView]) -> Markup:
    """A row for each path: verdicts, largest shares of bounds, bits."""
    rows: list[list[Node]] = []
    for path, own in by_path(cases).items():
        verdicts = Counter(case.verdict for case in own)
        compared = [case for case in own if case.compared is not None]
        bits: Node = "none compared"
        differing: Node = "-"
        if compared:
            bits = f"{sum(case.compared or 0 for case in compared):,}"
            differing = f"{sum(case.differing or 0 for case in compared):,}"
        passed = sum(case.passes for case in own)
        count = tag("span", f"{passed} of {len(own)}", class_="good" if passed == len(own) else "bad")
        others = joined(
            *(
                tag("span", f"{number} {shown(verdict, 20)} ", class_="once")
                for verdict, number in sorted(verdicts.items())
            )
        )
        rows.append(
            [
                breakable(path),
                count,
                others,
                most(own, "bound"),
                most(own, "baseline bound"),
                most(own, "certified"),
                bits,
                differing,
            ]
        )
    headings: list[Node] = ["path", "cases passed", "verdicts"]
    headings += ["error / bound", "baseline / its bound", "against true value", "outputs compared", "differing"]
    return table(headings, rows, "Every path that was run, with its largest shares of bounds", (1, 3, 4, 5, 6, 7))


def most(cases: Sequence[CaseView], check: str) -> str:
    """The largest share of a bound among cases, as the page shows it.

    Parameters
    ----------
    cases
        The cases.
    check
        The name of the check.
    """
    found = [case.slack[check] for case in cases if check in case.slack]
    if any(map(math.isnan, found)):
        return "NaN"
    return share(max(found)) if found else "-"


def reruns(sources: Sequence[Source]) -> Markup:
    """The commands of the cases that came nearest to their bounds."""
    cases = [case for source in sources for case in source.cases if "bound" in case.slack]
    nearest = sorted(cases, key=lambda case: (-case.worst, case.path, case.text))[:_RERUNS]
    parts: list[Node] = [
        tag("h2", "Run a case again"),
        tag(
            "p",
            "In a checkout of Strata, with its environment. One command is one case; data come from the case's"
            " seed, the"
            " same bytes on every machine. Without a card, ",
            tag("code", "--executor lanes"),
            " runs the same kernel on the CPU.",
        ),
    ]
    if any(source.own for source in sources):
        parts.append(tag("p", "Commands of a kernel of its author's own are for the directory of the author's file."))
    if nearest:
        parts.append(tag("p", f"The {len(nearest)} cases that used most of their bound:"))
        rows: list[list[Node]] = [
            [breakable(case.path), case.recipe, share(case.worst), tag("code", case.rerun) if case.rerun else "-"]
            for case in nearest
        ]
        parts.append(table(["path", "recipe", "share", "command"], rows, "Commands of the nearest cases", (2,)))
    whole = [source.command for source in sources if source.command]
    if whole:
        parts.append(tag("p", "The whole run, its options as the file tells them; where results go is yours to say:"))
        parts += [tag("pre", tag("code", command)) for command in dict.fromkeys(whole)]
    return tag("section", *parts, id="rerun")


def section(name: str, heading: str, *children: Node) -> Markup:
    """A part of the page under its heading.

    Parameters
    ----------
    name
        Its id.
    heading
        What is above it.
    *children
        What is in it.
    """
    return tag("section", tag("h2", heading), joined(*children), id=name)
