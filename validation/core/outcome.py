"""What a run gave, what is right, and how far off it may be: arrays by the name of an output, of any dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from strata.executors.base import Executor, Witness
from strata.kernels.paths import Path

#: Arrays by the name of the output that they belong to.
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Output:
    """One output of an operation.

    Parameters
    ----------
    axes
        Names of its axes, for messages; the first is that of the rows.
    dtype
        Of its elements.
    whole
        Whether a run writes all of it: of a pool that is filled in part, no element need be written.
    everywhere
        Whether every path has it: scales are of some formats alone.
    """

    axes: tuple[str, ...]
    dtype: Any = np.float32
    whole: bool = True
    everywhere: bool = True


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run gave.

    Parameters
    ----------
    outputs
        Arrays of any dtype by name; the first is the one that a check without a name is about.
    witnesses
        One for each launch.
    guards_ok
        Whether no byte beside any buffer changed.
    counts
        What the kernels counted, by name: values that are lost, say.
    own
        What the operation's own checks look at besides.
    """

    outputs: Arrays
    witnesses: Sequence[Witness]
    guards_ok: bool
    counts: Mapping[str, int] = field(default_factory=dict)
    own: Any = None

    @property
    def main(self) -> str:
        """The name of the first output."""
        return next(iter(self.outputs))


@dataclass(frozen=True, eq=False)
class Run:
    """One run of a path, and what it gave.

    Parameters
    ----------
    inputs
        Of its operation, as they were handed over.
    variant
        How the path was told to do its work, None where it chose.
    """

    executor: Executor
    path: Path
    inputs: Any
    outcome: Outcome
    variant: Any = None


@dataclass(frozen=True, eq=False)
class Expected:
    """The very bits of every output, from a model of the definition, and what is to be counted.

    Parameters
    ----------
    outputs
        Arrays of the dtypes and shapes of the outcome's.
    counts
        By the names of the outcome's.
    own
        What the operation's own checks look at besides.
    """

    outputs: Arrays
    counts: Mapping[str, int] = field(default_factory=dict)
    own: Any = None


@dataclass(frozen=True, eq=False)
class Reference:
    """FP64 results, and how far a kernel may be from them.

    Parameters
    ----------
    rows
        int64, indices along the first axis of each output, to which the arrays belong.
    values
        float64 by the names of outputs; an output without one is judged by its bits alone.
    bound
        float64 of the same shapes: the largest error that the arithmetic allows.
    baseline_bound
        As `bound`, of the baseline; None where there is none, or it is not held against this reference.
    own
        What the operation's own checks look at besides.
    """

    rows: np.ndarray
    values: Arrays
    bound: Arrays
    baseline_bound: Arrays | None = None
    own: Any = None
