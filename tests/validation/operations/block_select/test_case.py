"""Cases of block selection: one text form, its defaults, and what cannot exist."""

from __future__ import annotations

import numpy as np
import pytest

from validation.core.case import CaseError
from validation.operations import registry
from validation.operations.block_select.case import SelectCase

BELL = "recipe=select_bell seed=1 context=4096 queries=64"


@pytest.mark.parametrize(
    "text",
    [
        f"{BELL} top=2048 capacity=0",
        "recipe=topk_digits seed=7 context=0 queries=1 top=0 capacity=4",
        "recipe=select_lengths seed=0 context=9 queries=3 top=8 capacity=12 lengths=equal",
    ],
)
def test_the_text_form_is_parsed_again(text: str) -> None:
    assert registry.parse(text).text() == text


def test_usual_sizes_may_be_left_out() -> None:
    assert SelectCase.parse(BELL) == SelectCase("select_bell", 1, 4096, 64)
    assert SelectCase.parse(BELL).brief() == BELL


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("capacity=4092", "capacity is 4092, expected 0 or at least the context of 4096"),
        ("capacity=4097", "capacity is 4097, expected a multiple of 4"),
        ("lengths=sorted", "lengths is 'sorted', expected one of causal, ragged, equal"),
        ("top=1048577", "top is 1048577, expected 0..1048576"),
    ],
)
def test_what_cannot_exist_is_said(more: str, said: str) -> None:
    with pytest.raises(CaseError, match=f"^case: {said}$"):
        SelectCase.parse(f"{BELL} {more}")


@pytest.mark.parametrize(
    ("context", "top", "capacity", "blocks", "widest"),
    [(0, 8, 0, 1, 1), (3, 8, 0, 1, 3), (4, 8, 0, 1, 4), (5, 8, 0, 2, 5), (40, 8, 0, 10, 11), (40, 8, 80, 20, 11)],
)
def test_room_and_widths_follow(context: int, top: int, capacity: int, blocks: int, widest: int) -> None:
    case = SelectCase("select_bell", 1, context, 2, top, capacity)
    assert (case.blocks, case.widest) == (blocks, widest)
    assert case.widths(np.array([0, 1, context])).tolist() == [0, 1, min(context, top + 3)]
