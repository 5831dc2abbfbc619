"""The quality gate: two settings, A and B, in turn over the same prompts, and whether B may differ as it does.

Each prompt is read by A, B, A and B. Both readings of a setting must be equal bit for bit, else the run is VOID: what
is not repeatable cannot be compared. `rule` says when B is flagged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from strata.engine.forward import LostValuesError
from strata.executors.base import StrataError
from validation.core.verdict import Verdict
from validation.quality import rule
from validation.quality.fp64_model import log_softmax
from validation.quality.measures import Compared, Spread, agreeing, compared, digests, divergence, spread
from validation.quality.parallel import each, parts
from validation.quality.references import References
from validation.quality.subject import Subject

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
#: Called after each prompt with its number.
Progress = Callable[[int], None]

#: Positions whose FP64 logits are held at once.
ROWS = 16


@dataclass(frozen=True)
class PromptResult:
    """What came of one prompt.

    Parameters
    ----------
    repeated_a, repeated_b
        Positions at which the second reading had other bits.
    not_finite_a, not_finite_b
        Positions with a logit that is not finite.
    refused
        What B said when it gave no logits, else empty.
    compared
        A and B, position by position; None when there is nothing to compare.
    arithmetic, formats
        KL(F_A || A) and KL(F_A || F_B) of each position, see `rule`.
    agreeing, same
        Of the greedy continuations: tokens before the first that differs, and tokens that are equal at their place.
    """

    repeated_a: int = 0
    repeated_b: int = 0
    not_finite_a: int = 0
    not_finite_b: int = 0
    refused: str = ""
    compared: Compared | None = None
    arithmetic: Float64 = field(default_factory=lambda: np.zeros(0))
    formats: Float64 = field(default_factory=lambda: np.zeros(0))
    agreeing: int = 0
    same: int = 0

    @property
    def divergence(self) -> float:
        """The mean of KL(A || B)."""
        return math.nan if self.compared is None else float(self.compared.kl.mean())

    @property
    def limit(self) -> float:
        """What it may be: see `rule`."""
        return float(self.formats.mean() + 2 * self.arithmetic.mean()) if len(self.formats) else math.nan


@dataclass(frozen=True)
class GateResult:
    """A run of the gate. verdict, reason: what it came to; exceeding: indices of prompts beyond their limits."""

    a: str
    b: str
    continued: int
    prompts: Sequence[PromptResult]
    verdict: Verdict
    reason: str
    exceeding: Sequence[int]

    def pooled(self, name: str) -> Float64:
        """An array of `Compared` over all prompts."""
        found = [getattr(one.compared, name) for one in self.prompts if one.compared is not None]
        return np.concatenate([np.zeros(0), *found])

    @property
    def top(self) -> float:
        """The share of positions with the same top token."""
        same = self.pooled("same_top")
        return float(same.mean()) if len(same) else math.nan

    @property
    def kl(self) -> Spread:
        """KL(A || B) over all positions."""
        return spread(self.pooled("kl"))

    @property
    def likelihood(self) -> Spread:
        """ln p of the real next token by B, less that by A. The standard error is over positions."""
        return spread(self.pooled("likelihood_b") - self.pooled("likelihood_a"))


def run(
    a: Subject,
    b: Subject,
    formats: tuple[str, str],
    prompts: Sequence[Int64],
    references: References,
    continued: int,
    progress: Progress = lambda number: None,
) -> GateResult:
    """Run the gate.

    Parameters
    ----------
    a, b
        The settings. What A is compared with must be sound: it is the yardstick.
    formats
        Their KV formats.
    prompts
        Token ids of each prompt.
    references
        FP64 states.
    continued
        Tokens of each greedy continuation.
    progress
        Called after each prompt.

    Raises
    ------
    StrataError
        For fewer prompts than the rule needs, and when A refuses a prompt.
    """
    if len(prompts) < rule.FEWEST:
        raise StrataError(f"prompts: {len(prompts)}, expected at least {rule.FEWEST}: of fewer none is improbable")
    found = []
    for number, tokens in enumerate(prompts):
        found.append(_prompt(a, b, formats, tokens, references, continued))
        progress(number)
    verdict, reason, exceeding = judged(found)
    return GateResult(a.name, b.name, continued, found, verdict, reason, exceeding)


def judged(found: Sequence[PromptResult]) -> tuple[Verdict, str, list[int]]:
    """Verdict, reason, and the prompts beyond their limits."""
    for name, repeated in (("A", "repeated_a"), ("B", "repeated_b")):
        differing = sum(getattr(one, repeated) for one in found)
        if differing:
            return Verdict.VOID, f"{name} gave other bits at {differing} positions when it read them again", []
    if count := sum(one.not_finite_a for one in found):
        return Verdict.VOID, f"A has logits that are not finite at {count} positions", []
    refused = [one.refused for one in found if one.refused]
    if refused:
        return Verdict.EXCEEDS, f"B refused {len(refused)} of {len(found)} prompts: {refused[0]}", []
    if count := sum(one.not_finite_b for one in found):
        return Verdict.EXCEEDS, f"B has logits that are not finite at {count} positions", []
    beyond = rule.exceeding([one.divergence for one in found], [one.limit for one in found])
    allowed = rule.allowed(len(found))
    said = f"{len(beyond)} of {len(found)} prompts exceed their limits, {allowed} may"
    if len(beyond) > allowed:
        return Verdict.EXCEEDS, f"{said}: chance {rule.tail(len(beyond), len(found)):.1e} for a right kernel", beyond
    return Verdict.WITHIN_BOUND, said, beyond


def _prompt(
    a: Subject, b: Subject, formats: tuple[str, str], tokens: Int64, references: References, continued: int
) -> PromptResult:
    logits_a = _all(a, tokens)
    try:
        logits_b = _all(b, tokens)
    except LostValuesError as error:
        return PromptResult(refused=str(error))
    twice_a = _differing(logits_a, digests(a.logits(tokens)))
    twice_b = _differing(logits_b, digests(b.logits(tokens)))
    lost_a, lost_b = (int((~np.isfinite(logits).all(axis=-1)).sum()) for logits in (logits_a, logits_b))
    if twice_a or twice_b or lost_a or lost_b:
        return PromptResult(twice_a, twice_b, lost_a, lost_b)
    states = {kv: references.states(tokens, kv) for kv in dict.fromkeys(formats)}

    def limits(rows: slice) -> tuple[Float64, Float64]:
        exact = {kv: log_softmax(references.model.logits(one[rows])) for kv, one in states.items()}
        own = exact[formats[0]]
        return divergence(own, log_softmax(logits_a[rows])), divergence(own, exact[formats[1]])

    arithmetic, between = zip(*each(limits, parts(len(tokens), ROWS)), strict=True)
    told = compared(logits_a, logits_b, tokens)
    continued_a, continued_b = a.greedy(tokens, continued), b.greedy(tokens, continued)
    return PromptResult(
        compared=told,
        arithmetic=np.concatenate(arithmetic),
        formats=np.concatenate(between),
        agreeing=agreeing(continued_a, continued_b),
        same=sum(x == y for x, y in zip(continued_a, continued_b, strict=True)),
    )


def _all(subject: Subject, tokens: Int64) -> Float32:
    """Logits of every position [n, vocabulary]. Raises StrataError when a slice is missing or not in its place."""
    out: Float32 | None = None
    reached = 0
    for first, rows in subject.logits(tokens):
        if out is None:
            out = np.empty((len(tokens), rows.shape[1]), np.float32)
        if first != reached or first + len(rows) > len(tokens):
            raise StrataError(f"{subject.name}: logits of positions {first} to {first + len(rows)} behind {reached}")
        out[first : first + len(rows)] = rows
        reached += len(rows)
    if out is None or reached != len(tokens):
        raise StrataError(f"{subject.name}: logits of {reached} positions, expected {len(tokens)}")
    return out


def _differing(logits: Float32, again: Sequence[str]) -> int:
    """Positions whose bits differ from a second reading's digests."""
    first = digests([(0, logits)])
    return sum(x != y for x, y in zip(first, again, strict=True))
