"""Which exceptions end a change of memory for good."""

from __future__ import annotations

import pytest

from strata.executors.base import StrataError
from strata.memory.driver import Code, DriverError
from strata.memory.endings import ending
from strata.memory.errors import Fatal, Refused


@pytest.mark.parametrize("error", [Refused("no"), StrataError("no"), DriverError("map", Code.OUT_OF_MEMORY)])
def test_a_refusal_ends_nothing(error: StrataError) -> None:
    assert ending(error, "here") is None


def test_a_fatal_end_is_itself() -> None:
    fatal = Fatal("unknown")
    assert ending(fatal, "here") is fatal


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("all gone"), OSError(5, "disk"), SystemExit(1)])
def test_anything_else_is_an_end(error: BaseException) -> None:
    """With its cause; the context is not lost by it, so that memory is given back."""
    made = ending(error, "here")
    assert made is not None
    assert str(made) == f"broken off here: {type(error).__name__}: {error}"
    assert made.__cause__ is error
    assert not made.lost
