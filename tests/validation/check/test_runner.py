"""Each question that a case of an author's kernel is asked refuses a fault that it is there for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from strata.executors.base import ArgumentsError, BuildError, ContextLostError, ExecutorUnavailable, LaunchError
from tests.validation.check.fake import FakeExecutor, Where, kernel, rows, run_case, where
from validation.check import Roundings, Values, preconditions, recipes
from validation.check.author import AuthorError
from validation.check.case import OwnCase, case_of
from validation.check.load import Loaded
from validation.core.memo import Memo
from validation.core.verdict import Verdict

SIZES = {"rows": 5, "width": 7}


def case(recipe: str = "plain", seed: int = 1, sizes: Mapping[str, int] = SIZES) -> OwnCase:
    return case_of(kernel().kernel, recipe, seed, sizes)


def failed(result: dict[str, Any]) -> set[str]:
    """The names of checks that did not pass."""
    return {check["name"] for check in result["checks"] if not Verdict(check["verdict"]).passes}


@pytest.mark.parametrize("recipe", [name for name in recipes.RECIPES if name != "subnormals"])
@pytest.mark.parametrize("sizes", [SIZES, {"rows": 1, "width": 1}, {"rows": 2, "width": 65}], ids=str)
def test_the_right_kernel_passes_every_recipe(recipe: str, sizes: dict[str, int]) -> None:
    for seed in (0, 1):
        result = run_case(kernel(), case(recipe, seed, sizes), where())
        assert result["verdict"] == "WITHIN_BOUND", result["explain"]
        assert result["explain"] == ""


def unwritten(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
    before = y[-1, -1].copy()
    rows(x, weight, y, total, positive, width)
    y[-1, -1] = before


def guard(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
    rows(x, weight, y, total, positive, width)
    raw = y.base
    while raw.base is not None:
        raw = raw.base
    raw[-1] = 0


def swapped(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
    rows(x, weight, y, total, positive, width)
    total[...] = np.roll(total, 1)


def no_nan(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
    rows(x, weight, y, total, positive, width)
    y[np.isnan(y)] = 0


def finite_only(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
    rows(x, weight, y, total, positive, width)
    np.clip(y, -3e38, 3e38, out=y)


def first_infinity(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
    """Takes the first infinity of a row for its sum, whatever follows."""
    rows(x, weight, y, total, positive, width)
    for index, row in enumerate(y):
        if np.isinf(row).any() and not np.isnan(row).any():
            total[index] = row[np.isinf(row)][0]


def one_more(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
    rows(x, weight, y, total, positive, width)
    positive[0] += 1


def of_its_place(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
    """Adds in an order that depends on where a row lies, which every bound allows."""
    rows(x, weight, y, total, positive, width)
    total[0] = np.nextafter(total[0], np.float32(np.inf))


def of_the_length(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
    """Rounds otherwise when there are few rows."""
    rows(x, weight, y, total, positive, width)
    if len(total) < SIZES["rows"]:
        total[...] = np.nextafter(total, np.float32(np.inf))


@pytest.mark.parametrize(
    ("compute", "recipe", "due"),
    [
        (unwritten, "plain", {"y written", "y repeat", "y bound"}),
        (guard, "plain", {"guards", "guards of the repeat"}),
        (swapped, "plain", {"total bound"}),
        (one_more, "plain", {"positive bound", "positive permuted", "positive in parts"}),
        (no_nan, "not_finite", {"y not finite"}),
        (finite_only, "not_finite", {"y not finite"}),
        (first_infinity, "infinities", {"total not finite"}),
        (of_its_place, "plain", {"total permuted", "total in parts"}),
        (of_the_length, "plain", {"total in parts"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_fault_is_refused_by_its_check(compute: Callable[..., None], recipe: str, due: set[str]) -> None:
    result = run_case(kernel(), case(recipe, 0), where(compute))
    assert due <= failed(result)
    assert result["verdict"] == "EXCEEDS"
    assert f"--case 'recipe={recipe} seed=0 rows=5 width=7'" in result["rerun"]


def test_a_fault_is_refused_by_no_other_check() -> None:
    assert failed(run_case(kernel(), case(), where(of_the_length))) == {"total in parts"}
    assert failed(run_case(kernel(), case("not_finite", 0), where(no_nan))) == {"y not finite"}


def test_a_run_that_another_schedule_changes_is_refused_by_the_repeat() -> None:
    def later(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
        rows(x, weight, y, total, positive, width)
        total[...] = np.nextafter(total, np.float32(np.inf))

    assert "total repeat" in failed(run_case(kernel(), case(), where(rows, later)))


def test_an_input_that_the_kernel_writes_to_is_named() -> None:
    def writes(x: Any, *others: Any) -> None:
        rows(x, *others)
        x[0, 0] = 3

    result = run_case(kernel(), case(), where(writes))
    assert failed(result) == {"inputs"}
    assert result["verdict"] == "EXCEEDS"
    assert "x " in result["explain"]


@pytest.mark.parametrize("fault", [{"image": "b" * 64}, {"blocks_run": 4}, {"executor": "cuda"}], ids=str)
def test_a_witness_of_something_else_is_refused(fault: dict[str, Any]) -> None:
    assert failed(run_case(kernel(), case(), where(witness=lambda one: replace(one, **fault)))) == {"witness"}


def test_a_launch_on_another_grid_than_the_authors_is_refused() -> None:
    def smaller(one: Any) -> Any:
        return replace(one, grid=(3, 1, 1), blocks_run=3)

    assert failed(run_case(kernel(), case(), where(witness=smaller))) == {"witness"}


def test_a_kernel_that_breaks_a_rule_exceeds_and_does_not_stay_unjudged() -> None:
    def races(*_: Any) -> None:
        raise LaunchError("rows: rows.cu:20: race: shared byte 0")

    result = run_case(kernel(), case(), where(races))
    assert (result["verdict"], failed(result)) == ("EXCEEDS", {"rules"})
    assert "rows.cu:20" in result["explain"]


@pytest.mark.parametrize(
    "error", [ContextLostError("the card is gone"), MemoryError("1 TiB"), RuntimeError("nobody foresaw it")], ids=str
)
def test_what_says_nothing_of_the_kernel_is_not_run(error: Exception) -> None:
    def fails(*_: Any) -> None:
        raise error

    result = run_case(kernel(), case(), where(fails))
    assert (result["verdict"], failed(result)) == ("NOT_RUN", {"run"})
    assert str(error) in result["explain"]


@pytest.mark.parametrize("error", [BuildError("rows.cu:3: error"), ExecutorUnavailable("no compiler")], ids=str)
def test_what_every_case_would_meet_ends_the_run(error: Exception) -> None:
    def fails(*_: Any) -> None:
        raise error

    with pytest.raises(type(error)):
        run_case(kernel(), case(), where(fails))


def test_data_that_are_not_what_the_recipe_promises_make_a_case_void(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipes.RECIPES["signed_decades"]
    monkeypatch.setitem(recipes.RECIPES, "signed_decades", replace(recipe, floats=recipes.RECIPES["plain"].floats))
    result = run_case(kernel(), case("signed_decades", sizes={"rows": 9, "width": 65}), where())
    assert (result["verdict"], failed(result)) == ("VOID", {"preconditions"})


def test_every_recipe_makes_a_promise_that_data_of_another_break() -> None:
    assert set(preconditions.PROMISES) == set(recipes.RECIPES)


def test_a_bound_as_wide_as_the_data_makes_a_case_void() -> None:
    def wide(inputs: Any, due: Mapping[str, np.ndarray], sizes: Any) -> dict[str, np.ndarray]:
        return {name: 2 * np.abs(due[name]) for name in ("y", "total")}

    result = run_case(kernel(bound=wide), case(), where())
    assert result["verdict"] == "VOID"
    assert failed(result) == {"y self", "total self"}


@pytest.mark.parametrize("limit", [-1.0, np.nan, np.inf])
def test_a_bound_that_is_none_makes_a_case_void(limit: float) -> None:
    def odd(inputs: Any, due: Mapping[str, np.ndarray], sizes: Any) -> dict[str, np.ndarray]:
        return {name: np.full_like(due[name], limit) for name in ("y", "total")}

    assert run_case(kernel(bound=odd), case(), where())["verdict"] == "VOID"


def test_a_reference_that_is_not_finite_where_the_inputs_are_makes_a_case_void() -> None:
    def divides(inputs: Any, sizes: Any) -> dict[str, np.ndarray]:
        due = dict(kernel().kernel.reference(inputs, sizes))
        due["y"] = np.where(np.arange(sizes["width"]) == 0, np.inf, due["y"])
        return due

    assert "y reference" in failed(run_case(kernel(reference=divides), case(), where()))


def only_products(**changes: Any) -> Loaded:
    """The author's kernel with its first output alone."""
    return kernel(
        **{
            "outputs": {"y": kernel().kernel.outputs["y"]},
            "bound": Roundings(1),
            "reference": lambda inputs, sizes: inputs["x"] * inputs["weight"],
            "launch": lambda sizes: replace(kernel().kernel.launch(sizes), arguments=("x", "weight", "y")),
            **changes,
        }
    )


