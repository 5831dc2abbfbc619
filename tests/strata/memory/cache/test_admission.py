"""Which slots experts enter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.memory.cache.admission import Admission
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.slots import sized_slots, uniform_slots

GEOMETRY = ExpertGeometry(3, 6, (700, 900, 800))
ROWS = st.permutations(range(GEOMETRY.rows))


@given(ROWS, st.integers(1, 24))
def test_a_profile_fills_slots_in_its_order(profile: list[int], count: int) -> None:
    slots = uniform_slots(GEOMETRY, count)
    pairs = Admission(GEOMETRY, slots).assign(profile, np.ones(count, bool))
    assert pairs == list(zip(profile[:count], range(count), strict=False))
    sized = sized_slots(GEOMETRY, profile, 1024 * count)
    pairs = Admission(GEOMETRY, sized).assign(profile, np.ones(len(sized), bool))
    assert pairs == list(zip(profile[: len(sized)], range(len(sized)), strict=True))


@given(ROWS, ROWS, st.integers(1, 18))
def test_an_expert_always_fits_its_slot_and_others_are_not_stopped(cut: list[int], fill: list[int], count: int) -> None:
    """Slots cut to one profile and filled from another: what finds no slot of its layer is left out, nothing else."""
    slots = sized_slots(GEOMETRY, cut, 1024 * count)
    pairs = Admission(GEOMETRY, slots).assign(fill, np.ones(len(slots), bool))
    assert len({slot for _, slot in pairs}) == len(pairs)
    for layer, blob in enumerate(GEOMETRY.blobs):
        places = [slot for slot in range(len(slots)) if slots.layers[slot] == layer]
        rows = [row for row in fill if GEOMETRY.expert(row)[0] == layer]
        assert [pair for pair in pairs if pair[0] in rows] == list(zip(rows, places, strict=False))
        assert all(slots.takes(slot, layer, blob) for row, slot in pairs if row in rows)


@given(ROWS, st.integers(1, 24), st.data())
def test_per_layer_each_layer_has_its_quota_and_the_last_the_rest(
    profile: list[int], count: int, data: st.DataObject
) -> None:
    free = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    admission = Admission(GEOMETRY, uniform_slots(GEOMETRY, count), per_layer=True)
    quota = count // 3
    owners = [0] * quota + [1] * quota + [2] * (count - 2 * quota)
    pairs = admission.assign(profile, free)
    for layer in range(3):
        places = [slot for slot in range(count) if owners[slot] == layer and free[slot]]
        rows = [row for row in profile if GEOMETRY.expert(row)[0] == layer]
        assert [slot for row, slot in pairs if row in rows] == places[: len(rows)]
        assert [row for row, _ in pairs if row in rows] == rows[: len(places)]


def test_per_layer_refuses_sized_slots() -> None:
    with pytest.raises(StrataError, match="slots are sized, expected uniform ones"):
        Admission(GEOMETRY, sized_slots(GEOMETRY, [0, 7], 4096), per_layer=True)
