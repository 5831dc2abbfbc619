"""The parts of one query's attention, of which the reference makes its output and a bound its error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Terms:
    """What one query's outputs are made of, in float64; n resident cells.

    Parameters
    ----------
    scores
        [kv, group, n].
    products
        [kv, group, n], sum |q||k| / 16.
    keys
        [kv, n], sum |k| / 16.
    largest_q
        [kv, group], max |q|.
    v
        [kv, n, 256].
    largest_v
        [kv], the largest |scale| of V times the largest code of its format.
    q
        [kv, group, 256].
    k
        [kv, 256, n].
    place
        int64 [n], the place of each cell in the query's list.
    """

    scores: np.ndarray
    products: np.ndarray
    keys: np.ndarray
    largest_q: np.ndarray
    v: np.ndarray
    largest_v: np.ndarray
    q: np.ndarray
    k: np.ndarray
    place: np.ndarray
