"""What enclosures of true outputs are asked: whether the reference is right, and whether a path is near the truth."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from validation.core.control import Control
from validation.numerics import interval as enclosure
from validation.numerics.interval import Enclosure

#: Two queries, one head; the truth is 1/3 everywhere, which no float is.
TRUTH, SHAPE = Fraction(1, 3), (2, 1, 256)
#: An enclosure is this wide on either side, and a bound this large.
WIDTH, BOUND = Fraction(1, 1 << 70), 2.0**-40


def _around(width: Fraction, *rows: int) -> list[Enclosure]:
    return [Enclosure(row, row, 0, 255 * row, TRUTH - width, TRUTH + width) for row in rows]


def _asked(which: str, off: float, bound: float, enclosures: list[Enclosure], row: int) -> str:
    out = np.full(SHAPE, float(TRUTH))
    out[row, 0, 255 * row] = float(TRUTH) + off
    limit = np.full(SHAPE, bound)
    if which == "certificate":
        return enclosure.certificate(out, limit, enclosures).verdict.value
    return enclosure.certified("certified", out, limit, enclosures).verdict.value


def enclosing() -> Iterator[Control]:
    """Rows (distance from the truth, bound, enclosures, the row that is off) and what must be said of them."""
    both = _around(WIDTH, 0, 1)
    inf, nan = float("inf"), float("nan")
    rows: tuple[tuple[str, float, float, list[Enclosure], int, str], ...] = (
        ("right", 0.0, BOUND, both, 0, "WITHIN_BOUND"),
        ("just within", BOUND * (1 - 2.0**-10), BOUND, both, 1, "WITHIN_BOUND"),
        ("just beyond", BOUND * (1 + 2.0**-10), BOUND, both, 1, "EXCEEDS"),
        ("just beyond, below", -BOUND * (1 + 2.0**-10), BOUND, both, 0, "EXCEEDS"),
        ("flipped", -2 / 3, BOUND, both, 1, "EXCEEDS"),
        ("NaN", nan, BOUND, both, 1, "EXCEEDS"),
        ("infinity", inf, BOUND, both, 0, "EXCEEDS"),
        ("an enclosure as wide as the bound", 0.0, BOUND, _around(Fraction(2 * BOUND), 0, 1), 0, "INCONCLUSIVE"),
        ("one wide enclosure, one that exceeds", 1.0, BOUND, [*_around(Fraction(2 * BOUND), 0), both[1]], 1, "EXCEEDS"),
        ("bound zero", 0.0, 0.0, both, 0, "EXCEEDS"),
        ("bound NaN", 0.0, nan, both, 0, "VOID"),
        ("bound infinite", 0.0, inf, both, 0, "VOID"),
        ("bound negative", 0.0, -BOUND, both, 0, "VOID"),
        ("nothing enclosed", 0.0, BOUND, [], 0, "VOID"),
    )
    for name, off, bound, enclosures, row, expected in rows:
        yield Control(f"certified/{name}", partial(_asked, "certified", off, bound, enclosures, row), expected)
        # A reference that is wrong makes the case say nothing.
        said = "VOID" if expected == "EXCEEDS" else expected
        yield Control(f"certificate/{name}", partial(_asked, "certificate", off, bound, enclosures, row), said)
