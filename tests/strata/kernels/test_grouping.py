"""Grouping on the host: order, places and tiles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.kernels.grouping import group
from validation.core.random_streams import Stream


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 12), st.integers(1, 5))
def test_every_pair_has_one_row_among_its_experts(seed: int, tokens: int, experts: int, top: int) -> None:
    ids = Stream.of(seed, "ids").below(experts, (tokens, top)).astype(np.int32)
    made = group(ids, experts)
    flat = ids.reshape(-1)
    assert np.array_equal(made.pairs[made.slot], np.arange(flat.size))
    assert np.array_equal(made.source, made.pairs // top)
    assert made.offsets[0] == 0
    assert made.offsets[-1] == flat.size
    for expert in range(experts):
        own = made.pairs[made.offsets[expert] : made.offsets[expert + 1]]
        assert np.array_equal(own, np.flatnonzero(flat == expert))


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 9), st.integers(1, 20))
def test_tiles_cover_every_row_once(seed: int, tokens: int, experts: int, most: int) -> None:
    made = group(Stream.of(seed, "ids").below(experts, (tokens, 2)).astype(np.int32), experts)
    tiles = np.concatenate([made.tiles(most, range(first, first + 1)) for first in range(experts)])
    assert np.array_equal(tiles, made.tiles(most, range(experts)))
    covered = [row for _, first, count in tiles.tolist() for row in range(first, first + count)]
    assert covered == list(range(2 * tokens))
    assert (tiles[:, 2] >= 1).all()
    assert (tiles[:, 2] <= most).all()
    for expert, first, count in tiles.tolist():
        assert made.offsets[expert] <= first
        assert first + count <= made.offsets[expert + 1]


@pytest.mark.parametrize("stray", [-1, 3, 2**31 - 1, -(2**31)])
def test_an_id_of_nobody_is_refused(stray: int) -> None:
    ids = np.zeros((4, 2), np.int32)
    ids[2, 1] = stray
    with pytest.raises(StrataError, match=f"token 2 rank 1 names expert {stray}, expected 0 to 2; 1 such ids"):
        group(ids, 3)
