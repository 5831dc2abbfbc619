"""Values to pack are as hard as they claim."""

from __future__ import annotations

import numpy as np
import pytest

from validation.core.random_streams import Stream
from validation.operations.kv_pack import values as pack_values
from validation.operations.kv_pack.recipes import of_operation
from validation.operations.kv_pack.reference import hadamard32, lost, pack_int8, pack_q4_0, q4_0_scales

NAMES = [recipe.name for recipe in of_operation("kv_pack")]
STREAM = Stream.of(3, "pack")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "pack_lost"])
def test_values_are_finite_float32(name: str) -> None:
    x = pack_values.draw(name, STREAM, 20, 2)
    assert x.shape == (20, 2, 256)
    assert x.dtype == np.float32
    assert np.isfinite(x).all()


def test_decades_reach_zero_subnormal_and_large_scales_but_none_is_infinite() -> None:
    x = pack_values.draw("pack_decades", STREAM, 400, 2)
    for scale in (np.abs(pack_int8(x)[1]), np.abs(q4_0_scales(pack_q4_0(x)))):
        assert np.isfinite(scale).all()
        assert (scale == 0).any()
        assert ((scale > 0) & (scale < 2.0**-14)).any()
    assert lost(x, "int8") == lost(x, "q4_0") == 0
    turned = np.abs(q4_0_scales(pack_q4_0(hadamard32(x))))
    assert ((turned > 0) & (turned < 2.0**-14)).mean() > 0.05
    assert (turned == 0).any()
    assert lost(x, "fp16") > 0


def test_ties_have_both_signs_in_most_blocks() -> None:
    blocks = pack_values.draw("pack_ties", STREAM, 200, 2).reshape(-1, 32)
    largest = np.abs(blocks).max(axis=-1, keepdims=True)
    both = (blocks == largest).any(axis=-1) & (blocks == -largest).any(axis=-1)
    assert both.mean() > 0.5


def test_halfway_values_lie_exactly_between_two_codes() -> None:
    x = pack_values.draw("pack_halfway", STREAM, 50, 2).reshape(50, 2, 4, 64)
    for group, largest in ((0, 127.0), (1, 8.0)):
        own = x[:, :, group].astype(np.float64)
        quotient = np.abs(own).max(axis=-1, keepdims=True) / largest
        fraction, exponent = np.frexp(quotient)
        significand = np.round(fraction * 4096)
        step = np.ldexp(significand / 4096, exponent)
        assert (np.abs(quotient / step - 1) < 2.0**-22).all()
        assert 0.3 < (significand == 2048).mean() < 0.7
        assert 0.1 < (significand % 2 == 1).mean() < 0.4  # a middle of two FP16 scales
        part = np.abs(own / step) % 1
        assert 0.2 < (part == 0.5).mean() < 0.5
        close = (part != 0.5) & (np.abs(part - 0.5) < 1e-4)
        assert close.mean() > 0.5


def test_sparse_blocks_have_at_most_one_element_and_zeros_of_both_signs() -> None:
    blocks = pack_values.draw("pack_sparse", STREAM, 50, 2).reshape(-1, 32)
    count = (blocks != 0).sum(axis=-1)
    assert set(count.tolist()) == {0, 1}
    zeros = blocks[blocks == 0]
    assert np.signbit(zeros).any()
    assert not np.signbit(zeros).all()


def test_lost_rows_have_every_way_of_being_lost_and_subnormals() -> None:
    x = pack_values.draw("pack_lost", STREAM, 400, 2).reshape(-1, 256)
    assert np.isnan(x).any()
    assert np.isposinf(x).any()
    assert np.isneginf(x).any()
    groups = x.reshape(-1, 64)
    over = np.isinf(pack_int8(x)[1]).ravel()
    finite = np.isfinite(groups).all(axis=-1)
    assert (over & finite).any()
    assert (over & ~finite).any()  # a lost value in a lost group counts once
    assert (~over & ~finite).any()
    tiny = (np.abs(x) < 2.0**-128).all(axis=-1)
    assert 0.15 < tiny.mean() < 0.25
    turned = hadamard32(x)
    overflowed = np.isfinite(turned).all(axis=-1) & np.isinf(q4_0_scales(pack_q4_0(turned))).any(axis=-1)
    assert overflowed.mean() > 0.1
    assert (x[tiny] == 0).any()
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(1) / (np.abs(x[tiny]).max(axis=-1) / np.float32(8))).all()


def test_lost_counts_elements_of_fp16_and_whole_groups_of_the_others() -> None:
    x = np.zeros((1, 256), np.float32)
    x[0, 3], x[0, 200] = 70000.0, np.inf
    assert lost(x, "fp16") == 2
    x[0, 200], x[0, 3] = 0, 127 * 65536.0
    assert lost(x, "int8") == 64
    assert lost(x, "q4_0") == 32
