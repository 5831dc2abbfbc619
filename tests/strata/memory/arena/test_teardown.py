"""Calls that give something back: how often they are made, which answers are good, and what is told at the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strata.executors.base import StrataError
from strata.memory.arena.teardown import Teardown
from strata.memory.driver.driver import Code, DriverError
from strata.memory.driver.errors import Fatal

CALL = "cuMemRelease"


def answering(*codes: Code | None) -> tuple[Callable[[], None], list[int]]:
    """A call that answers so, one after another (None: success), and a list that grows with each time it is made."""
    made: list[int] = []

    def call() -> None:
        code = codes[len(made)]
        made.append(1)
        if code is not None:
            raise DriverError(CALL, code)

    return call, made


@pytest.mark.parametrize(
    ("codes", "again", "fine"),
    [
        ([None], False, True),
        ([Code.UNKNOWN, None], False, True),
        ([Code.UNKNOWN, Code.INVALID_VALUE], False, True),
        ([Code.INVALID_VALUE], True, True),
        ([Code.INVALID_VALUE, None], False, True),
        ([Code.INVALID_VALUE, Code.UNKNOWN], False, False),
        ([Code.UNKNOWN, Code.UNKNOWN], False, False),
        ([Code.UNKNOWN, Code.UNKNOWN], True, False),
    ],
)
def test_a_call_is_made_until_its_effect_is_known(codes: list[Code | None], again: bool, fine: bool) -> None:
    teardown = Teardown("arena")
    call, made = answering(*codes)
    teardown.attempt(call, again)
    assert len(made) == len(codes)
    if fine:
        teardown.end()
    else:
        with pytest.raises(StrataError, match=f"^arena: closed, but .*{CALL}"):
            teardown.end()


def test_everything_that_is_left_is_told() -> None:
    teardown = Teardown("window")
    for code in (Code.UNKNOWN, Code.OUT_OF_MEMORY):
        teardown.attempt(answering(code, code)[0])
    with pytest.raises(StrataError) as told:
        teardown.end()
    assert str(told.value).count(CALL) == 2


def test_a_lost_context_ends_it_at_once() -> None:
    call, made = answering(Code.ILLEGAL_ADDRESS, None)
    with pytest.raises(Fatal, match="closing the arena") as told:
        Teardown("arena").attempt(call)
    assert told.value.lost
    assert len(made) == 1
