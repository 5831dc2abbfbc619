"""The definition of the choice, against a sort of Python's own by the words of the definition."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strata.kernels.selection import BLOCK
from validation.operations.block_select.choice import NOTHING, choose
from validation.operations.block_select.lengths import steps

SCORES = st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45])


def by_words(scores: list[float], n_kv: int, width: int) -> list[int]:
    """The tail first, then by score descending, a NaN last, then by index."""

    def place(cell: int) -> tuple[int, float, int]:
        block = cell // BLOCK
        if block >= len(scores):
            return (0, 0.0, cell)
        return (2, 0.0, cell) if math.isnan(scores[block]) else (1, -scores[block], cell)

    return sorted(sorted(range(n_kv), key=place)[:width])


@given(st.lists(SCORES, max_size=9), st.integers(0, BLOCK - 1), st.data())
def test_the_definition_is_what_the_words_say(scores: list[float], tail: int, data: st.DataObject) -> None:
    n_kv = BLOCK * len(scores) + tail
    width = data.draw(st.integers(0, n_kv))
    row = np.array([[*scores, math.inf]], np.float32)  # what lies behind the complete blocks plays no part
    got = choose(row, steps(np.array([n_kv]), np.array([width])), n_kv + 2)
    assert got[0].tolist() == by_words(scores, n_kv, width) + [NOTHING] * (n_kv + 2 - width)
