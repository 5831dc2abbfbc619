"""Kernels of elements on lanes: any number of them, in a buffer of their own and over their operands, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import Buffer, StrataError, Witness
from strata.executors.lanes import LanesExecutor
from strata.kernels import gated, pointwise, residual, softcap
from strata.kernels.paths import PATHS
from validation.core.fuzz_numbers import NUMBERS, floats
from validation.core.random_streams import Stream
from validation.operations.gated.inputs import Inputs
from validation.operations.gated.launched import ELEMENTS

NAMES = [name for name in PATHS if name.partition("/")[0] in ELEMENTS]
GELU, CAP, SUM = (PATHS[name] for name in ("gated/gelu_tanh/simt", "softcap/fp32/simt", "residual/fp32/simt"))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_bits_of_any_number_anywhere(checked: LanesExecutor, data: st.DataObject) -> None:
    path = PATHS[data.draw(st.sampled_from(NAMES), "path")]
    one, block = ELEMENTS[path.operation], pointwise.VECTOR * pointwise.THREADS
    count = data.draw(st.one_of(st.integers(1, 40), st.integers(block - 3, block + 3)), "count")
    stream, numbers = Stream.of(data.draw(st.integers(0, 2**32), "seed"), "x"), data.draw(st.sampled_from(NUMBERS))
    given_ = Inputs({name: floats(stream.child(name), (count,), numbers) for name in one.operands}, 30.0)
    got = one.run(checked, path, given_, data.draw(st.sampled_from([None, *one.operands]), "over"))
    assert got.guards_ok
    assert np.array_equal(got.out.view(np.uint32), one.bits(path.mode, given_).view(np.uint32))


@pytest.mark.parametrize("name", NAMES)
def test_an_element_has_its_bits_wherever_it_stands(checked: LanesExecutor, name: str) -> None:
    """In another place of a four, in the part of one, in another block: a prompt may be cut anywhere."""
    path = PATHS[name]
    one, stream = ELEMENTS[path.operation], Stream.of(1, "places")
    arrays = {each: stream.child(each).normals(2100, 2) for each in one.operands}
    whole = one.run(checked, path, Inputs(arrays, 30.0), None).out
    for first in (1, 2, 3, 1023, 2097):
        part = {each: x[first:].copy() for each, x in arrays.items()}
        assert np.array_equal(one.run(checked, path, Inputs(part, 30.0), None).out, whole[first:])


def test_both_operands_may_be_one_buffer_and_the_output_too(checked: LanesExecutor) -> None:
    x = np.arange(-9, 10, dtype=np.float32)
    rows: tuple[tuple[Callable[[Buffer], Witness], np.ndarray], ...] = (
        (lambda one: residual.launch(checked, one, one, one, x.size), x + x),
        (
            lambda one: gated.launch(checked, "gelu_tanh", one, one, one, x.size),
            ELEMENTS["gated"].bits("gelu_tanh", Inputs({"gate": x, "up": x}, 1.0)),
        ),
    )
    for launch, due in rows:
        buffer = checked.array(x, "x", written=True)
        launch(buffer)
        assert np.array_equal(buffer.host().view(np.uint32), due.view(np.uint32))


def test_what_lies_behind_the_count_stays(checked: LanesExecutor) -> None:
    """Buffers may be longer: an engine's are made for its longest chunk."""
    x = np.arange(1, 11, dtype=np.float32)
    held, out = checked.array(x, "x"), checked.empty((10,), np.float32, name="out")
    softcap.launch(checked, held, out, 5, 30.0)
    due = ELEMENTS["softcap"].bits("fp32", Inputs({"x": x}, 30.0))
    assert np.array_equal(out.host()[:5], due[:5])
    assert (out.host().view(np.uint32)[5:] == 0x7FC0DEAD).all()


def test_activations_go_from_nothing_to_their_gate(checked: LanesExecutor) -> None:
    gate = np.array([-np.inf, -3e38, -200, -0.0, 0.0, 200, 3e38, np.inf, np.nan], np.float32)
    for mode in gated.MODES:
        got = gated.run(checked, PATHS[f"gated/{mode}/simt"], gate, np.ones(9, np.float32)).out
        assert np.isnan(got[[0, 8]]).all()
        assert np.array_equal(got[1:8], np.array([-0.0, -0.0, -0.0, 0, 200, 3e38, np.inf], np.float32))
        assert np.signbit(got[1:8]).tolist() == [True] * 3 + [False] * 4


def test_soft_capping_is_odd_and_never_beyond_its_cap(checked: LanesExecutor) -> None:
    x = np.ldexp(np.float32(1.37), np.arange(-149, 128)).astype(np.float32)
    for cap in (float(np.finfo(np.float32).tiny), 0.3, 30.0, float(np.finfo(np.float32).max)):
        up, down = (softcap.run(checked, CAP, one, cap).out for one in (x, -x))
        assert np.array_equal(up.view(np.uint32) | 0x80000000, down.view(np.uint32))
        assert up.max() <= np.float32(cap)
        assert (np.diff(up) >= 0).all()
    ends = softcap.run(checked, CAP, np.array([np.inf, -np.inf, -0.0, np.nan], np.float32), 30.0).out
    assert ends[:2].tolist() == [30, -30]
    assert np.signbit(ends[2])
    assert int(ends.view(np.uint32)[3]) == 0x7FFFFFFF


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda on, x: residual.run(on, SUM, x, x[:2]), r"b is float32 \(2,\), expected \(5,\) as a is"),
        (lambda on, x: residual.run(on, SUM, x, x.astype(np.float64)), "b is float64"),
        (lambda on, x: residual.run(on, SUM, x[:0], x[:0]), "expected float32 with at least one element"),
        (lambda on, x: residual.run(on, SUM, x, x, "c"), "the output lies over 'c', expected None or one of a, b"),
        (lambda on, x: gated.run(on, SUM, x, x), "gated mode 'fp32': expected one of gelu_tanh, swiglu"),
        (lambda on, x: softcap.run(on, CAP, x, 0.0), "a cap of 0.0, expected 1.1754944e-38 to 3.4028235e\\+38"),
        (lambda on, x: softcap.run(on, CAP, x, -1.0), "a cap of -1.0"),
        (lambda on, x: softcap.run(on, CAP, x, np.nan), "a cap of nan"),
    ],
)
def test_what_does_not_fit_is_refused(checked: LanesExecutor, call: Any, said: str) -> None:
    with pytest.raises(StrataError, match=said):
        call(checked, np.ones(5, np.float32))
