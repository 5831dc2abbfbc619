"""Whether two arrays hold the same bytes, and where they first do not."""

from __future__ import annotations

import numpy as np

_WORD = 8  # bytes compared at a time


def difference(now: np.ndarray, then: np.ndarray) -> str | None:
    """None when dtype, shape and every byte are equal; else what differs, as one phrase."""
    if now.dtype != then.dtype or now.shape != then.shape:
        return f"is {now.dtype} {now.shape} after it was {then.dtype} {then.shape}"
    one, two = _octets(now), _octets(then)
    whole = len(one) // _WORD * _WORD
    if np.array_equal(one[:whole].view(np.uint64), two[:whole].view(np.uint64)) and np.array_equal(
        one[whole:], two[whole:]
    ):
        return None
    at = np.flatnonzero(one != two)
    first = int(at[0])
    return f"differs in {len(at)} of {len(one)} bytes, byte {first} is {one[first]:02x} and was {two[first]:02x}"


def _octets(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
