"""What a report says first: one sentence, and a line of reason for each file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from validation.report.read import Evidence
from validation.report.source import Source


class Tone(Enum):
    """How a sentence ends, worst last. Only PASSED is a pass."""

    PASSED = "passed"
    OPEN = "undecided"
    FAILED = "failed"


@dataclass(frozen=True)
class Sentence:
    """What a page says first.

    Parameters
    ----------
    tone
        Whether it passed.
    text
        For the largest type on the page.
    more
        A line for each thing that a reader must know beside it.
    """

    tone: Tone
    text: str
    more: Sequence[str] = ()


_ORDER = list(Tone)


def of_source(source: Source) -> Sentence:
    """The sentence of one file, which names the kernel that is its author's own."""
    said = _of_source(source)
    return said if source.own is None else replace(said, text=f"{source.own.kernel}: {said.text}")


def _of_source(source: Source) -> Sentence:
    ran = [case for case in source.cases if case.verdict != "NOT_RUN"]
    failed, planned = source.failed, source.planned
    on = f"on {source.where}"
    if source.verified is not None and not source.verified.accepted:
        return Sentence(Tone.FAILED, "The verifier refused this record: it proves nothing.", source.verified.reasons)
    if not ran and source.said:
        return Sentence(Tone.FAILED, f"No case was run {on}.", source.said)
    if planned == 0 or not ran:
        return Sentence(Tone.FAILED, f"Nothing was run {on}, so nothing is proved.", source.said)
    if failed:
        text = f"{_cases(len(failed))} of {planned:,} planned did not pass {on}."
        return Sentence(Tone.FAILED, text, [*_stopped(source), *source.said])
    if len(source.cases) != planned or source.status != "complete":
        said = {"interrupted": "Interrupted", "running": "Unfinished", "failed": "Broken off"}
        word = said.get(source.status, "Incomplete")
        text = f"{word}: {len(ran):,} of {planned:,} planned cases were run {on}, so the run proves nothing as a whole."
        return Sentence(Tone.FAILED, text, ["every case that was run passed", *source.said])
    # A run on lanes may plan a case twice, in two builds; a record may not.
    if source.kind == "record" and len({(case.path, case.text) for case in source.cases}) != planned:
        return Sentence(Tone.FAILED, f"A case is there twice {on}, so others that were planned are not.", source.said)
    return _green(source, f"All {planned:,} planned cases passed {on}")


def _green(source: Source, text: str) -> Sentence:
    """Where every planned case passed: what stands in the way of a pass all the same."""
    if source.kind == "run":
        if source.said:
            first = source.said[0].partition(": ")[0]
            return Sentence(Tone.FAILED, f"Not a pass: {text[0].lower()}{text[1:]}, but {first}.", source.said)
        return Sentence(Tone.PASSED, f"{text}.", [source.own.counted] if source.own and source.own.counted else [])
    if source.said:
        return Sentence(Tone.FAILED, f"{text}, says a record that is not what it is called.", source.said)
    if source.verified is None:
        how = "no verifier has looked at this record: `python -m validation verify FILE` computes its numbers again"
        return Sentence(Tone.OPEN, f"{text}, says a record that is not verified.", [how])
    accepts = f"{source.verified.file} says that the verifier accepts the record"
    if source.verified.outcome != "ACCEPTED":
        return Sentence(Tone.OPEN, f"{text}; {accepts}, without its bits.", source.verified.notes)
    return Sentence(Tone.PASSED, f"{text}; {accepts}.", source.verified.notes)


def of_evidence(evidence: Evidence) -> Sentence:
    """The sentence of the page: of its one run or record, else a count and a sentence for each."""
    lost = [f"{name} cannot be shown: {reason}" for name, reason in evidence.unreadable]
    said = [(source, of_source(source)) for source in evidence.sources if _counts(source)]
    if not said:
        return Sentence(Tone.FAILED, "There is no run and no record here, so nothing is proved.", lost)
    tones = [sentence.tone for _, sentence in said] + [Tone.FAILED] * bool(lost)
    tone = max(tones, key=_ORDER.index)
    if len(said) == 1:
        sentence = said[0][1]
        return Sentence(tone, sentence.text, [*lost, *sentence.more, *_twins(evidence)])
    good = sum(sentence.tone is Tone.PASSED for _, sentence in said)
    lines = [f"{source.kind} {source.name[:24]}: {sentence.text}" for source, sentence in said]
    if good == len(said) and not lost:
        return Sentence(tone, f"All {good} runs and records passed.", lines)
    return Sentence(tone, f"{good} of {len(said)} runs and records passed.", [*lost, *lines])


def _counts(source: Source) -> bool:
    """A record of a run that is shown says nothing new, until a verifier refused it."""
    return not source.twin or (source.verified is not None and not source.verified.accepted) or bool(source.said)


def _twins(evidence: Evidence) -> list[str]:
    lines = []
    for source in evidence.sources:
        if source.twin and _counts(source) is False:
            said = (
                "has not been verified"
                if source.verified is None
                else f"is {source.verified.outcome} by the verifier, says {source.verified.file}"
            )
            lines.append(f"the record of this run, {source.name[:12]}, {said}")
    return lines


def _stopped(source: Source) -> list[str]:
    left = source.planned - len(source.cases)
    return [f"{left:,} planned cases were not run: the run is {source.status}"] if left > 0 else []


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count:,} cases"
