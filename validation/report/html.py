"""The page: one self-contained HTML file without scripts, made of runs and records.

Pure: the same evidence and the same kernels give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path as FilePath

from validation.report import about, charts, gate_part, near_ties, outcome, own_part
from validation.report.markup import Markup, Node, joined, raw, tag
from validation.report.matrix import matrix
from validation.report.read import Evidence
from validation.report.sentence import of_evidence
from validation.report.source import Source

STYLE = FilePath(__file__).with_name("page.css")
#: Forbids what the page does not have anyway: scripts, and whatever would have to be fetched.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_CONTENTS = (
    ("ran", "What was run"),
    ("not-run", "What was not"),
    ("gate", "Gate"),
    ("errors", "Errors"),
    ("ulps", "Distances"),
    ("bits", "Bits"),
    ("selections", "Selections"),
    ("times", "Time"),
    ("rerun", "Run again"),
)
#: Parts of a page that has kernels of their authors alone.
_OF_OWN = ("ran", "rerun")


def page(evidence: Evidence) -> str:
    """The whole page. Raises StrataError when matplotlib is missing."""
    shown = evidence.shown
    own = [source for source in shown if source.own is not None]
    sources = [source for source in shown if source.own is None]
    ours = bool(sources) or not own
    about_what = "Strata parity report" if ours else "Strata check report"
    sentence = of_evidence(evidence)
    failed = outcome.failures(shown)
    parts: list[Node] = [
        tag("p", about_what, class_="eyebrow"),
        outcome.banner(sentence),
        about.intro() if ours else None,
        own_part.intro() if own else None,
        _contents(failed is not None, [name for name in _CONTENTS if _is_there(name[0], ours, sources)], own),
        failed,
        about.ran(evidence.sources),
        *(own_part.own(source, f"kernel-{index}") for index, source in enumerate(own)),
        *(_of_ours(evidence, sources) if ours else ()),
        outcome.reruns(shown),
    ]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", f"{sentence.tone.value}: {about_what}"),
        tag("style", raw(STYLE.read_text(encoding="utf-8"))),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', tag('main', *parts)), lang='en')}\n"


def _is_there(name: str, ours: bool, sources: Sequence[Source]) -> bool:
    """Whether the page has a part."""
    chosen = any(case.ties is not None for source in sources for case in source.cases)
    return (ours or name in _OF_OWN) and (chosen or name != "selections")


def _of_ours(evidence: Evidence, sources: Sequence[Source]) -> list[Node]:
    """What is said of the kernels of this repository alone."""
    return [
        about.not_run(sources),
        gate_part.gate(evidence, matrix(evidence)),
        charts.errors(sources),
        charts.ulps(sources),
        charts.bits(sources),
        near_ties.near_ties(sources),
        charts.identification(evidence.sources),
        charts.times(sources),
    ]


def _contents(failed: bool, parts: Sequence[tuple[str, str]], own: Sequence[Source]) -> Markup:
    kernels = [(f"kernel-{index}", f"Kernel {source.own.kernel}") for index, source in enumerate(own) if source.own]
    items = [*([("failed", "Failed cases")] if failed else []), *parts[:1], *kernels, *parts[1:]]
    links = [tag("a", text, href=f"#{name}") for name, text in items]
    return tag("nav", *(joined(link, " ") for link in links), aria_label="Contents")
