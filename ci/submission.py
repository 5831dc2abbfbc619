"""Checks a pull request that adds one record: `ci/check_submission BASE HEAD`, or `--file FILE` for a file alone.

BASE and HEAD are whole names, such as refs/heads/main, or all digits of a commit. BASE may be a checkout instead, of
which HEAD counts: a path that begins with . or /. Of the pull request one file is taken, as bytes, from git objects.
Schema, verifier, gate and accepted records are those of BASE, unpacked into a scratch directory; kernels are compiled
into another, and no cache that is there has a say. Nothing is written in the repository.

The last lines say which commit, which blob and which base were judged. Merge that commit, and no name of it: a name may
mean another commit by then. Exit status: 0 accepted, 1 refused, 2 could not check.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from ci import change
from ci.change import FOLDER, Candidate, CannotCheckError, RefusedError
from ci.verifier import ask, unpack
from strata.arguments import file, seconds, word
from strata.command import command
from strata.executors.base import StrataError
from strata.shown import shown

ACCEPTED, REFUSED, COULD_NOT_CHECK = 0, 1, 2
#: Seconds that verifier and gate may take together; to predict every row of a standard record takes about 6 minutes on
#: 2 idle cores. The workflow's own limit is longer, so that the check ends by itself and says so.
SECONDS = 2400
ROOT = FilePath(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Verdict:
    """reasons: why it is refused, none when it is accepted; notes: what an accepted one is worth; judged: what was
    looked at, and by what."""

    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        return not self.reasons

    def lines(self) -> list[str]:
        """The verdict, a line each, of printable ASCII and without what the log of a CI host takes for a command."""
        said = [f"REFUSED {reason}" for reason in self.reasons] or ["ACCEPTED", *self.notes]
        said += self.judged
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
    """The verdict on a record, by the verifier and the gate that lie in `base`, in `seconds` and with a cache of its
    own. Raises CannotCheckError."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        file = FilePath(folder) / candidate.name
        file.write_bytes(candidate.data)
        answer = ask(base, FilePath(cache), seconds, "validation", "verify", "--json", "--all-bits", str(file))
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
            left = began + seconds - time.monotonic()
            standing = ask(base, FilePath(cache), left, "ci.standing", str(file)).value
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
        "base",
        type=word,
        nargs="?",
        default=str(ROOT),
        help="the main branch: a commit of this checkout, or a checkout",
    )
    top.add_argument("head", type=word, nargs="?", help="the pull request: a commit of the same repository")
    top.add_argument("--file", type=file, metavar="FILE", help="a record alone, instead of HEAD")
    top.add_argument("--seconds", type=seconds, default=SECONDS, metavar="N", help="time limit (default: %(default)s)")
    top.add_argument("--markdown", action="store_true", help="print a comment for the pull request")
    return top


@command()
def main(arguments: Sequence[str] | None = None) -> int:
    """Check, print ACCEPTED or REFUSED with a line a reason; returns the exit status."""
    top = parser()
    options = top.parse_args(arguments)
    if (options.head is None) is (options.file is None):
        top.error("expected BASE HEAD, or --file FILE")
    try:
        verdict = _check(options)
    except StrataError as error:
        print(f"error: {shown(error)}", file=sys.stderr)
        return COULD_NOT_CHECK
    except Exception as error:  # a fault of this program is no verdict on the pull request
        print(f"error: unforeseen {type(error).__name__}: {shown(error, 300)}", file=sys.stderr)
        return COULD_NOT_CHECK
    print(verdict.markdown() if options.markdown else "\n".join(verdict.lines()))
    return ACCEPTED if verdict.accepted else REFUSED


def _check(options: argparse.Namespace) -> Verdict:
    # A name of a branch is no directory, whatever lies in this one.
    checkout = options.base.startswith(".") or FilePath(options.base).is_absolute()
    repository = FilePath(options.base).resolve() if checkout else ROOT
    base = change.commit(repository, "HEAD" if checkout else options.base)
    by = f"checked by {base}"
    judged: tuple[str, ...] = ()
    try:
        if options.file is None:
            head = change.commit(repository, options.head)
            judged = (f"head {head}",)
            candidate = change.added(repository, base, head)
            judged += (f"blob {candidate.blob} {FOLDER}/{candidate.name}",)
        else:
            candidate = change.from_file(options.file)
        with tempfile.TemporaryDirectory() as folder:
            unpack(repository, base, FilePath(folder))
            if (FilePath(folder) / FOLDER / candidate.name).exists():
                raise RefusedError([f"shape: {FOLDER}/{candidate.name} is there already"])
            verdict = judge(candidate, FilePath(folder), options.seconds)
    except RefusedError as error:
        return Verdict(error.reasons, (), (*judged, by))
    if verdict.accepted and candidate.commits > 1:
        judged += (f"{candidate.commits} commits, of which only the sum was looked at: merge them as one",)
    return replace(verdict, judged=(*judged, by))
