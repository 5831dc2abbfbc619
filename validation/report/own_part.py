"""The parts of the page about an author's own kernel: its recipes, and what its checks noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from validation.report.markup import Markup, Node, folded, joined, shown, table, tag
from validation.report.outcome import most, section
from validation.report.own import Fault, Own
from validation.report.source import CaseView, Source


def intro() -> Markup:
    """What a reader who has never heard of this needs."""
    return tag(
        "section",
        tag(
            "p",
            "A kernel of its author's own was run on hostile data, and each output was compared with a result in double"
            " precision that the author gives with it. A ",
            tag("em", "case"),
            " is a recipe for data, with sizes and a seed. The ",
            tag("em", "bound"),
            " is the largest error that the author's count of roundings allows: a share of 1 is the limit, and more is"
            " a failure. Integers have no share: every bit of them is known.",
        ),
        class_="intro",
    )


def own(source: Source, place: str) -> Markup:
    """What one kernel's cases came to, recipe by recipe, and the faults planted in its source.

    Parameters
    ----------
    source
        The source of a run of check.
    place
        The id of the part.
    """
    assert source.own is not None
    facts = source.own
    parts: list[Node] = []
    if not facts.attested:
        parts.append(tag("p", "Launch not attested: CuPy compiled and launched it, so no case is EXACT."))
    if facts.inputs:
        parts.append(tag("p", "Inputs: ", ", ".join(f"{name} {domain}" for name, domain in facts.inputs.items())))
    if source.cases:
        parts.append(_recipes(source.cases))
    lines = [f"left out by its author: {name} ({reason})" for name, reason in facts.left_out.items()]
    parts.append(tag("ul", *(tag("li", line) for line in lines)) if lines else None)
    parts.append(_faults(facts))
    return section(place, f"Kernel {facts.kernel}", *parts)


def _recipes(cases: Sequence[CaseView]) -> Markup:
    by_recipe: dict[str, list[CaseView]] = {}
    for case in cases:
        by_recipe.setdefault(case.recipe, []).append(case)
    rows: list[list[Node]] = []
    for recipe, given in by_recipe.items():
        passed = sum(case.passes for case in given)
        counts = sorted(Counter(case.verdict for case in given).items())
        words = [tag("span", f"{count} {shown(verdict, 20)} ", class_="once") for verdict, count in counts]
        compared = [case for case in given if case.compared is not None]
        rows.append(
            [
                shown(recipe, 44),
                tag("span", f"{passed} of {len(given)}", class_="good" if passed == len(given) else "bad"),
                joined(*words),
                most(given, "bound"),
                f"{sum(case.compared or 0 for case in compared):,}" if compared else "-",
                f"{sum(case.differing or 0 for case in compared):,}" if compared else "-",
            ]
        )
    headings: list[Node] = ["recipe", "cases passed", "verdicts", "error / bound", "bits of outputs known", "differing"]
    return table(headings, rows, "Every recipe, with its largest share of the bound", (1, 3, 4, 5))


def _faults(facts: Own) -> Markup:
    if not facts.planned:
        return joined(tag("h3", "Planted faults"), tag("p", "None were planted in its source."))
    killed, survived = facts.of("killed"), facts.of("survived")
    parts: list[Node] = [tag("h3", "Planted faults"), tag("p", f"{facts.counted}.")]
    if facts.killers:
        rows: list[list[Node]] = [[check or "?", f"{count:,}"] for check, count in facts.killers]
        parts.append(table(["first check that refused it", "faults"], rows, "Which checks noticed faults", (1,)))
    if survived:
        parts.append(tag("p", "Nothing noticed these. Each is a question: should a case, a bound or a model have?"))
        parts.append(tag("ol", *(tag("li", fault.question or fault.name) for fault in survived), class_="asked"))
    if killed:
        columns: list[Node] = ["fault", "line", "in place of", "stands", "check", "what it said"]
        noticed = table(columns, [_row(fault) for fault in killed], "Faults that were noticed")
        parts.append(folded(f"All {len(killed):,} that were noticed", noticed))
    others = [f"{len(facts.of(fate)):,} {said}" for fate, said in _OTHERS.items() if facts.of(fate)]
    others += [f"{facts.made - facts.planned:,} more can be planted"] if facts.made > facts.planned else []
    parts.append(tag("p", "; ".join(others), ".") if others else None)
    return joined(*parts)


_OTHERS = {"same program": "compile to the same program", "not compiled": "do not compile"}


def _row(fault: Fault) -> list[Node]:
    edit = [tag("code", fault.old), tag("code", fault.new)]
    return [fault.name, fault.line, *edit, fault.check, shown(fault.reason, 200)]
