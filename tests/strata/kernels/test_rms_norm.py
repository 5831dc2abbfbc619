"""RMSNorm on lanes: rows against FP64 and against their very bits, in a buffer of their own and over their inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import rms_norm
from strata.kernels.path import Path
from strata.kernels.paths import PATHS
from validation.core.random_streams import Stream
from validation.core.verdict import within
from validation.operations.rms_norm import bound, reference

PLAIN, RESIDUAL = PATHS["rms_norm/plain/simt"], PATHS["rms_norm/residual/simt"]
EPS = float(np.float32(1e-6))


def drawn(seed: int, rows: int, n: int, residual: bool = True) -> dict[str, Any]:
    """Rows of sizes of their own, weights of both signs, and what is added."""
    stream = Stream.of(seed, "norm")
    sizes = (stream.child("size").below(60, (rows, 1)) - 30).astype(np.int32)
    return {
        "x": np.ldexp(stream.child("x").normals((rows, n)), sizes),
        "weight": stream.child("weight").normals(n, 1),
        "eps": EPS,
        "residual": stream.child("residual").normals((rows, n), 2) if residual else None,
    }


def parts(made: dict[str, Any]) -> tuple[Any, ...]:
    return made["x"], made["weight"], made["residual"], made["eps"]


def path_of(made: dict[str, Any]) -> Path:
    return PLAIN if made["residual"] is None else RESIDUAL


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_drawn_rows_of_any_size_anywhere(checked: LanesExecutor, data: st.DataObject) -> None:
    rows, n = data.draw(st.integers(1, 9), "rows"), 4 * data.draw(st.integers(1, 170), "fours of columns")
    made = drawn(data.draw(st.integers(0, 2**32), "seed"), rows, n, data.draw(st.booleans(), "residual"))
    places = [None, "x"] if made["residual"] is None else [None, "x", "residual"]
    got = rms_norm.run(checked, path_of(made), **made, over=data.draw(st.sampled_from(places), "over"))
    assert got.guards_ok
    assert got.lost == 0
    assert np.array_equal(got.out.view(np.uint32), reference.norm_bits(*parts(made)).view(np.uint32))
    check = within("norm", got.out, reference.norm(*parts(made)), bound.norm(*parts(made)))
    assert check.verdict.passes, check.reason


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 11))
def test_a_row_has_its_bits_in_whatever_company(checked: LanesExecutor, seed: int, rows: int, cut: int) -> None:
    """However a prompt is cut: that is what makes an answer independent of it."""
    made = drawn(seed, rows, 260)
    whole = rms_norm.run(checked, RESIDUAL, **made).out
    cuts = [slice(at, at + cut) for at in range(0, rows, cut)]
    alone = [
        rms_norm.run(checked, RESIDUAL, made["x"][one], made["weight"], EPS, made["residual"][one]).out for one in cuts
    ]
    assert np.array_equal(np.concatenate(alone).view(np.uint32), whole.view(np.uint32))


def test_the_residual_may_be_x_and_the_output_both(checked: LanesExecutor) -> None:
    made = drawn(1, 5, 132)
    x = checked.array(made["x"], "x", written=True)
    weight, lost = checked.array(made["weight"], "weight"), checked.array(np.zeros(1, np.int32), "lost", written=True)
    rms_norm.launch(checked, x, weight, x, lost, 5, 132, EPS, x)
    due = reference.norm_bits(made["x"], made["weight"], made["x"], EPS)
    assert np.array_equal(x.host().view(np.uint32), due.view(np.uint32))


def test_the_sum_has_an_order(checked: LanesExecutor) -> None:
    """The columns backwards give other bits in some rows, and no other values."""
    made = drawn(2, 64, 640, residual=False) | {"weight": np.ones(640, np.float32)}
    straight = rms_norm.run(checked, PLAIN, **made).out
    turned = rms_norm.run(checked, PLAIN, **made | {"x": np.ascontiguousarray(made["x"][:, ::-1])}).out[:, ::-1]
    assert not np.array_equal(straight, turned)
    assert np.allclose(straight, turned, rtol=2.0**-20)


def test_rows_that_are_lost_are_nan_and_counted_and_no_other_is(checked: LanesExecutor) -> None:
    made = drawn(3, 9, 132)
    whole = rms_norm.run(checked, RESIDUAL, **made).out
    x = made["x"].copy()
    x[1, 131], x[3, 0], x[4, 64], x[7] = np.nan, -np.inf, 2.0**64, 2.0**61
    got = rms_norm.run(checked, RESIDUAL, **made | {"x": x})
    assert got.lost == 4
    assert (got.out.view(np.uint32)[[1, 3, 4, 7]] == 0x7FFFFFFF).all()
    kept = [0, 2, 5, 6, 8]
    assert np.array_equal(got.out[kept].view(np.uint32), whole[kept].view(np.uint32))


def test_zeros_keep_their_sign_and_products_that_overflow_stay(checked: LanesExecutor) -> None:
    x = np.zeros((2, 8), np.float32)
    x[0, 1], x[1, 0] = -0.0, 1
    weight = np.full(8, np.finfo(np.float32).max)
    got = rms_norm.run(checked, PLAIN, x, weight, EPS)
    assert got.lost == 0
    assert np.signbit(got.out[0]).tolist() == [False, True, *[False] * 6]
    assert np.isinf(got.out[1, 0])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"x": np.ones((2, 6), np.float32)}, r"x is float32 \(2, 6\), expected float32 \[rows, multiple of 4\]"),
        ({"x": np.ones((2, 8))}, "x is float64"),
        ({"x": np.ones((0, 8), np.float32)}, r"x is float32 \(0, 8\)"),
        ({"weight": np.ones(4, np.float32)}, r"weight is float32 \(4,\), expected float32 \(8,\)"),
        ({"residual": np.ones((1, 8), np.float32)}, r"residual is float32 \(1, 8\), expected float32 \(2, 8\)"),
        ({"residual": None}, "mode residual is given no residual, expected one"),
        ({"path": PLAIN}, "mode plain is given a residual, expected none"),
        ({"path": PATHS["router/fp32/simt"]}, "rms_norm mode 'fp32': expected one of plain, residual"),
        ({"eps": 0.0}, "an eps of 0.0, expected 1.1754944e-38 to 1"),
        ({"eps": np.nan}, "an eps of nan"),
        ({"eps": 1.5}, "an eps of 1.5"),
        ({"over": "weight"}, "the output lies over 'weight', expected None or one of x, residual"),
    ],
)
def test_what_does_not_fit_is_refused(checked: LanesExecutor, change: dict[str, Any], said: str) -> None:
    with pytest.raises(StrataError, match=said):
        rms_norm.run(checked, **{"path": RESIDUAL, **drawn(4, 2, 8), **change})


def test_more_than_it_counts_is_refused(checked: LanesExecutor) -> None:
    for shape in ((1 << 31, 4), (1, (1 << 24) + 4)):
        x = np.broadcast_to(np.zeros((), np.float32), shape)
        with pytest.raises(StrataError, match="expected up to 2147483647 of 16777216"):
            rms_norm.run(checked, PLAIN, x, np.zeros(4, np.float32), EPS)
