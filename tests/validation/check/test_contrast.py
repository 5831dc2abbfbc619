"""The sizes that fail are named by the simplest condition that tells them from those that pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.check import Launch, Output, OwnKernel, Size, Values
from validation.check.contrast import contrast

KERNEL = OwnKernel(
    name="k",
    source="k.cu",
    sizes={"rows": Size(1, 1000, tile=16), "width": Size(1, 1000, tile=(4, 64))},
    inputs={"x": Values("int32", ("rows", "width"))},
    outputs={"y": Output("int32", ("rows",))},
    launch=lambda sizes: Launch((1, 1, 1), ("x", "y", np.int32(sizes["width"]))),
    reference=lambda inputs, sizes: inputs["x"].sum(axis=1),
)
SIZES = [(rows, width) for rows in (1, 15, 16, 17, 33) for width in (1, 3, 4, 5, 8, 63, 64, 65, 129)]


def results(fails: Callable[[int, int], bool], recipe: str = "plain") -> list[dict[str, Any]]:
    return [
        {
            "case": f"recipe={recipe} seed=1 rows={rows} width={width}",
            "recipe": recipe,
            "verdict": "EXCEEDS" if fails(rows, width) else "WITHIN_BOUND",
        }
        for rows, width in SIZES
    ]


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        (lambda rows, width: width > 64, "width > 64"),
        (lambda rows, width: rows <= 16, "rows <= 16"),
        (lambda rows, width: rows % 16 != 0, "rows % 16 != 0"),
        (lambda rows, width: width % 4 == 0, "width % 4 == 0"),
        (lambda rows, width: width > 4 and width % 4 != 0, "width > 4 and width % 4 != 0"),
        (lambda rows, width: width > 1, "width > 1"),
    ],
)
def test_a_condition_on_one_size_is_found(fails: Callable[[int, int], bool], words: str) -> None:
    assert contrast(KERNEL, results(fails)) == f"of 45 cases of plain those fail that have {words}, and no other"


@pytest.mark.parametrize(
    "fails",
    [
        lambda rows, width: False,
        lambda rows, width: True,
        lambda rows, width: (rows, width) == (1, 1),  # one case says little
        lambda rows, width: (rows, width) != (1, 1),
        lambda rows, width: rows == 17 and width == 65,
        lambda rows, width: width == 63 or rows == 15,
    ],
)
def test_where_none_is_found_nothing_is_said(fails: Callable[[int, int], bool]) -> None:
    assert contrast(KERNEL, results(fails)) == ""


def test_one_case_of_a_kind_says_little() -> None:
    one_fails = [one for one in results(lambda rows, width: width > 64) if "rows=1 " in one["case"]][:-1]
    assert sum(one["verdict"] == "EXCEEDS" for one in one_fails) == 1
    one_passes = [one for one in results(lambda rows, width: width > 1) if "rows=1 " in one["case"]]
    assert contrast(KERNEL, one_fails) == contrast(KERNEL, one_passes) == ""


def test_other_recipes_and_cases_that_did_not_run_do_not_count() -> None:
    own = results(lambda rows, width: width > 64)
    others = results(lambda rows, width: True, "equal")[:9]
    not_run = [one | {"verdict": "NOT_RUN", "case": "no case at all"} for one in own[:3]]
    assert contrast(KERNEL, [*others, *own, *not_run]).endswith("width > 64, and no other")
    assert contrast(KERNEL, not_run) == ""


@given(st.lists(st.booleans(), min_size=len(SIZES), max_size=len(SIZES)))
def test_what_is_said_is_true(fates: list[bool]) -> None:
    failing = dict(zip(SIZES, fates, strict=True))
    words = contrast(KERNEL, results(lambda rows, width: failing[rows, width]))
    if words:
        condition = words.partition(" have ")[2].removesuffix(", and no other")
        assert all(eval(condition, {"rows": rows, "width": width}) == fate for (rows, width), fate in failing.items())
