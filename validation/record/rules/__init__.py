"""What a record is asked, one short name a rule.

`TABLE` holds the cheap rules in the order in which they are asked; those that compute rows stand in `rows`. A rule is
a function from a `Subject` to the reasons why it is broken, and takes nothing for granted that another rule checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from validation.record.rules import committed, compiled, judged, origin, plan
from validation.record.rules.subject import Subject


@dataclass(frozen=True)
class Rule:
    """One thing that every record must keep.

    Parameters
    ----------
    name
        What a refusal begins with.
    broken
        A line for each place where a record breaks it.
    needs
        Rules without which its answer would mean nothing.
    """

    name: str
    broken: Callable[[Subject], Iterator[str]]
    needs: tuple[str, ...] = ()


TABLE = (
    Rule("sources", origin.sources),
    Rule("provenance", origin.provenance),
    Rule("plan", plan.plan),
    Rule("codebooks", origin.codebooks, ("plan",)),
    Rule("rows", plan.rows, ("plan",)),
    Rule("images", compiled.images, ("plan", "provenance")),
    Rule("witness", compiled.witness, ("plan", "images")),
    Rule("checks", judged.checks, ("plan", "rows")),
    Rule("passed", judged.passed, ("plan", "checks")),
    Rule("slack", judged.slack, ("plan", "checks", "passed")),
    Rule("prediction", judged.prediction, ("plan", "checks", "passed", "provenance", "images")),
    Rule("identification", origin.identification, ("provenance", "images")),
    Rule("timings", judged.timings, ("plan",)),
    Rule("root", committed.root),
    Rule("challenge", committed.challenge, ("root", "plan", "rows")),
    Rule("proofs", committed.proofs, ("challenge",)),
)
