"""How many floats lie between an output and the right one: histograms in units in the last place.

A figure for people, which no verdict reads: a small element beside large ones is many units away and right, since what
the arithmetic may err by goes with the sum's terms and not with its result.
"""

from __future__ import annotations

import numpy as np

#: Buckets: 0 units, then [2^(b-1), 2^b) for b from 1; any two float32 are below 2^32 units apart.
BUCKETS = 33
#: The bucket of outputs that are not a number, which have no distance.
NOT_A_NUMBER = BUCKETS


def distance(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """How many floats lie from a result to the right one; 0 between -0 and +0.

    The bits of a float32, read as sign and magnitude, count the floats from zero.

    Parameters
    ----------
    got
        float32, without NaN.
    want
        float64 of that shape, without NaN; it is rounded to float32.

    Returns
    -------
    int64 array
        Of that shape.
    """
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.abs(_place(got) - _place(want.astype(np.float32))))


def histogram(got: np.ndarray, want: np.ndarray) -> list[int]:
    """Outputs by bucket of their distance.

    Parameters
    ----------
    got
        float32.
    want
        float64 of that shape, finite.

    Returns
    -------
    list of int
        Counts of `BUCKETS` and then of `NOT_A_NUMBER`, without trailing zeros.
    """
    known = ~np.isnan(got)
    apart = distance(got[known], want[known])
    # frexp's exponent is the length in bits, exact below 2^53.
    buckets = np.frexp(apart.astype(np.float64))[1]
    counts = np.bincount(buckets, minlength=BUCKETS).tolist()
    counts.append(int(got.size - known.sum()))
    while counts and counts[-1] == 0:
        counts.pop()
    return [int(count) for count in counts]


def _place(values: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).astype(np.int64)
    magnitude = bits & 0x7FFF_FFFF
    return np.where(bits >> 31 == 1, -magnitude, magnitude)
