"""Where slots lie, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.slots import ANY_LAYER, SLOT_ALIGN, Slots, sized_slots, uniform_slots

BLOBS = st.lists(st.integers(1, 2000), min_size=1, max_size=4)


@given(BLOBS, st.integers(1, 30), st.data())
def test_slots_against_brute_force(blobs: list[int], count: int, data: st.DataObject) -> None:
    geometry = ExpertGeometry(len(blobs), 5, tuple(blobs))
    profile = data.draw(st.permutations(range(geometry.rows)))
    kinds = (uniform_slots(geometry, count), sized_slots(geometry, profile, 2048 + 512 * count))
    at = data.draw(st.integers(-3, 40_000))
    for slots in kinds:
        ranges = [(int(slots.off[k]), int(slots.off[k + 1])) for k in range(len(slots))]
        assert slots.within(at) == sum(end <= at for _, end in ranges)
        assert slots.at(at) == next((k for k, (start, end) in enumerate(ranges) if start <= at < end), None)
        assert slots.nbytes == ranges[-1][1]


@given(BLOBS, st.data())
def test_a_sized_slot_takes_its_layer_alone(blobs: list[int], data: st.DataObject) -> None:
    geometry = ExpertGeometry(len(blobs), 5, tuple(blobs))
    profile = data.draw(st.permutations(range(geometry.rows)))
    cap = data.draw(st.integers(2048, 60_000))
    slots = sized_slots(geometry, profile, cap)
    assert slots.sized
    assert slots.nbytes <= cap
    for k in range(len(slots)):
        layer = geometry.expert(profile[k])[0]
        assert slots.off[k] % SLOT_ALIGN == 0
        assert 0 <= slots.size(k) - blobs[layer] < SLOT_ALIGN
        for other in range(geometry.layers):
            assert slots.takes(k, other, blobs[other]) == (other == layer)
    if len(slots) < len(profile):  # the walk stopped because the next one did not fit
        blob = geometry.blob(profile[len(slots)])
        assert slots.nbytes + -(-blob // SLOT_ALIGN) * SLOT_ALIGN > cap


def test_uniform_slots_take_what_fits() -> None:
    geometry = ExpertGeometry(2, 4, (100, 300))
    slots = uniform_slots(geometry, 3)
    assert slots.off.tolist() == [0, 300, 600, 900]
    assert not slots.sized
    assert set(slots.layers.tolist()) == {ANY_LAYER}
    assert slots.takes(0, 0, 100)
    assert slots.takes(2, 1, 300)
    assert not slots.takes(2, 1, 301)
    with pytest.raises(ValueError, match="read-only"):
        slots.off[0] = 1


def test_what_is_no_row_of_slots_is_refused() -> None:
    geometry = ExpertGeometry(1, 4, (1000,))
    with pytest.raises(StrataError, match="0 slots: expected at least 1"):
        uniform_slots(geometry, 0)
    with pytest.raises(StrataError, match="no expert of a profile of 4 fits into 1023 bytes"):
        sized_slots(geometry, [0, 1, 2, 3], 1023)
    for off in ([0, 5], [1, 5, 6], [0, 5, 5]):
        with pytest.raises(StrataError, match="expected one more, ascending from 0"):
            Slots(np.array(off), np.zeros(2, np.int32))