def products(x: Any, weight: Any, y: Any) -> None:
    with np.errstate(all="ignore"):
        y[...] = x * weight


def test_one_count_of_roundings_serves_one_output() -> None:
    assert run_case(only_products(), case(), where(products))["verdict"] == "WITHIN_BOUND"
    assert failed(run_case(only_products(), case(), where(lambda x, w, y: None))) >= {"written", "bound"}


def test_an_overflow_of_the_type_must_be_an_infinity_of_its_sign() -> None:
    def clipped(x: Any, weight: Any, y: Any) -> None:
        products(x, weight, y)
        np.clip(y, -3e38, 3e38, out=y)

    wide = {
        "x": Values("float32", ("rows", "width"), within=(0, 100)),
        "weight": Values("float32", ("width",), within=(0, 100)),
    }
    own = only_products(inputs=wide)
    for recipe in ("huge", "huge_and_tiny"):
        assert run_case(own, case(recipe), where(products))["verdict"] == "WITHIN_BOUND"
        assert "not finite" in failed(run_case(own, case(recipe), where(clipped)))


def test_the_sign_of_a_zero_is_left_to_a_model_of_the_bits() -> None:
    """A reference in FP64 need not have the sign that roundings leave: what tells it from the other is `exact`."""

    def negated(x: Any, weight: Any, y: Any) -> None:
        products(x, weight, y)
        y[y == 0] *= np.float32(-1)

    own = only_products()
    assert run_case(own, case("zeros"), where(negated))["verdict"] == "WITHIN_BOUND"
    modelled = only_products(exact=lambda inputs, sizes: inputs["x"] * inputs["weight"])
    assert failed(run_case(modelled, case("zeros"), where(negated))) == {"bits"}


