"""The author's objects refuse what cannot be when they are made, in one line with the value and what was expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.executors.lanes import RULES
from tests.validation.check.fake import kernel
from validation.check import Drawn, Launch, Output, OwnKernel, Roundings, Size, TensorCore, Values, Workspace
from validation.check.roundings import SMALLEST, U, gamma
from validation.numerics.tensorcore_bound import instruction


def own(**changes: Any) -> OwnKernel:
    return replace(kernel().kernel, **changes)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Size(0, 4), "Size.least is 0, expected a whole number of 1"),
        (lambda: Size(1, 4.0), "Size.most is 4.0, expected a whole number"),  # type: ignore[arg-type]
        (lambda: Size(5, 4), r"Size is \(5, 4\), expected a range"),
        (lambda: Size(33, 63, multiple=32), "a multiple of 32 from 33 to 63"),
        (lambda: Size(1, 4, tile="16"), "Size.tile is '16', expected a whole number"),  # type: ignore[arg-type]
        (lambda: Size(1, 4, tile=(4, 0)), "Size.tile is 0"),
        (lambda: Size(1, True), "Size.most is True"),
        (lambda: Values("float64", ("n",)), "Values.dtype is 'float64', expected one of float16, float32, int8"),
        (lambda: Values("bfloat16", ("n",)), "Values.dtype is 'bfloat16'"),
        (lambda: Values("float32", ()), "at least one axis"),
        (lambda: Values("float32", (0,)), "Values.axes is 0"),
        (lambda: Values("float32", ("n",), within=(3, 3)), r"Values.within is \(3, 3\), expected two exponents"),
        (lambda: Values("float16", ("n",), within=(-20, 3)), "of -14 to 16"),
        (lambda: Values("float32", ("n",), low=0), "which has `within`"),
        (lambda: Values("int8", ("n",), low=-200), r"Values.low, high is \(-200, 127\), expected a range within"),
        (lambda: Values("int8", ("n",), within=(0, 1)), "`low` and `high` for int8"),
        (lambda: Drawn("int32", ("n",), 3), "Drawn.make is 3, expected a function of a stream and the sizes"),  # type: ignore[arg-type]
        (lambda: Output("float64", ("n",)), "Output.dtype is 'float64'"),
        (lambda: Output("float32", ("n",), start=""), "Output.start is ''"),
        (lambda: Workspace("float32", (None,)), "Workspace.axes is None"),  # type: ignore[arg-type]
        (lambda: Launch((1, 1), ()), r"Launch.grid is \(1, 1\), expected three numbers"),  # type: ignore[arg-type]
        (lambda: Launch((1, 1, 0), ()), r"Launch.grid\[2\] is 0"),
        (lambda: Launch((1, 1, 1), ("x", 3)), r"Launch.arguments\[1\] is 3, expected a name, None or a NumPy scalar"),
        (lambda: Launch((1, 1, 1), "x"), "Launch.arguments is 'x'"),
        (lambda: Launch((1, 1, 1), (), block=2048), "Launch.block is 2048, expected a whole number of 1 to 1024"),
        (lambda: Roundings(-1), "Roundings.count is -1"),
        (lambda: Roundings(1.5), "Roundings.count is 1.5"),  # type: ignore[arg-type]
        (lambda: Roundings(1, underflow=0), "Roundings.underflow is 0"),
        (lambda: Roundings(1, magnitude=2), "Roundings.magnitude is 2, expected a function"),  # type: ignore[arg-type]
        (lambda: Roundings(1, tensor_core=16), "Roundings.tensor_core is 16"),  # type: ignore[arg-type]
        (lambda: TensorCore(4, 1), "TensorCore.products is 4, expected 8"),
        (lambda: own(name="a b"), "OwnKernel.name is 'a b', expected a name"),
        (lambda: own(entry="1st"), "OwnKernel.entry is '1st'"),
        (lambda: own(block=0), "OwnKernel.block is 0"),
        (lambda: own(block=1025), "OwnKernel.block is 1025, expected a whole number of 1 to 1024"),
        (lambda: own(shared_bytes=227 * 1024 + 1), "OwnKernel.shared_bytes is 232449, expected .* of 0 to 232448"),
        (lambda: Launch((1, 65_536, 1), ()), r"Launch.grid\[1\] is 65536, expected a whole number of 1 to 65535"),
        (lambda: Launch((1, 1, 65_536), ()), r"Launch.grid\[2\] is 65536"),
        (lambda: Launch((1 << 31, 1, 1), ()), r"Launch.grid\[0\] is 2147483648"),
        (lambda: Launch((1, 1, 1), (), block=2048), "Launch.block is 2048"),
        (lambda: own(source=None), r"OwnKernel.source, raw is \(None, None\), expected exactly one"),
        (lambda: own(raw=lambda cupy: None), "expected exactly one of them"),
        (lambda: own(source="rows.cpp"), "OwnKernel.source is 'rows.cpp', expected the name of a .cu file"),
        (lambda: own(source="/tmp/rows.cu"), "relative to the one that defines"),
        (lambda: own(defines={"N": 1.5}), r"OwnKernel.defines\['N'\] is 1.5, expected int"),
        (lambda: own(sizes={}), "OwnKernel.sizes is {}, expected at least one"),
        (lambda: own(outputs={}), "OwnKernel.outputs is {}"),
        (lambda: own(sizes={"seed": Size(1, 2)}), "OwnKernel.sizes, a name, is 'seed'"),
        (lambda: own(inputs={"x": Values("float32", ("columns",))}), "is 'columns', expected a size: rows, width"),
        (lambda: own(inputs={"y": Values("float32", ("rows",))}), "is 'y', expected one that no other array has"),
        (lambda: own(inputs={"x": np.zeros(3)}), r"OwnKernel.inputs\['x'\] is array"),
        (lambda: own(outputs={"y": Output("float32", ("rows",), start="z")}), "'zeros' or an input: x, weight"),
        (lambda: own(outputs={"y": Output("int32", ("rows",), start="x")}), "an input of its type and axes"),
        (lambda: own(bound=None), "OwnKernel.bound is None, expected a bound for y, total"),
        (lambda: own(bound={"y": Roundings(1)}), "one for each float output: y, total"),
        (lambda: own(bound=1e-5), "OwnKernel.bound is 1e-05, expected a function of inputs, reference and sizes"),
        (lambda: own(reference=None), "OwnKernel.reference is None"),
        (lambda: own(independent="columns"), "OwnKernel.independent is 'columns', expected a size"),
        (lambda: own(independent="width"), "is 'width', expected an axis of every output, and 'total' has none"),
        (lambda: own(without={"plane": "no"}), "a recipe is 'plane', expected one of plain, signed_decades"),
        (lambda: own(without={"plain": " "}), "expected a text that is not empty"),
    ],
)
def test_nonsense_is_refused_in_one_line(make: Callable[[], object], said: str) -> None:
    with pytest.raises(StrataError, match=said) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_what_was_made_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        own().name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        own().sizes["more"] = Size(1, 2)  # type: ignore[index]


def test_edges_are_the_neighbours_of_every_tile_constant() -> None:
    edges = Size(1, 4096, tile=(64, 128)).edges()
    assert {1, 2, 3, 63, 64, 65, 127, 128, 129, 256, 257} <= set(edges)
    assert list(edges) == sorted(set(edges))
    assert {31, 32, 33} <= set(Size(1, 100).edges())


def test_edges_keep_to_what_is_allowed() -> None:
    size = Size(64, 500, tile=128, multiple=32)
    assert all(size.allows(edge) for edge in size.edges())
    assert {96, 128, 160, 288} <= set(size.edges())
    assert Size(5, 5).edges() == (5,)
    assert (Size(5, 5).ragged(), size.ragged() % 32) == (5, 0)


def test_the_ragged_size_is_past_the_second_tile_and_a_multiple_of_none() -> None:
    ragged = Size(1, 1 << 14, tile=(32, 128)).ragged()
    assert ragged > 256
    assert all(ragged % divisor for divisor in range(2, 200))


def test_the_bound_counts_roundings() -> None:
    due = np.array([1.0, -4.0, 0.0])
    limit = Roundings(2).limit(due, None, "float32", {}, RULES["exact"])
    assert gamma(2) == 2 * U / (1 - 2 * U)
    assert (limit >= gamma(2) * np.abs(due) + 2 * SMALLEST).all()
    assert (limit <= 1.001 * (gamma(2) * np.abs(due) + 2 * SMALLEST)).all()
    # Two roundings in a row can be off by nearly that much, and are never off by more.
    third = np.float32(1) / np.float32(3)
    assert abs(float(third * third) - 1 / 9) <= Roundings(3).limit(
        np.array([1 / 9]), None, "float32", {}, RULES["exact"]
    )


def test_a_flush_widens_the_bound_of_what_it_may_zero_and_of_nothing_else() -> None:
    due = np.array([2.0**-130, -(2.0**-127), 2.0**-126, 1.0, 0.0])
    plain, flushed = (
        Roundings(1, flushed=least).limit(due, None, "float32", {}, RULES["exact"]) for least in (0.0, 2.0**-126)
    )
    assert (flushed == [2.0**-130, 2.0**-127, 2.0**-126, plain[3], plain[4]]).all()
    for wrong in (1.0, -1.0, True, "2"):
        with pytest.raises(StrataError, match=r"Roundings\.flushed is .*, expected a magnitude"):
            Roundings(1, flushed=wrong)  # type: ignore[arg-type]


def test_signs_and_shifts_that_cannot_be_are_refused() -> None:
    with pytest.raises(StrataError, match=r"Values\.sign is 'both', expected one of any, positive, negative"):
        Values("float32", ("n",), sign="both")
    with pytest.raises(StrataError, match=r"Values\.shift is 23, expected a whole number of 0 to 22"):
        Values("float32", ("n",), shift=23)
    with pytest.raises(StrataError, match="sign='negative', shift=None\", expected `low` and `high` for int32"):
        Values("int32", ("n",), sign="negative")
    assert Values("float32", ("n",), sign="negative", shift=3).domain == "-2^-20..2^20, shift 3"


def test_the_bound_of_a_half_covers_its_last_rounding() -> None:
    due = np.array([1 / 3, 1e-8, 70000.0])
    limit = Roundings(0).limit(due, None, "float16", {}, RULES["exact"])
    with np.errstate(over="ignore"):
        stored = due.astype(np.float16).astype(np.float64)
    assert (np.abs(stored - due)[:2] <= limit[:2]).all()
    assert limit[0] < 1e-3


def test_a_chain_of_tensor_core_steps_adds_its_error() -> None:
    rule, due, sizes = RULES["sm_90"], np.array([2.0]), {"n": 64}
    chain = TensorCore(16, lambda s: s["n"] // 16)
    limit = Roundings(0, tensor_core=chain).limit(due, np.array([3.0]), "float32", sizes, rule)
    assert limit[0] >= 3 * 4 * instruction(rule, 16)
    assert limit[0] <= 3 * 4 * instruction(rule, 16) * 1.001


def test_a_count_that_leaves_no_bit_is_refused() -> None:
    with pytest.raises(StrataError, match="no bit would be right"):
        Roundings(lambda s: 1 << 24).limit(np.ones(1), None, "float32", {}, RULES["exact"])
