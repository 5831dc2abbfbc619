"""What a fuzzed configuration came to on one path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from strata.executors.base import Executor
from strata.kernels.paths import Path


@dataclass(frozen=True)
class Compared:
    """configuration: its text; outputs: compared, of which `differing` differ and `not_finite` are not finite; guards:
    whether memory around every buffer is untouched; said: what else is wrong, such as a count or a run that failed,
    empty when nothing is; arch: what the images that ran were built for."""

    configuration: str
    path: str
    outputs: int = 0
    differing: int = 0
    not_finite: int = 0
    guards: bool = True
    said: str = ""
    arch: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.differing and self.guards and not self.said


@dataclass(frozen=True, eq=False)
class FuzzKind:
    """What is fuzzed in the same way; operations with one and the same kind share its configurations.

    Parameters
    ----------
    configuration
        Of a seed, an index, modes, and whether it is run in the checked build.
    compare
        An executor, the seed, the configuration and a path of its mode to what it came to.
    """

    configuration: Callable[[int, int, Sequence[str], bool], Any]
    compare: Callable[[Executor, int, Any, Path], Compared]