def test_a_model_of_the_bits_makes_a_case_exact_and_refuses_another_bit() -> None:
    def exact(inputs: Any, sizes: Any) -> dict[str, np.ndarray]:
        y = inputs["x"] * inputs["weight"]
        return {"y": y, "total": y.sum(axis=1, dtype=np.float32), "positive": (y > 0).sum(axis=1).astype(np.int32)}

    own = kernel(exact=exact)
    assert run_case(own, case(), where())["verdict"] == "EXACT"
    assert run_case(own, case("not_finite", 0), where())["verdict"] == "EXACT"

    def other(inputs: Any, sizes: Any) -> dict[str, np.ndarray]:
        due = exact(inputs, sizes)
        due["total"] = np.nextafter(due["total"], np.float32(0))
        return due

    result = run_case(kernel(exact=other), case(), where())
    assert (result["verdict"], failed(result)) == ("EXCEEDS", {"total bits"})


class Card(FakeExecutor):
    """What says it is a card, of a kind whose tensor core is known or not."""

    name = "cuda"

    def __init__(self, compute: Callable[..., None] = rows, capability: int = 90) -> None:
        super().__init__(compute)
        self.capability = capability


def on_card(card: Card, lanes: Callable[..., None] = rows) -> Where:
    return Where(card, None, lambda rule: FakeExecutor(lanes))


def test_a_card_whose_bits_are_those_of_lanes_is_exact() -> None:
    assert run_case(kernel(), case(), on_card(Card()))["verdict"] == "EXACT"
    assert run_case(kernel(), case(), on_card(Card(of_its_place)))["verdict"] == "EXCEEDS"


