"""Kernels that are right near their tiles and wrong far from them: the quick profile goes far enough to find each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.validation.check.fake import FakeExecutor, Where, kernel, rows, run_case
from validation.check import Size, plan
from validation.check.load import Loaded
from validation.check.table import visited

BLOCK = 128


def loaded(tile: int | tuple[int, ...] = ()) -> Loaded:
    """The kernel of `rows.py` for many rows and wide ones, whose author names a tile or none."""
    own = kernel()
    sizes = {"rows": Size(1, 1 << 20), "width": Size(1, 1 << 14, tile)}
    return replace(own, kernel=replace(own.kernel, sizes=sizes, block=BLOCK, defines={"THREADS": BLOCK}))


def one_element_a_thread(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
    """The kernel without its loop over a row."""
    whole = y.copy()
    rows(x, weight, whole, total, positive, width)
    y[:, :BLOCK] = whole[:, :BLOCK]


def four_turns(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
    """The kernel with a loop that ends too early."""
    whole = y.copy()
    rows(x, weight, whole, total, positive, width)
    y[:, : 4 * BLOCK] = whole[:, : 4 * BLOCK]


def narrow_row(x: Any, weight: Any, y: Any, total: Any, positive: Any, width: Any) -> None:
    """The kernel with the number of a row in 8 bits."""
    whole = y.copy()
    rows(x, weight, whole, total, positive, width)
    y[:256] = whole[:256]


def refused(compute: Any, own: Loaded) -> bool:
    """Whether a case of the quick profile does not pass; those that are about a size come last."""
    where, planned = Where(FakeExecutor(compute)), plan.cases(own, "quick", plan.SEED)
    return any(run_case(own, case, where)["explain"] for case in reversed(planned))


@pytest.mark.parametrize("tile", [(), BLOCK], ids=["no tile", "a tile"])
@pytest.mark.parametrize("compute", [one_element_a_thread, four_turns, narrow_row])
def test_what_is_wrong_far_from_a_tile_is_found(compute: Any, tile: Any) -> None:
    assert refused(compute, loaded(tile))


def test_threads_of_a_block_are_an_edge_where_no_tile_is_named() -> None:
    widths = {case.by_name["width"] for case in plan.cases(loaded(), "quick", plan.SEED)}
    assert {BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1} <= widths


def test_the_report_says_how_far_sizes_went() -> None:
    own = loaded(BLOCK)
    results = [{"case": case.text()} for case in plan.cases(own, "quick", plan.SEED)]
    most = max(case.by_name["rows"] for case in plan.cases(own, "quick", plan.SEED))
    assert visited(own, results) == f"sizes visited: rows 1..{most} of 1..1048576, width 1..16384 of 1..16384"
    assert most >= np.iinfo(np.uint8).max
