"""What a candidate is handed: copies all the way down, compared after a run, and results of its own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.base import Executor, LaunchError
from strata.kernels.paths import PATHS
from tests.validation.stub import StubExecutor
from validation.controls.changed_inputs import overwritten
from validation.core.arrays import rebuilt
from validation.core.handed import InputsChangedError, handed
from validation.core.watched import ByIdentity, Watched, watched
from validation.operations.attention.kernels import Operation
from validation.operations.combine.operation import Combine
from validation.operations.experts.under_test import ExpertOperation
from validation.operations.kv_pack.packing import Packing

LANES = StubExecutor()
#: What a test's own function is: it takes whatever the test hands it.
Run = Callable[..., Any]


class Pair(NamedTuple):
    one: Any
    two: Any


@dataclass(eq=False)
class Held:
    inside: Any
    number: int = 3

    @cached_property
    def total(self) -> float:
        return float(np.sum(self.inside))


def arrays_of(value: Any) -> list[np.ndarray]:
    found: list[np.ndarray] = []

    def keep(name: str, array: np.ndarray) -> np.ndarray:
        found.append(array)
        return array

    rebuilt(value, keep)
    return found


LEAVES = st.integers(1, 5).map(lambda n: np.arange(n, dtype=np.float32))
VALUES = st.recursive(
    LEAVES | st.none() | st.integers(0, 3) | st.just("text"),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        st.builds(Held, inner),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=6,
)


@given(VALUES)
def test_every_array_inside_is_another_one_and_nothing_else_changes(value: Any) -> None:
    seen: list[Any] = []
    handed(lambda executor, given: seen.append(given))(LANES, value)
    own, lent = arrays_of(value), arrays_of(seen[0])
    assert [a.tolist() for a in lent] == [a.tolist() for a in own]
    assert not any(np.shares_memory(a, b) for a in own for b in lent)
    assert type(seen[0]) is type(value)
    assert (seen[0] is value) == (not own)


@given(VALUES, st.data())
def test_a_change_of_any_array_is_found_and_does_not_reach_its_original(value: Any, data: st.DataObject) -> None:
    own = arrays_of(value)
    if not own:
        return
    at, then = data.draw(st.integers(0, len(own) - 1)), [a.copy() for a in own]

    def run(executor: Executor, given: Any) -> None:
        arrays_of(given)[at][-1] += 1

    with pytest.raises(InputsChangedError, match=r"^the run changed its inputs: given.* differs in \d of \d+ bytes, "):
        handed(run)(LANES, value)
    assert all(np.array_equal(a, b) for a, b in zip(own, then, strict=True))
    # And the next run is given what the first one was.
    again: list[np.ndarray] = []
    handed(lambda executor, given: again.extend(arrays_of(given)))(LANES, value)
    assert [a.tolist() for a in again] == [a.tolist() for a in then]


def test_the_array_that_changed_is_named() -> None:
    def run(executor: Executor, first: Held, second: Pair) -> None:
        second.two["x"][0] = 9

    value = Pair(np.zeros(2), {"x": np.zeros(2)})
    said = r"second\.two\.x differs in 2 of 16 bytes, byte 6 is 22 and was 00"
    with pytest.raises(InputsChangedError, match=f"inputs: {said}"):
        handed(run)(LANES, Held(np.zeros(1)), second=value)


def test_what_was_worked_out_from_an_original_is_worked_out_again() -> None:
    value = Held(np.ones(3))
    assert value.total == 3

    def run(executor: Executor, given: Held) -> float:
        assert given.inside is not value.inside
        given.inside = np.zeros(3)
        return given.total

    assert handed(run)(LANES, value) == 0


def test_an_array_keeps_its_copy_while_nobody_changes_it() -> None:
    seen: list[np.ndarray] = []
    keep: Run = handed(lambda executor, x: seen.append(x))
    x = np.arange(4)
    keep(LANES, x)
    keep(LANES, x)
    assert seen[0] is seen[1]
    x[0] = 7  # by its owner
    keep(LANES, x)
    assert seen[2].tolist() == [7, 1, 2, 3]


def test_a_copy_that_was_changed_between_runs_is_made_anew() -> None:
    kept: list[np.ndarray] = []
    keep: Run = handed(lambda executor, x: kept.append(x))
    x = np.arange(4)
    keep(LANES, x)
    kept[0][0] = 9
    keep(LANES, x)
    assert kept[1].tolist() == [0, 1, 2, 3]


def test_a_result_is_nobodys_but_the_callers() -> None:
    out = np.zeros(3)
    give: Run = handed(lambda executor: Held(out))
    first = give(LANES)
    out[:] = 1
    assert first.inside.tolist() == [0, 0, 0]
    assert give(LANES).inside.tolist() == [1, 1, 1]


def test_memory_of_an_input_is_compared_and_memory_that_may_be_written_is_not() -> None:
    def run(executor: Executor, x: np.ndarray, written: bool) -> None:
        buffer = executor.array(x, "x", written=written)
        executor.launch(None, (1, 1, 1), [buffer, None, np.int32(4)])  # type: ignore[arg-type]
        buffer.write(x + 1)

    with pytest.raises(InputsChangedError, match=r"inputs: buffer x differs in 3 of 12 bytes"):
        handed(run)(LANES, np.arange(3, dtype=np.int32), False)
    handed(run)(LANES, np.arange(3, dtype=np.int32), True)


def test_memory_that_stays_on_the_executor_is_compared_in_the_run_that_changes_it() -> None:
    held: list[Any] = []

    def run(executor: Executor, change: bool) -> None:
        if not held:
            held.append(executor.array(np.zeros(3, np.float32), "experts"))
        executor.launch(None, (1, 1, 1), [], reached=held)  # type: ignore[arg-type]
        if change:
            held[0].write(np.ones(3, np.float32))

    handed(run)(LANES, False)
    with pytest.raises(InputsChangedError, match="buffer experts"):
        handed(run)(LANES, True)


def test_a_run_inside_a_run_hides_no_change() -> None:
    inner: Run = handed(lambda executor, x: None)

    def run(executor: Executor, x: np.ndarray) -> None:
        overwritten(executor, x)
        inner(executor, x)

    with pytest.raises(InputsChangedError, match="buffer given"):
        handed(run)(LANES, np.zeros(3, np.float32))


def test_a_run_that_fails_says_why_and_leaves_nothing_for_the_next() -> None:
    def fails(executor: Executor, x: np.ndarray) -> None:
        overwritten(executor, x)
        raise LaunchError("a lane broke a rule")

    with pytest.raises(LaunchError, match="a lane broke a rule"):
        handed(fails)(LANES, np.zeros(3, np.float32))
    handed(lambda executor, x: None)(LANES, np.zeros(3, np.float32))


def test_every_seam_hands_copies() -> None:
    def run(executor: Executor, *rest: Any) -> None:
        rest[-1][...] = 1

    seams: list[Callable[..., Any]] = [
        Operation(run).run,  # type: ignore[arg-type]
        replace(Operation(lambda *_: None), run=run).run,  # type: ignore[arg-type]
        ExpertOperation(run).run,  # type: ignore[arg-type]
        *(getattr(Packing(run, run, run), name) for name in ("pack", "append", "hadamard")),  # type: ignore[arg-type]
    ]

    class Rows(Combine):
        def run(self, executor: Executor, path: Any, inputs: Any) -> Any:
            return run(executor, path, inputs)

    seams.append(lambda executor, x: Rows().run(executor, PATHS["combine/fp32/simt"], x))
    for call in seams:
        x = np.zeros(2)
        with pytest.raises(InputsChangedError):
            call(LANES, x)
        assert x.tolist() == [0, 0]


def test_an_executor_is_watched_once_and_is_what_it_was() -> None:
    one = watched(LANES)
    assert watched(LANES) is one
    assert watched(one) is one
    assert (one.name, one.arch, one.capability) == (LANES.name, LANES.arch, LANES.capability)
    assert one.describe() == LANES.describe()
    assert getattr(one, "time_launches", None) is None
    other = watched(StubExecutor(name="cuda"))
    other.inner.attributes = 5  # type: ignore[attr-defined]
    assert isinstance(other, Watched)
    assert other.attributes == 5


def test_what_nobody_holds_is_forgotten() -> None:
    held: ByIdentity[np.ndarray, int] = ByIdentity()

    def fill() -> Iterator[None]:
        for number in range(5):
            held.put(np.zeros(number), number)
            yield

    list(fill())
    gc.collect()
    assert len(held) == 0
