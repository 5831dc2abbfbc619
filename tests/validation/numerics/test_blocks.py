"""The layouts use every bit of a block once, and packing inverts unpacking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.formats import FORMATS
from validation.core.random_streams import Stream
from validation.numerics import blocks

NAMES = list(FORMATS)


@pytest.mark.parametrize("name", NAMES)
def test_every_bit_belongs_to_one_field(name: str) -> None:
    places = np.concatenate([at.ravel() for at in blocks.layout(name).values()])
    assert sorted(places.tolist()) == list(range(8 * FORMATS[name].nbytes))


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_packing_inverts_unpacking(name: str, seed: int) -> None:
    raw = Stream.of(seed, name).octets((3, FORMATS[name].nbytes))
    assert np.array_equal(blocks.pack(name, blocks.unpack(name, raw)), raw)


@pytest.mark.parametrize("name", NAMES)
def test_a_format_has_a_code_a_value(name: str) -> None:
    raw = Stream.of(1, name).octets((2, FORMATS[name].nbytes))
    assert blocks.signed_codes(name, blocks.unpack(name, raw)).shape == (2, FORMATS[name].values)


def test_a_block_by_hand() -> None:
    """IQ4_XS: 1.0 at d, level 32 + 5 in part 6, and the code 15 at value 16 of that part."""
    raw = np.zeros((1, 136), np.uint8)
    raw[0, :2] = 0x00, 0x3C
    raw[0, 3] = 0b10 << 4  # high bits of part 6
    raw[0, 4 + 3] = 0x05  # low bits
    raw[0, 8 + 6 * 16] = 0xF0
    fields = blocks.unpack("iq4_xs", raw)
    assert fields["level"].tolist() == [[0, 0, 0, 0, 0, 0, 37, 0]]
    values = blocks.values("iq4_xs", fields)[0]
    assert values[6 * 32 + 16] == 5 * 113
    assert values[6 * 32 + 15] == 5 * -127
    assert values[0] == -32 * -127
