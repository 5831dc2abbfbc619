"""Changes of what an expert kernel gave, one fault each: what `experts` has the runner refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from strata.executors.base import Witness
from validation.controls.edits import Edit, flip_last_bit
from validation.core.stub_executor import StubExecutor, witness
from validation.operations.experts.inputs import Inputs
from validation.operations.experts.under_test import Outcome, Shape

LANES = StubExecutor()

#: Changes an outcome; call: the how-manyth run of the kernel it is, from 1 on.
Wrong = Callable[[Outcome, Inputs, Shape | None, int], Outcome]


def edited(edit: Edit) -> Wrong:
    """The output edited in place."""

    def wrong(made: Outcome, inputs: Inputs, shape: Shape | None, call: int) -> Outcome:
        edit(made.out)
        return made

    return wrong


def for_nan(out: np.ndarray, value: float) -> np.ndarray:
    return np.where(np.isnan(out), np.float32(value), out)


def one_bit_when(applies: Callable[[Shape | None, int], bool]) -> Wrong:
    """One bit wrong in some of the runs."""

    def wrong(made: Outcome, inputs: Inputs, shape: Shape | None, call: int) -> Outcome:
        if applies(shape, call):
            flip_last_bit(made.out)
        return made

    return wrong


def having(**changes: Callable[[Outcome, Inputs], Any]) -> Wrong:
    """Fields replaced."""

    def wrong(made: Outcome, inputs: Inputs, shape: Shape | None, call: int) -> Outcome:
        fields: dict[str, Any] = {name: change(made, inputs) for name, change in changes.items()}
        return replace(made, **fields)

    return wrong


def in_shape(asked: Shape, **changes: Callable[[Outcome, Inputs], Any]) -> Wrong:
    """Fields replaced in one work shape alone."""
    change = having(**changes)
    return lambda made, inputs, shape, call: change(made, inputs, shape, call) if shape == asked else made


def later(after: int, **changes: Callable[[Outcome, Inputs], Any]) -> Wrong:
    """Fields replaced in every run after so many."""
    change = having(**changes)
    return lambda made, inputs, shape, call: change(made, inputs, shape, call) if call > after else made


def code_one_off(made: Outcome, inputs: Inputs) -> Any:
    """One code of h one off, where no tie is near: the largest of its block."""
    assert made.h is not None
    q = made.h.q.copy()
    row, at = (int(i) for i in np.argwhere(np.abs(q.astype(int)) == 127)[-1])
    q[row, at] -= np.sign(q[row, at])
    return replace(made.h, q=q)


def scale_one_step(made: Outcome, inputs: Inputs) -> Any:
    """One scale of h one float32 step off."""
    assert made.h is not None
    scale = made.h.scale.copy()
    scale.view(np.uint32)[-1, -1] += 1
    return replace(made.h, scale=scale)


def scales_in_fp16(made: Outcome, inputs: Inputs) -> Any:
    """Scales of h rounded to FP16."""
    assert made.h is not None
    with np.errstate(over="ignore"):
        return replace(made.h, scale=made.h.scale.astype(np.float16).astype(np.float32))


def gate_beyond(made: Outcome, inputs: Inputs) -> np.ndarray:
    """One accumulator of gate off by 2**-16 of itself."""
    assert made.gate is not None
    gate = made.gate.copy()
    gate[-1, -1, -1] *= np.float32(1 + 2.0**-16)
    return gate


def up_one_step(made: Outcome, inputs: Inputs) -> np.ndarray:
    """One accumulator of up one float32 step off."""
    assert made.up is not None
    up = made.up.copy()
    up.view(np.uint32)[-1, -1, -1] += 1
    return up


def grouping(**edits: Callable[[np.ndarray], np.ndarray]) -> Wrong:
    def change(made: Outcome, inputs: Inputs) -> Any:
        assert made.grouping is not None
        parts: dict[str, Any] = {name: edit(getattr(made.grouping, name).copy()) for name, edit in edits.items()}
        return replace(made.grouping, **parts)

    return having(grouping=change)


def witnesses(**changes: Any) -> Wrong:
    return having(witnesses=lambda made, inputs: [witness(LANES, (1, 1, 1), **changes)])


def no_witness(made: Outcome, inputs: Inputs) -> list[Witness]:
    return []


def first_two_swapped(x: np.ndarray) -> np.ndarray:
    x[[0, 1]] = x[[1, 0]]
    return x


def first_twice(x: np.ndarray) -> np.ndarray:
    x[1] = x[0]
    return x


def ends_swapped(x: np.ndarray) -> np.ndarray:
    x[[0, -1]] = x[[-1, 0]]
    return x


def not_counting(stage: int) -> Wrong:
    """One stage's count of what is not finite as 0."""

    def change(made: Outcome, inputs: Inputs) -> Any:
        assert made.lost is not None
        return tuple(0 if index == stage else count for index, count in enumerate(made.lost))

    return having(lost=change)


def minus_zeros(made: Outcome, inputs: Inputs) -> np.ndarray:
    """-0 in the rows of ids that name nobody."""
    return np.where(inputs.named[..., None], made.out, np.float32(-0.0))
