"""The page: one self-contained HTML file without scripts, made of runs and records.

Pure: the same evidence and the same kernels give the same bytes.
"""

from __future__ import annotations

from pathlib import Path as FilePath

from validation.report import about, charts, gate_part, outcome
from validation.report.markup import Markup, Node, joined, raw, tag
from validation.report.matrix import matrix
from validation.report.read import Evidence
from validation.report.sentence import of_evidence

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
    ("times", "Time"),
    ("rerun", "Run again"),
)


def page(evidence: Evidence) -> str:
    """The whole page. Raises StrataError when matplotlib is missing."""
    sources = evidence.shown
    sentence = of_evidence(evidence)
    failed = outcome.failures(sources)
    parts: list[Node] = [
        tag("p", "Strata parity report", class_="eyebrow"),
        outcome.banner(sentence),
        about.intro(),
        _contents(failed is not None),
        failed,
        about.ran(evidence.sources),
        about.not_run(sources),
        gate_part.gate(evidence, matrix(evidence)),
        charts.errors(sources),
        charts.ulps(sources),
        charts.bits(sources),
        charts.identification(evidence.sources),
        charts.times(sources),
        outcome.reruns(sources),
    ]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", outcome.title(sentence)),
        tag("style", raw(STYLE.read_text(encoding="utf-8"))),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', tag('main', *parts)), lang='en')}\n"


def _contents(failed: bool) -> Markup:
    items = ([("failed", "Failed cases")] if failed else []) + list(_CONTENTS)
    links = [tag("a", text, href=f"#{name}") for name, text in items]
    return tag("nav", *(joined(link, " ") for link in links), aria_label="Contents")
