"""How the runner calls the expert kernels: one seam, so that a test can put another kernel there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from strata.executors.base import Executor, Kernel, Witness
from strata.kernels.paths import Path
from validation.core import outcome
from validation.core.handed import handed
from validation.operations.experts.arithmetic import FUSED, Arithmetic
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import Inputs
from validation.operations.experts.reference import Codes

#: How a path may be told to do its work: a number of its own, or one for gate and up and one for down.
Shape = int | tuple[int, int]


@dataclass(frozen=True)
class Grouping:
    """Rows in the order in which experts take them. slot: int32 [tokens * top], the row of each pair; source: int32
    [rows], the token of each; offsets: int32 [experts + 1], the first row of each expert."""

    slot: np.ndarray
    source: np.ndarray
    offsets: np.ndarray


@dataclass(frozen=True)
class Outcome:
    """What a run gave. out: float32 [tokens, top, n]; gate, up: float32 [tokens, top, ff], None where the path keeps
    none; h: codes of [tokens * top, ff], None likewise; ignored: pairs whose id is nobody's; lost: blocks of x, blocks
    of h and outputs that are not finite, None where the path does not count."""

    out: np.ndarray
    witnesses: list[Witness]
    guards_ok: bool
    ignored: int
    gate: np.ndarray | None = None
    up: np.ndarray | None = None
    h: Codes | None = None
    grouping: Grouping | None = None
    lost: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class ExpertOperation:
    """run: executor, path, inputs, work shape (None: the path's own choice), whether to trace; arithmetic: what
    predicts its bits; shapes: the work shapes that a case is repeated in; kernels: what a run of some inputs in a work
    shape must have launched, of no inputs what a path may launch; launches: how many launches such a run has, None
    where it is not known; prepare: a function that only launches, for timing, and the
    buffer it writes; refuses_strays: whether ids that name nobody are an error, and not rows of zeros; lacks: why the
    device of an executor has no such work shape of a path, "" where it has."""

    run: Callable[[Executor, Path, Inputs, Shape | None, bool], Outcome]
    arithmetic: Arithmetic = FUSED
    kernels: Callable[[Path, Inputs | None, Shape | None], Sequence[Kernel]] = field(default=lambda *_: ())
    shapes: Callable[[ExpertCase], Sequence[Shape]] = field(default=lambda case: ())
    launches: Callable[[Inputs, Shape | None], int | None] = field(default=lambda *_: None)
    prepare: Callable[[Executor, Path, Inputs], tuple[Callable[[], object], Any]] | None = None
    refuses_strays: bool = False
    lacks: Callable[[Executor, Path, Shape], str] = field(default=lambda *_: "")

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", handed(self.run))

    def outcome(
        self, executor: Executor, path: Path, inputs: Inputs, shape: Shape | None = None, trace: bool = False
    ) -> outcome.Outcome:
        """A run as the one procedure looks at it. Raises StrataError when it cannot run."""
        got = self.run(executor, path, inputs, shape, trace)
        return outcome.Outcome({"out": got.out}, got.witnesses, got.guards_ok, own=got)
