"""Rows at random of a case too large for all of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from validation.core.random_streams import Stream


def of_shares(count: int, shares: int, stream: Stream) -> np.ndarray:
    """int64 [shares], ascending: a row at random of each of so many equal shares of `count` rows.

    A fault that keeps to rows of one remainder, as by a wrong test of the block's number, has no regular gap to live
    in.
    """
    edges = np.arange(shares + 1) * count // shares
    rows = [
        low + int(stream.child(share).below(int(high - low), ()))
        for share, (low, high) in enumerate(pairwise(edges.tolist()))
    ]
    return np.array(rows, dtype=np.int64)
