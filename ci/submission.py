"""Checks a pull request that adds one record: `ci/check_submission BASE HEAD`, or `--file FILE` for a file alone.

Of the pull request one file is taken, as bytes, from git objects. Schema, verifier, gate and accepted records are those
of BASE, unpacked into a scratch directory. Nothing is written in the repository. Exit status: 0 accepted, 1 refused,
2 could not check.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from ci import change
from ci.change import FOLDER, Candidate, CannotCheckError, RefusedError
from ci.verifier import ask, unpack
from strata.arguments import file, seconds, word
from strata.executors.base import StrataError

ACCEPTED, REFUSED, COULD_NOT_CHECK = 0, 1, 2
#: Seconds the verifier may take to predict every row of a standard record; on 2 idle cores it takes about 6 minutes.
SECONDS = 2400
ROOT = FilePath(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Verdict:
    """reasons: why it is refused, none when it is accepted; notes: what an accepted one is worth."""

    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        return not self.reasons

    def lines(self) -> list[str]:
        """The verdict, a line each, of printable ASCII and without what the log of a CI host takes for a command."""
        said = [f"REFUSED {reason}" for reason in self.reasons] or ["ACCEPTED", *self.notes]
        return [ascii(line)[1:-1].replace("##[", "## [")[:400] for line in said]

    def markdown(self) -> str:
        """The verdict as a comment. The fence cannot be left: no line in it holds a backtick."""
        title = "ACCEPTED" if self.accepted else "REFUSED"
        block = "\n".join(line.replace("`", "'") for line in self.lines())
        left = (
            "A record proves numbers, not where they come from; whether the card ran is for a maintainer to judge."
            if self.accepted
            else "A refused record opens nothing. `ci/README.md` says what is checked."
        )
        return f"**Record: {title}**\n\n````text\n{block}\n````\n\n{left}"


def judge(candidate: Candidate, base: FilePath, seconds: float) -> Verdict:
    """The verdict on a record, by the verifier and the gate that lie in `base`. Raises CannotCheckError."""
    with tempfile.TemporaryDirectory() as folder:
        file = FilePath(folder) / candidate.name
        file.write_bytes(candidate.data)
        answer = ask(base, seconds, "validation", "verify", "--json", "--all-bits", str(file))
        outcome = answer.value
        try:
            reasons = _reasons(outcome)
            if (answer.status == 0) is not bool(outcome["accepted"]):
                raise CannotCheckError(f"the verifier ends with {answer.status} and says {outcome['outcome']}")
            if outcome["accepted"] and f"{outcome['name']}.json" != candidate.name:
                raise CannotCheckError(f"the verifier speaks of {outcome['name']}, expected {candidate.name}")
            if reasons:
                return Verdict(tuple(reasons))
            opened = [item["path"] for item in outcome["gate"] if _attested(item)]
            others = [f"{item['path']}: {item['kind']}; {item['reason']}" for item in outcome["gate"]]
            standing = ask(base, seconds, "ci.standing", str(file)).value
            news = {path: why for path, why in standing["news"].items() if path in opened}
            known = {path: why for path, why in standing["known"].items() if path in opened}
        except (KeyError, TypeError, AttributeError) as error:
            raise CannotCheckError(f"the verifier's answer has another shape: {error!r}") from error
    if not news:
        return Verdict(tuple(f"news: {path}: {known.get(path, 'not opened')}" for path in opened))
    notes = [f"record {candidate.name}", *outcome["notes"]]
    notes += [f"news for {path}: {why}" for path, why in news.items()]
    return Verdict((), tuple(notes + others))


def _reasons(outcome: dict[str, Any]) -> list[str]:
    """Why the verifier's outcome does not do for a submission."""
    if not outcome["accepted"]:
        return [f"verify {refusal['rule']}: {refusal['reason']}" for refusal in outcome["refusals"]] or ["verify: no"]
    if outcome["with_bits"] is not True:
        return [
            "bits: they were not predicted: no rule of this card's tensor core is established, which a record needs"
        ]
    if not any(_attested(item) for item in outcome["gate"]):
        told = [f"evidence: {item['path']}: {item['kind']}; {item['reason']}" for item in outcome["gate"]]
        return ["evidence: it opens no path: it does not say that a card of the tier ran it", *told]
    return []


def _attested(item: dict[str, Any]) -> bool:
    return item["kind"] == "attested" and item["opens"] is True


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="ci/check_submission", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument(
        "base", type=word, nargs="?", default=str(ROOT), help="the main branch: a checkout, or a commit of this one"
    )
    top.add_argument("head", type=word, nargs="?", help="the pull request: a commit of the same repository")
    top.add_argument("--file", type=file, metavar="FILE", help="a record alone, instead of HEAD")
    top.add_argument("--seconds", type=seconds, default=SECONDS, metavar="N", help="time limit (default: %(default)s)")
    top.add_argument("--markdown", action="store_true", help="print a comment for the pull request")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, print ACCEPTED or REFUSED with a line a reason; returns the exit status."""
    top = parser()
    options = top.parse_args(arguments)
    if (options.head is None) is (options.file is None):
        top.error("expected BASE HEAD, or --file FILE")
    checkout = FilePath(options.base).is_dir()
    repository = FilePath(options.base).resolve() if checkout else ROOT
    try:
        base = change.commit(repository, "HEAD" if checkout else options.base)
        verdict = _check(repository, base, options)
    except RefusedError as error:
        verdict = Verdict(error.reasons)
    except StrataError as error:
        print(f"error: {error}", file=sys.stderr)
        return COULD_NOT_CHECK
    print(verdict.markdown() if options.markdown else "\n".join(verdict.lines()))
    return ACCEPTED if verdict.accepted else REFUSED


def _check(repository: FilePath, base: str, options: argparse.Namespace) -> Verdict:
    if options.file is None:
        candidate = change.added(repository, base, change.commit(repository, options.head))
    else:
        candidate = change.from_file(options.file)
    with tempfile.TemporaryDirectory() as folder:
        unpack(repository, base, FilePath(folder))
        if (FilePath(folder) / FOLDER / candidate.name).exists():
            raise RefusedError([f"shape: {FOLDER}/{candidate.name} is there already"])
        verdict = judge(candidate, FilePath(folder), options.seconds)
    by = f"checked by {base[:12]}"
    if candidate.commits > 1:
        by += f"; {candidate.commits} commits, of which only the sum was looked at: merge them as one"
    return Verdict(verdict.reasons, (*verdict.notes, by) if verdict.accepted else ())
