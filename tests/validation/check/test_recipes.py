"""Recipes keep their promises in every type and shape, and a promise refuses what another recipe made."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validation.check.fake import kernel
from validation.check import Drawn, Values, data, plan
from validation.check.author import AuthorError
from validation.check.case import OwnCase
from validation.check.load import Loaded
from validation.check.preconditions import PROMISES, promised
from validation.check.recipes import RECIPES, Filling
from validation.core.random_streams import Stream
from validation.core.verdict import Verdict

FLOATS = [
    Values("float32", ("n",)),
    Values("float32", ("n",), within=(-126, 128)),
    Values("float32", ("n",), within=(3, 4)),
    Values("float32", ("n",), sign="positive"),
    Values("float16", ("n",)),
    Values("float16", ("n",), within=(-14, 16)),
    Values("float32", ("n",), sign="negative"),
    Values("float16", ("n",), shift=9),
    Values("float32", ("n",), shift=0),
]
INTEGERS = [
    Values("int8", ("n",)),
    Values("uint8", ("n",)),
    Values("int32", ("n",), low=5, high=9),
    Values("int64", ("n",)),
    Values("uint64", ("n",)),
]


def made(name: str, values: Values, shape: tuple[int, ...], seed: int, target: bool = True) -> np.ndarray:
    recipe = RECIPES[name]
    fill = recipe.floats if values.floating else recipe.integers
    return fill(Filling(values, shape, Stream.of(seed, name), target, seed))


def kept(name: str, values: Values, array: np.ndarray, target: bool = True) -> bool:
    check = promised(RECIPES[name], {"x": values}, {"x": array}, ["x"] if target else [])
    return check.verdict is Verdict.EXACT


@settings(max_examples=150)
@given(
    st.sampled_from(list(RECIPES)),
    st.sampled_from([*FLOATS, *INTEGERS]),
    st.sampled_from([(1,), (2,), (65,), (1, 1), (5, 1), (7, 33), (2, 3, 17)]),
    st.integers(0, 1 << 32),
    st.booleans(),
)
def test_data_are_what_their_recipe_promises(
    name: str, values: Values, shape: tuple[int, ...], seed: int, target: bool
) -> None:
    array = made(name, values, shape, seed, target)
    assert (array.dtype, array.shape) == (values.dtype, shape)
    check = promised(RECIPES[name], {"x": values}, {"x": array}, ["x"] if target else [])
    assert check.verdict is Verdict.EXACT, check.reason
    assert array.tobytes() == made(name, values, shape, seed, target).tobytes()


#: Recipes whose promise says nothing but that values lie in the domain.
_BARE = [name for name in RECIPES if PROMISES[name] is PROMISES["plain"]]


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in _BARE])
def test_plain_data_break_every_promise(name: str) -> None:
    array = made("plain", FLOATS[0], (9, 65), 1)
    assert not kept(name, FLOATS[0], array)


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_value_outside_of_the_domain_breaks_every_promise(name: str) -> None:
    array = made(name, FLOATS[0], (9, 65), 1).copy()
    assert kept(name, FLOATS[0], array)
    array[4, 4] = 2.0**30
    assert not kept(name, FLOATS[0], array)
    whole = made(name, INTEGERS[2], (9, 65), 1).copy()
    whole[4, 4] = 10
    assert not kept(name, INTEGERS[2], whole)


def test_an_infinity_breaks_the_promise_of_every_finite_recipe() -> None:
    for name in [name for name, recipe in RECIPES.items() if recipe.finite]:
        array = made(name, FLOATS[0], (9, 65), 1).copy()
        array[4, 4] = np.inf
        assert not kept(name, FLOATS[0], array), name


def test_recipes_that_are_about_one_input_take_them_in_turn() -> None:
    own = kernel().kernel
    for name in ("zeros", "one_hot", "not_finite"):
        assert [data.targets(own, name, seed) for seed in range(3)] == [["x"], ["weight"], ["x"]]
    assert data.targets(own, "plain", 0) == ["x", "weight"]
    positive = replace(
        own,
        inputs={"x": Values("float32", ("rows", "width"), shift=0), "weight": FLOATS[3]},
        sizes={**own.sizes, "n": own.sizes["width"]},
    )
    for recipe in ("cancelling", "one_sign", "negative"):
        assert data.targets(positive, recipe, 1) == ["x"]
    assert data.targets(positive, "shifted", 1) == ["weight"]


def test_a_recipe_of_signs_or_offsets_is_not_planned_where_no_input_may_have_them() -> None:
    own = kernel().kernel
    inputs = {}
    for name, values in own.inputs.items():
        assert isinstance(values, Values)
        inputs[name] = replace(values, sign="negative", shift=0)
    left = {"one_sign", "negative", "shifted"}
    assert set(plan.usual(own)) - set(plan.usual(replace(own, inputs=inputs))) == left


@settings(max_examples=20)
@given(st.integers(0, 1 << 32), st.integers(1, 3))
def test_a_row_of_subnormal_numbers_has_one_among_the_largest(seed: int, columns: int) -> None:
    """Found on a card: a row of one value was as small as the rounding below it, and its case could tell nothing."""
    array = made("subnormals", FLOATS[0], (4, columns), seed)
    largest = np.abs(array.astype(np.float64)).max(axis=1)
    tiny = float(np.finfo(array.dtype).tiny)
    assert (largest >= tiny / 2).all()
    assert (largest < tiny).all()


def test_a_kernel_of_cupy_is_not_asked_subnormal_numbers() -> None:
    """CuPy flushes them, whatever options it is given: found on a card, where the example failed."""
    own = replace(kernel().kernel, without={})
    left = set(plan.usual(own)) - set(plan.usual(replace(own, source=None, raw=lambda cupy: None)))
    assert left == {"subnormals"}


def test_inputs_are_a_function_of_the_case_alone() -> None:
    case = OwnCase("plain", 3, (("rows", 2), ("width", 5)))
    first, again = (data.inputs_of(kernel(), case) for _ in range(2))
    assert {name: array.tobytes() for name, array in first.items()} == {
        name: array.tobytes() for name, array in again.items()
    }
    for other in (
        replace(case, seed=4),
        replace(case, recipe="equal"),
        replace(case, sizes=(("rows", 2), ("width", 6))),
    ):
        assert data.inputs_of(kernel(), other)["x"].tobytes() != first["x"].tobytes()
    with pytest.raises(ValueError, match="read-only"):
        first["x"][0, 0] = 1


def test_the_bytes_of_a_case_do_not_change_from_version_to_version() -> None:
    digest = hashlib.sha256()
    digests = {}
    for name in RECIPES:
        for values in (FLOATS[0], FLOATS[4], INTEGERS[0], INTEGERS[3]):
            digest.update(made(name, values, (5, 33), 7).tobytes())
        digests[name] = digest.hexdigest()[:16]
    assert digests["not_finite"] == "c14ea4dce48b51c3"
    assert digests["shifted"] == "260790a8ca1191c8"
    assert digests["infinities"] == "402e1253ff47e892"


def drawn(make: object) -> Loaded:
    own = kernel()
    inputs = {**own.kernel.inputs, "weight": Drawn("float32", ("width",), make)}  # type: ignore[arg-type]
    return Loaded(replace(own.kernel, inputs=inputs), Path(__file__))


def test_an_author_can_draw_an_input_himself() -> None:
    case = OwnCase("plain", 3, (("rows", 2), ("width", 5)))
    arrays = data.inputs_of(drawn(lambda stream, sizes: stream.normals(sizes["width"])), case)
    assert arrays["weight"].shape == (5,)
    other = data.inputs_of(drawn(lambda stream, sizes: stream.normals(sizes["width"])), replace(case, seed=4))
    assert arrays["weight"].tobytes() != other["weight"].tobytes()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda stream, sizes: np.zeros(4, np.float32), r"weight is 'float32 \(4,\)', expected float32 \(5,\)"),
        (lambda stream, sizes: np.zeros(5), "weight is 'float64"),
        (lambda stream, sizes: [0.0] * 5, "weight is 'list'"),
        (lambda stream, sizes: np.random.default_rng().random(5, np.float32), "values made from the stream alone"),
        (lambda stream, sizes: sizes["depth"], r"test_recipes.py:\d+: make of weight: KeyError"),
    ],
)
def test_a_drawn_input_of_another_form_is_a_fault_of_the_author(make: object, said: str) -> None:
    with pytest.raises(AuthorError, match=said):
        data.inputs_of(drawn(make), OwnCase("plain", 3, (("rows", 2), ("width", 5))))
