"""Drawn K and V are what their recipes promise."""

from __future__ import annotations

import numpy as np
import pytest

from validation.core.random_streams import Stream
from validation.operations.kv_pack.planes import EXTREME_SCALES, GROUP, climb_signs, draw, pack
from validation.operations.kv_pack.recipes import Kind, Plane, Sign
from validation.operations.kv_pack.reference import q4_0_scales, unpack_int8, unpack_q4_0

FORMS = ("fp16", "int8", "q4_0")
STREAM = Stream.of(5, "planes")


def scales(form: str, plane: Plane, cells: int = 40, heads: int = 2) -> np.ndarray:
    """float64 [cells, heads, groups]: what the format stores, or the largest values of FP16 groups."""
    made = draw(STREAM, plane, form, cells, heads)
    if form == "int8":
        assert made.scale is not None
        return made.scale.astype(np.float64)
    if form == "q4_0":
        return q4_0_scales(made.data).astype(np.float64)
    groups = made.data.astype(np.float64).reshape(cells, heads, -1, GROUP[form])
    return np.asarray(np.abs(groups).max(axis=-1))


def values(form: str, plane: Plane, cells: int = 40, heads: int = 2) -> np.ndarray:
    made = draw(STREAM, plane, form, cells, heads)
    if form == "int8":
        assert made.scale is not None
        return unpack_int8(made.data, made.scale)
    return unpack_q4_0(made.data) if form == "q4_0" else made.data.astype(np.float64)


@pytest.mark.parametrize("form", FORMS)
def test_shapes_and_dtypes(form: str) -> None:
    made = draw(STREAM, Plane(), form, 7, 3)
    assert made.data.dtype == {"fp16": np.float16, "int8": np.int8, "q4_0": np.uint8}[form]
    assert made.data.shape == (7, 3, 144 if form == "q4_0" else 256)
    assert (made.scale is not None) == (form == "int8")
    if made.scale is not None:
        assert made.scale.shape == (7, 3, 4)


@pytest.mark.parametrize("form", FORMS)
def test_scales_span_two_decades_with_both_signs(form: str) -> None:
    drawn = scales(form, Plane())
    size = np.abs(drawn)
    assert size.max() / size.min() > 100
    if form != "fp16":
        assert 0.3 < (drawn < 0).mean() < 0.7
    # Near log-uniform: each of the seven octaves is used about equally.
    if form != "fp16":
        octaves = np.bincount(np.frexp(size)[1].reshape(-1) - int(np.frexp(size)[1].min()))
        assert len(octaves) == 7
        assert octaves.min() > size.size / 7 * 0.6


@pytest.mark.parametrize("form", FORMS)
def test_values_of_all_formats_are_of_like_size(form: str) -> None:
    assert 0.2 < values(form, Plane()).std() < 3


@pytest.mark.parametrize("form", ["int8", "q4_0"])
def test_sign_by_group_has_groups_of_one_sign_in_all_cells(form: str) -> None:
    drawn = scales(form, Plane(sign=Sign.BY_GROUP))
    negative = (drawn < 0).mean(axis=0)
    assert (negative == 1).any()
    assert (negative == 0).any()
    assert ((negative > 0.1) & (negative < 0.9)).any()


@pytest.mark.parametrize("form", ["int8", "q4_0"])
def test_extremes_hold_every_special_scale(form: str) -> None:
    made = draw(STREAM, Plane(Kind.EXTREMES), form, 60, 2)
    stored = made.scale if made.scale is not None else q4_0_scales(made.data)
    assert set(np.ascontiguousarray(stored).view(np.uint16).reshape(-1).tolist()) == set(EXTREME_SCALES)


def test_published_scales_are_the_published_ranges() -> None:
    drawn = scales("int8", Plane(Kind.PUBLISHED))
    assert drawn.min() >= 0.005
    assert drawn.max() <= 0.03


@pytest.mark.parametrize("form", FORMS)
def test_k_and_v_are_independent(form: str) -> None:
    k, v = (draw(Stream.of(1, name), Plane(), form, 8, 2) for name in "kv")
    assert not np.array_equal(k.data, v.data)


@pytest.mark.parametrize("form", FORMS)
def test_outliers_reach_where_real_keys_do(form: str) -> None:
    size = np.abs(values(form, Plane(Kind.OUTLIERS), cells=200))
    assert 50 < size.max() < 3000
    assert np.median(size) < 2


@pytest.mark.parametrize("form", FORMS)
def test_same_rows_are_the_same_and_climbing_rows_climb(form: str) -> None:
    same = values(form, Plane(Kind.SAME))
    assert (same == same[:1]).all()
    climbing = values(form, Plane(Kind.CLIMBING))
    along = (climbing * climb_signs(STREAM, 2)).mean(axis=-1)
    assert (along[8:] > along[:-8]).all()
    assert along[-1].min() > 32 * along[0].max()


@pytest.mark.parametrize("form", FORMS)
def test_signs_are_those_of_the_values(form: str) -> None:
    made = draw(STREAM, Plane(), form, 9, 2)
    cells, head = np.array([3, 8, 0]), np.array([1, 0, 1])
    assert np.array_equal(made.signs(cells, head), np.sign(values(form, Plane(), cells=9))[cells, head])


def test_packed_values_come_from_the_reference_packers() -> None:
    x = STREAM.normals((3, 2, 256))
    assert np.array_equal(pack(x, "fp16").data, x.astype(np.float16))
    packed = pack(x, "int8")
    assert packed.scale is not None
    assert np.abs(unpack_int8(packed.data, packed.scale) - x).max() < 0.02
    assert np.abs(unpack_q4_0(pack(x, "q4_0").data) - x).max() < 0.5