def test_a_card_that_differs_from_lanes_in_a_bit_is_refused() -> None:
    def next_up(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
        rows(x, weight, y, total, positive, width)
        total[...] = np.nextafter(total, np.float32(np.inf))

    result = run_case(kernel(), case(), on_card(Card(next_up)))
    assert failed(result) == {"total prediction"}
    assert result["verdict"] == "EXCEEDS"


def test_a_tensor_core_of_no_established_rule_predicts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    own = kernel()
    own.__dict__["text"] = "mma_m16n8k16(d, a, b);  // in place of the source"
    assert own.tensor_cores
    assert run_case(own, case(), on_card(Card(capability=90)))["verdict"] == "EXACT"
    assert run_case(own, case(), on_card(Card(capability=120)))["verdict"] == "WITHIN_BOUND"


def test_a_kernel_of_cupy_is_never_exact() -> None:
    def exact(inputs: Any, sizes: Any) -> dict[str, np.ndarray]:
        y = inputs["x"] * inputs["weight"]
        return {"y": y, "total": y.sum(axis=1, dtype=np.float32), "positive": (y > 0).sum(axis=1).astype(np.int32)}

    own = kernel(source=None, raw=lambda cupy: None, exact=exact)
    result = run_case(own, case(), Where(Card()))
    assert result["verdict"] == "WITHIN_BOUND"
    assert "witness" not in [check["name"] for check in result["checks"]]


def test_a_fault_of_the_author_names_file_and_line_and_is_no_verdict() -> None:
    def broken(inputs: Any, sizes: Any) -> Any:
        return {"y": inputs["nothing"]}

    line = broken.__code__.co_firstlineno + 1
    with pytest.raises(AuthorError, match=rf"^test_runner\.py:{line}: reference of rows: KeyError: 'nothing'$"):
        run_case(kernel(reference=broken), case(), where())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"y": np.zeros((5, 7)), "total": np.zeros(5)}, "expected arrays named y, total, positive"),
        ({"y": np.zeros((5, 7), np.float32), "total": np.zeros(5), "positive": np.zeros(5, np.int32)}, "float64"),
        ({"y": np.zeros((5, 8)), "total": np.zeros(5), "positive": np.zeros(5, np.int32)}, r"float64 \(5, 7\)"),
        ({"y": np.zeros((5, 7)), "total": np.zeros(5), "positive": np.zeros(5)}, r"expected int32 \(5,\)"),
        (np.zeros((5, 7)), "a mapping with y, total, positive"),
    ],
)
def test_a_reference_of_another_form_is_a_fault_of_the_author(given: Any, said: str) -> None:
    with pytest.raises(AuthorError, match=said):
        run_case(kernel(reference=lambda inputs, sizes: given), case(), where())


def test_the_authors_functions_cannot_change_what_the_kernel_gets() -> None:
    def greedy(inputs: Any, sizes: Any) -> Any:
        inputs["x"][...] = 0
        return kernel().kernel.reference(inputs, sizes)

    with pytest.raises(AuthorError, match="read-only"):
        run_case(kernel(reference=greedy), case(), where())


def test_what_is_known_of_a_case_is_made_once_for_several_kernels() -> None:
    asked: list[int] = []

    def counting(inputs: Any, sizes: Any) -> Any:
        asked.append(1)
        return kernel().kernel.reference(inputs, sizes)

    own, memo = kernel(reference=counting), Memo()
    for _ in range(3):
        assert run_case(own, case(), where(), memo)["verdict"] == "WITHIN_BOUND"
    assert len(asked) == 1
    run_case(own, case("equal"), where(), memo)
    run_case(own, case("equal"), where(), memo)
    assert len(asked) == 2
    run_case(own, case(), where(), memo)
    assert len(asked) == 3  # it keeps the last one


def test_arguments_that_a_kernel_does_not_take_are_the_author_s_fault() -> None:
    def refuses(*arguments: Any) -> None:
        raise ArgumentsError("rows takes 7 arguments, 6 given")

    with pytest.raises(AuthorError, match=r"launch of rows: rows takes 7 arguments, 6 given$"):
        run_case(kernel(), case(), where(refuses))
