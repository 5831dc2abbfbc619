"""The sweeps hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from strata.formats import FORMATS
from validation.numerics import blocks as reference
from validation.operations.kv_pack import block_sweeps

NAMES = list(FORMATS)


@pytest.mark.parametrize("name", NAMES)
def test_every_value_at_every_place(name: str) -> None:
    for field in block_sweeps.field_names(name):
        fields = reference.unpack(name, reference.pack(name, block_sweeps.sweep(name, field)))
        n = 1 << reference.layout(name)[field].shape[1]
        for column in fields[field].T:
            assert np.array_equal(np.unique(column), np.arange(n)), field


@pytest.mark.parametrize("name", NAMES)
def test_no_two_places_hold_the_same_values(name: str) -> None:
    """A decoder that takes one place for another is seen."""
    for field in block_sweeps.field_names(name):
        swept = block_sweeps.sweep(name, field)[field]
        assert np.unique(swept, axis=1).shape == swept.shape, field


@pytest.mark.parametrize("name", NAMES)
def test_every_scale_once(name: str) -> None:
    for field in {"d", "dmin"} & reference.layout(name).keys():
        blocks = block_sweeps.every_scale(name, field)
        assert np.array_equal(reference.unpack(name, blocks[::257])[field][:, 0], np.arange(0, 1 << 16, 257))
        changing = np.flatnonzero((blocks != blocks[0]).any(axis=0))
        assert np.diff(changing).tolist() == [1]  # two bytes side by side


@pytest.mark.parametrize("name", NAMES)
def test_classes_hold_every_kind_of_scale(name: str) -> None:
    d = block_sweeps.classes(name)["d"].astype(np.uint16).view(np.float16).astype(np.float64)
    assert np.isnan(d).any()
    assert {np.inf, -np.inf, 65504.0, -65504.0, 2.0**-24, -(2.0**-24)} <= set(d.ravel().tolist())
    assert {0.0} == {abs(x) for x in d.ravel() if x == 0}
    assert np.signbit(d[d == 0]).any()
    assert not np.signbit(d[d == 0]).all()
