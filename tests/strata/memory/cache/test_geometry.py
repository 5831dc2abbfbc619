"""How experts are numbered and sized."""

from __future__ import annotations

import pytest

from strata.executors.base import StrataError
from strata.memory.cache.geometry import ExpertGeometry, blob_bytes


class Blocks:
    """A format of `values` values in `nbytes` bytes."""

    def __init__(self, values: int, nbytes: int) -> None:
        self.values, self.nbytes = values, nbytes

    def row_bytes(self, k: int) -> int:
        return k // self.values * self.nbytes


def test_the_blob_of_the_reference_model() -> None:
    """IQ3_XXS: 98 bytes for 256 values; IQ4_NL: 18 for 32; IQ2_XS: 74 for 256; Q2_0: 18 for 64."""
    assert blob_bytes(2560, 640, Blocks(256, 98), Blocks(32, 18)) == 2_176_000
    assert blob_bytes(2560, 640, Blocks(256, 74), Blocks(64, 18)) == 2 * 640 * 740 + 2560 * 180


def test_rows_and_experts_are_the_same_thing_twice() -> None:
    geometry = ExpertGeometry(48, 512, (2_176_000,) * 48)
    assert geometry == ExpertGeometry.uniform(48, 512, 2_176_000)
    assert geometry.rows == 24_576
    assert [geometry.row(*geometry.expert(row)) for row in range(geometry.rows)] == list(range(geometry.rows))
    assert geometry.row(1, 0) == 512


def test_a_profile_counts_an_expert_once_where_it_stands_first() -> None:
    geometry = ExpertGeometry(2, 4, (10, 20))
    assert geometry.profile([(1, 2), (0, 3), (1, 2), (0, 0)]) == [6, 3, 0]
    assert (geometry.max_blob, geometry.blob(3), geometry.blob(4)) == (20, 10, 20)


@pytest.mark.parametrize(
    ("layers", "experts", "blobs", "message"),
    [
        (0, 4, (), "0 layers x 4 experts: expected at least 1 x 1"),
        (2, 4, (10,), r"blob bytes \(10,\), expected 2 numbers"),
        (1, 4, (0,), r"blob bytes \(0,\), expected 1 numbers of at least 1"),
        (1, 1 << 31, (1,), "2147483648 experts, expected fewer than 2\\^31"),
    ],
)
def test_what_is_no_geometry_is_refused(layers: int, experts: int, blobs: tuple[int, ...], message: str) -> None:
    with pytest.raises(StrataError, match=message):
        ExpertGeometry(layers, experts, blobs)


def test_experts_that_do_not_exist_are_refused() -> None:
    geometry = ExpertGeometry.uniform(2, 4, 10)
    for layer, expert in ((-1, 0), (2, 0), (0, 4), (0, -1)):
        with pytest.raises(StrataError, match="expected one of 2 x 4"):
            geometry.row(layer, expert)
    for row in (-1, 8):
        with pytest.raises(StrataError, match="expected 0 to 7"):
            geometry.expert(row)
