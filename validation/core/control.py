"""One control: a question whose right answer is known, put to the harness itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from strata.executors.base import ExecutorUnavailable


@dataclass(frozen=True)
class Control:
    """name: `family/row`; ask: what the harness says, as one short text; expected: what it must say."""

    name: str
    ask: Callable[[], str]
    expected: str

    @property
    def family(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Answer:
    """What came of one control."""

    name: str
    got: str
    expected: str

    @property
    def right(self) -> bool:
        return self.got == self.expected

    def line(self) -> str:
        """One line for the terminal and the run file."""
        return f"control {self.name}: got {self.got}, expected {self.expected}"


def answer(control: Control) -> Answer:
    """Ask one control. What it raises is its answer, and no control expects that.

    Raises ExecutorUnavailable where the machine lets nobody ask: that is no answer of the harness.
    """
    try:
        got = control.ask()
    except ExecutorUnavailable:
        raise
    except Exception as error:  # a harness that crashes on a control has not answered it
        got = f"{type(error).__name__}: {error}".splitlines()[0]
    return Answer(control.name, got, control.expected)


def answers(controls: Iterable[Control]) -> list[Answer]:
    return [answer(control) for control in controls]


def failed(answers: Sequence[Answer]) -> list[Answer]:
    """The wrong ones; where there is no answer at all, one that says so."""
    if not answers:
        return [Answer("controls", "none", "controls")]
    return [one for one in answers if not one.right]
