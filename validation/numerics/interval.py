"""Outputs whose true value is enclosed, and what a reference and a path are asked there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from validation.core.verdict import Check, Verdict


@dataclass(frozen=True)
class Enclosure:
    """One output whose true value is enclosed: low <= the true output <= high.

    Parameters
    ----------
    row
        Its query's index among those of the reference.
    query, head, dim
        Which output it is.
    low, high
        Exact numbers.
    """

    row: int
    query: int
    head: int
    dim: int
    low: Fraction
    high: Fraction

    def near(self, value: float) -> Fraction:
        """The least that `value`, finite, can be off."""
        x = Fraction(value)
        return max(self.low - x, x - self.high, Fraction(0))

    def far(self, value: float) -> Fraction:
        """The most that `value`, finite, can be off."""
        x = Fraction(value)
        return max(abs(x - self.low), abs(x - self.high))

    @property
    def index(self) -> tuple[int, int, int]:
        """Where the output stands in arrays of the reference's shape."""
        return self.row, self.head, self.dim

    @property
    def width(self) -> Fraction:
        """high - low."""
        return self.high - self.low


def certificate(out: np.ndarray, own: np.ndarray, enclosures: Sequence[Enclosure]) -> Check:
    """Whether the reference is right: every sampled output within the reference's own bound of the truth.

    Parameters
    ----------
    out
        float64 [queries of the reference, heads, 256], the reference.
    own
        float64 of that shape, its bound.
    enclosures
        The true values of the sampled outputs, enclosed.

    Returns
    -------
    Check
        WITHIN_BOUND; VOID when one output is not, for then the case cannot judge; INCONCLUSIVE when an enclosure is too
        wide to say.
    """
    check = certified("certificate", out, own, enclosures)
    if check.verdict is Verdict.EXCEEDS:
        return replace(check, verdict=Verdict.VOID, reason=f"the reference is wrong: {check.reason}")
    return check


def certified(name: str, got: np.ndarray, bound: np.ndarray, enclosures: Sequence[Enclosure]) -> Check:
    """Whether every enclosed output is within its bound of even the far end of its enclosure.

    Parameters
    ----------
    name
        The name of the check.
    got
        float32 or float64 [queries of the reference, heads, 256].
    bound
        float64 of that shape, the largest error against the truth.
    enclosures
        The true values of the sampled outputs, enclosed.

    Returns
    -------
    Check
        WITHIN_BOUND; EXCEEDS when one output is outside for the near end already (or is not finite); INCONCLUSIVE when
        its enclosure straddles the limit; VOID without an enclosure or with a bound that is none.
    """
    if not enclosures:
        return Check(name, Verdict.VOID, "no output is enclosed")
    if got.shape != bound.shape:
        return Check(name, Verdict.EXCEEDS, f"shape is {got.shape}, expected {bound.shape}")
    shares, widths = [0.0], [0.0]
    straddling: Check | None = None
    for enclosure in enclosures:
        value, limit = float(got[enclosure.index]), float(bound[enclosure.index])
        place = f"[{enclosure.query}, {enclosure.head}, {enclosure.dim}]"
        between = f"{float(enclosure.low)!r} to {float(enclosure.high)!r}"
        said = f"at {place} value {value!r}, true value {between}, bound {limit!r}"
        if not (np.isfinite(limit) and limit >= 0):
            return Check(name, Verdict.VOID, f"{said}: the bound is not finite or is negative")
        if not np.isfinite(value) or enclosure.near(value) > Fraction(limit):
            return Check(name, Verdict.EXCEEDS, said)
        far = enclosure.far(value)
        if far > Fraction(limit):
            straddling = Check(name, Verdict.INCONCLUSIVE, f"{said}: the enclosure is too wide to tell")
        elif far > 0:
            shares.append(float(far / Fraction(limit)))
            widths.append(float(enclosure.width / Fraction(limit)))
    if straddling:
        return straddling
    figures = {"slack": max(shares), "width": max(widths), "enclosed": len(enclosures)}
    return Check(name, Verdict.WITHIN_BOUND, "", figures)
