"""Changes of an output in place, one fault each, that kernels of controls are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from strata.executors.base import POISON_OUTPUT

#: Changes float32 [rows, columns, values] in place.
Edit = Callable[[np.ndarray], object]


def put(index: Any, value: Any) -> Edit:
    """An edit that sets `out[index]` to a value, or to what a function makes of it."""

    def edit(out: np.ndarray) -> None:
        out[index] = value(out[index]) if callable(value) else value

    return edit


def poison(index: Any = (-1, -1, -1)) -> Edit:
    """An edit that leaves what no kernel wrote, at the last element unless another index is given."""

    def edit(out: np.ndarray) -> None:
        out.view(np.uint32)[index] = POISON_OUTPUT

    return edit


def flip_last_bit(out: np.ndarray) -> None:
    """The lowest bit of the last element."""
    out.view(np.uint32)[-1, -1, -1] ^= 1
