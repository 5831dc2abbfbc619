"""What an operation gives to be recordable.

Its output is a list of rows of so many words each, of FP32 numbers or of integers. A case, a path and inputs are of the
operation's own types, `Any` here; everything below is a pure function of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from strata.executors.base import Executor, Kernel, StrataError
from strata.executors.lanes.rules import Rule
from strata.kernels.paths import Path
from validation.core.memo import Memo

#: Opens lanes that follow a rule, by its name. Raises ExecutorUnavailable where lanes cannot run.
Predictor = Callable[[str], Executor]
#: The rule that is broken, and why.
Reason = tuple[str, str]


class CannotCheckError(StrataError):
    """The verifier is at fault, or lacks something; it says nothing of the record."""


@dataclass(frozen=True)
class Asked:
    """A row that a record must show. bits: whether with its bits; else by the proof alone that the output's root holds
    it, which says all where the verifier knows the bits."""

    row: int
    bits: bool = True


@dataclass(frozen=True)
class Row:
    """A row that is shown. got: [width] of the operation's `dtype`; None where it is shown by its proof alone."""

    row: int
    got: np.ndarray | None
    proof: Sequence[str]


@dataclass(frozen=True)
class Launch:
    """One launch that a case must show. kernel: what ran; grid: all of its blocks."""

    kernel: Kernel
    grid: tuple[int, int, int]


@dataclass(frozen=True)
class Checks:
    """What a case is asked. needed: names of checks; together: groups that are there whole or not at all; bounded:
    those that pass as WITHIN_BOUND and have a slack, others pass as EXACT; bits: the checks of which one's success on
    `whole` elements, all that there are, makes a case EXACT."""

    needed: frozenset[str]
    together: tuple[tuple[str, ...], ...]
    bounded: frozenset[str]
    bits: tuple[str, ...]
    whole: int


@dataclass(frozen=True)
class Claim:
    """What a run says of predicted bits. readings: rules that gave all of them; compared, differing: elements."""

    readings: tuple[str, ...]
    compared: int
    differing: int


class Examined(Protocol):
    """What an operation is asked about of a record under examination; `rules.subject.Subject` is one."""

    @property
    def card(self) -> bool:
        """Whether it says that a card ran it."""
        ...

    @property
    def pairs(self) -> Sequence[tuple[Path, Any]]:
        """Path and case of every run that its plan asks for."""
        ...

    @property
    def cases(self) -> Sequence[Mapping[str, Any]]:
        """Its cases, as they stand in it."""
        ...

    @property
    def executor(self) -> Any:
        """What bounds ask of an executor."""
        ...

    @property
    def arithmetic(self) -> Sequence[tuple[str, Rule]]:
        """The rules that its bits may follow, by name; none where nothing is known of the card."""
        ...


@dataclass
class Shown:
    """Rows of one case, to be judged. memo: shared by the cases of a mode, so that tiers share inputs and reference.

    Counted by who judges: bounded, rows that were held against FP64; enclosed, outputs against their true value."""

    subject: Examined
    path: Path
    case: Any
    item: Mapping[str, Any]
    inputs: Any
    rows: list[Row]
    memo: Memo
    bounded: int = field(default=0)
    enclosed: int = field(default=0)


class Recordable(Protocol):
    """One operation. Methods raise StrataError for what cannot be, CannotCheckError where the verifier is at fault."""

    #: Whether bits depend on the tensor core's rule, so that lanes predict them, by a compiler, where a rule is known;
    #: else they are the same on every card and predicted by a model, always.
    on_lanes: bool
    #: The type of a row's words, one of `row_words.WORDS`: an integer is compared for equality and with the definition,
    #: never by a bound.
    dtype: np.dtype
    #: What a message calls the place of a word in its row.
    axis: str

    def parse(self, text: str) -> Any:
        """The case of its text."""
        ...

    def rows(self, case: Any) -> int:
        """Rows of an output."""
        ...

    def width(self, case: Any) -> int:
        """Words of a row."""
        ...

    def rows_said(self, case: Any) -> str:
        """What `rows` is the product of, for messages."""
        ...

    def place(self, case: Any, row: int) -> str:
        """Where a row is, for messages."""
        ...

    def matrix(self, out: np.ndarray) -> np.ndarray:
        """[rows, width] of `dtype`, little endian: an output as a record holds it."""
        ...

    def asked(self, case: Any, seed: str, index: int) -> list[Asked]:
        """The rows that must be shown of case `index`, ascending. seed: 64 hex digits, the root over all cases."""
        ...

    def build(self, case: Any, mode: str) -> Any:
        """The inputs of a case."""
        ...

    def arrays(self, inputs: Any) -> Mapping[str, np.ndarray | None]:
        """All that a kernel is given, by name, in order; None for what a mode does not have."""
        ...

    def kernels(self, path: Path, case: Any) -> Sequence[Kernel]:
        """The kernels that a case may launch on a path."""
        ...

    def launches(self, path: Path, case: Any, multiprocessors: int | None) -> Sequence[Launch]:
        """What a case launches on a path, in order. multiprocessors: of the card, None on lanes."""
        ...

    def checks(self, path: Path, case: Any, card: bool) -> Checks:
        """What a case is asked on a path. card: whether it ran on one."""
        ...

    def claim(self, checks: Sequence[Mapping[str, Any]]) -> Claim | None:
        """What the checks of a finished case say of predicted bits; None where none were compared."""
        ...

    def claims(self, subject: Examined) -> Iterator[str]:
        """What is wrong with the claims of predicted bits, rows unseen."""
        ...

    def numbers(self, shown: Shown) -> Iterator[Reason]:
        """Which rows are outside of their bound of FP64, or use more of it than was told."""
        ...

    def readings(self, subject: Examined) -> Sequence[str]:
        """Names of the rules by which bits may be predicted; none where nothing is known of the card."""
        ...

    def affordable(self, case: Any) -> bool:
        """Whether all rows of a case are predicted where all are asked for."""
        ...

    def predict(self, reading: str, predictor: Predictor | None, shown: Shown, rows: np.ndarray) -> np.ndarray:
        """[len(rows), width] of `dtype`: these rows by a reading. rows: ascending numbers."""
        ...
