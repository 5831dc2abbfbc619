"""The battery of wrong answers that every case's verdict must refuse (design law 7).

A probe is the right answer made wrong in one way. A probe is live when it is further from the
reference than the bound allows, which is computed here and not by the comparator under test. A case
is void when the judge accepts a live probe, refuses the right answer, or when the case's own data
make zeros or a flipped head indistinguishable from the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from validation.core.verdict import Check, Verdict, holds, identical

#: Whether a candidate (float32, the shape of the reference) is accepted.
Judge = Callable[[np.ndarray], bool]


def _cases(right: np.ndarray, limit: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Named wrong answers from the right one [queries, heads, dims]; limit: float64, bound per element."""
    queries, heads, _ = right.shape
    yield "zeros", np.zeros_like(right)
    yield "nan", _with(right, (-1, -1, -1), np.float32(np.nan))
    yield "infinity", _with(right, (0, 0, 0), np.float32(np.inf))
    last = float(right[-1, -1, -1])
    # Beyond the bound by more than the rounding of the element itself.
    step = 2 * float(limit[-1, -1, -1]) + abs(last) * 2.0**-20 + 2.0**-100
    with np.errstate(over="ignore"):  # beside the largest float it is infinite, and wrong as well
        beyond = np.float32(last + step)
    yield "one element", _with(right, (-1, -1, -1), beyond)
    yield "shifted dimensions", np.roll(right, 1, axis=2)
    if queries > 1:
        yield "another query's rows", np.roll(right, 1, axis=0)
        stale = right.copy()
        stale[-1, -1] = right[-2, -1]
        yield "one stale row", stale
    if heads > 1:
        yield "permuted heads", np.roll(right, 1, axis=1)
    for head in range(heads):
        flipped = right.copy()
        flipped[:, head] *= np.float32(-1)
        yield f"flipped head {head}", flipped


def _with(right: np.ndarray, index: tuple[int, int, int], value: np.float32) -> np.ndarray:
    wrong = right.copy()
    wrong[index] = value
    return wrong


def _live(wrong: np.ndarray, reference: np.ndarray, limit: np.ndarray) -> bool:
    """Whether some element is further from the reference than its bound; a NaN always is."""
    with np.errstate(invalid="ignore"):
        return bool((~(np.abs(wrong.astype(np.float64) - reference) <= limit)).any())


def self_check(reference: np.ndarray, bound: np.ndarray | float, judge: Judge) -> Check:
    """EXACT when `judge` accepts the reference and refuses every live probe, else VOID with the reason.

    reference: float64 [queries, heads, dims], finite; bound: as the judge uses it against the reference.
    """
    if reference.size == 0 or not np.isfinite(reference).all():
        return Check("self", Verdict.VOID, "there is no finite reference to make wrong answers from")
    limit = np.broadcast_to(np.asarray(bound, dtype=np.float64), reference.shape)
    right = reference.astype(np.float32)
    figures: dict[str, list[str]] = {"refused": [], "same as the right answer": []}
    if not judge(right):
        return Check("self", Verdict.VOID, "the verdict refuses the reference itself")
    for name, wrong in _cases(right, limit):
        if _live(wrong, reference, limit):
            if judge(wrong):
                return Check("self", Verdict.VOID, f"the verdict accepts a wrong answer: {name}", {"accepted": name})
            figures["refused"].append(name)
            continue
        blind = name == "zeros" or name.startswith("flipped head")
        if blind and (wrong != right).any():
            return Check("self", Verdict.VOID, f"this case cannot tell right from wrong: {name}", {"blind": name})
        figures["same as the right answer"].append(name)
    return Check("self", Verdict.EXACT, "", dict(figures))


def bit_battery(expected: np.ndarray) -> Check:
    """Whether the bit comparison refuses one flipped bit, where bits alone judge a case."""
    wrong = np.ascontiguousarray(expected).copy()
    wrong.view(np.uint8).reshape(-1)[-1] ^= 1
    refused = not identical("bits", wrong, expected).verdict.passes
    return holds("self", refused, "the bit comparison accepts a flipped bit")
