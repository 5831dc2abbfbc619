"""The page of a run, in the style of the report: one HTML file without scripts, made of what the run found."""

from __future__ import annotations

from typing import Any

from validation.core.verdict import Verdict
from validation.quality import rule
from validation.quality.gate import GateResult
from validation.quality.loss import EXACT, FP64, Table
from validation.quality.outcome import Outcome
from validation.quality.planted import Planted
from validation.quality.run_needles import NeedleResult
from validation.quality.terminal_table import rows_of_gate, signed
from validation.report.html import STYLE
from validation.report.markup import Markup, Node, joined, raw, table, tag
from validation.report.outcome import banner, section
from validation.report.sentence import Sentence, Tone

NAME = "quality.html"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_TITLE = "Strata quality report"


def page(outcome: Outcome, facts: dict[str, Any]) -> str:
    """The whole page.

    Parameters
    ----------
    outcome
        What the run found.
    facts
        What is said of the run: labels and values.
    """
    sentence = _sentence(outcome)
    parts: list[Node] = [
        tag("p", _TITLE, class_="eyebrow"),
        banner(sentence),
        _gate(outcome.gate) if outcome.gate else None,
        _loss(outcome.loss) if outcome.loss else None,
        _needles(outcome.needles) if outcome.needles else None,
        _planted(outcome.planted) if outcome.planted else None,
        section("ran", "What was run", tag("dl", *(_fact(name, value) for name, value in facts.items()))),
    ]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", f"{sentence.tone.value}: {_TITLE}"),
        tag("style", raw(STYLE.read_text(encoding="utf-8"))),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', tag('main', *parts)), lang='en')}\n"


def _sentence(outcome: Outcome) -> Sentence:
    failed = [f"{name}: {verdict.value}" for name, verdict in outcome.verdicts.items() if not verdict.passes]
    if outcome.passes:
        return Sentence(Tone.PASSED, f"All parts passed: {', '.join(outcome.verdicts)}.")
    if not outcome.verdicts:
        return Sentence(Tone.FAILED, "Nothing was run, so nothing is shown.")
    return Sentence(Tone.FAILED, f"{len(failed)} of {len(outcome.verdicts)} parts did not pass.", failed)


def _fact(name: str, value: object) -> Markup:
    return joined(tag("dt", name), tag("dd", str(value)))


def _verdict(verdict: Verdict) -> Markup:
    return tag("span", verdict.value, class_="good" if verdict.passes else "bad")


def _gate(result: GateResult) -> Markup:
    figures: list[list[Node]] = [[name, value] for name, value in rows_of_gate(result).items()]
    prompts: list[list[Node]] = [
        [str(number), f"{one.divergence:.3e}", f"{one.limit:.3e}", f"{one.divergence / one.limit:.2f}"]
        for number, one in enumerate(result.prompts)
        if one.compared is not None
    ]
    return section(
        "gate",
        f"{result.b} against {result.a}",
        tag("p", _verdict(result.verdict), f" {result.reason}."),
        table(["figure", "value"], figures, f"Over {len(result.prompts)} prompts, in nats", (1,)),
        tag(
            "p",
            "A prompt's limit is what the KV formats differ by in exact arithmetic, and twice the arithmetic error of"
            " the yardstick. A right kernel exceeds it in half of the prompts at most; so many that it would happen"
            f" once in {round(1 / rule.FALSE_ALARM):,} runs are flagged.",
        ),
        table(["prompt", "mean KL", "limit", "share"], prompts, "Each prompt and its limit", (1, 2, 3)),
    )


def _loss(found: Table) -> Markup:
    rows: list[list[Node]] = []
    for row in found.rows:
        name = f"FP64, KV {row.name}" if row.kind == FP64 else row.name
        if len(row.losses):
            own = found.against(row, row.kv)
            rows.append([name, f"{row.mean:.5f}", signed(found.against(row, EXACT)), signed(own)])
        else:
            rows.append([name, f"absent: {row.note}", "-", "-"])
    headings: list[Node] = ["what computes", "nats a token", "less FP64", "less FP64 of its KV format"]
    caption = f"Loss of {found.tokens - 1:,} tokens; differences with the standard error of their mean"
    return section("loss", "Loss per token", table(headings, rows, caption, (1, 2, 3)))


def _needles(result: NeedleResult) -> Markup:
    cells = [(one.length, one.depth) for one in result.answers[0].found] if result.answers else []
    lengths = list(dict.fromkeys(length for length, _ in cells))
    headings: list[Node] = ["setting", "found", *(f"{length:,} tokens" for length in lengths)]
    rows: list[list[Node]] = []
    for one in result.answers:
        by_length = [
            f"{sum(found.right for found in one.found if found.length == length)} of "
            f"{sum(found.length == length for found in one.found)}"
            for length in lengths
        ]
        rows.append([one.setting, f"{one.right} of {len(one.found)}", *by_length])
    return section(
        "needles",
        "Needles",
        tag("p", _verdict(result.verdict)),
        table(headings, rows, "Needles found, at each length in all depths", tuple(range(1, len(headings)))),
    )


def _planted(found: list[Planted]) -> Markup:
    rows: list[list[Node]] = [
        [one.name, one.why, "flagged" if one.flagged else one.verdict.value, f"{one.found} of {one.asked}", one.reason]
        for one in found
    ]
    headings: list[Node] = ["fault", "what it does", "gate", "needles found", "why"]
    return section("planted", "Wrong kernels", table(headings, rows, "Faults planted in copies of the kernels"))
