"""What goes wrong in a fake driver, and when.

A plan is a list of rules. Each names a call (by its number, by its name and occurrence, or by a predicate) and what
happens there: `Fail`, `Interrupt`, `Corrupt`, `Report`, `Elsewhere` or `Meanwhile`. Calls and occurrences count from 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from strata.memory.driver.driver import Code


class Call(NamedTuple):
    """One driver call.

    Parameters
    ----------
    number
        Counted from 1.
    name
        The name of the driver's method.
    args
        Its numbers, a host array by its size.
    error
        The code that it answered, 0 for success.
    """

    number: int
    name: str
    args: tuple[int, ...]
    error: int = 0


@dataclass(frozen=True)
class Fail:
    """The call answers an error.

    A call that would have returned something (a handle, an address, a stream, an array) keeps nothing when it fails.

    Parameters
    ----------
    code
        The error.
    after
        Whether its effect has happened all the same: a release that frees, yet reports.
    """

    code: int = Code.UNKNOWN
    after: bool = False


@dataclass(frozen=True)
class Interrupt:
    """What no driver raises comes out of the call: an interrupt, or no memory on the host.

    What the call would have returned is lost then, but nothing that it made is kept.

    Parameters
    ----------
    error
        What is raised.
    after
        Whether its effect has happened all the same.
    """

    error: BaseException
    after: bool = False


@dataclass(frozen=True)
class Corrupt:
    """One byte that a `copy_in` brings to the card is changed.

    Parameters
    ----------
    offset
        The place of the byte in what is copied.
    flip
        What the byte is xor-ed with.
    """

    offset: int = 0
    flip: int = 1


@dataclass(frozen=True)
class Report:
    """`mem_info` reports another figure.

    Parameters
    ----------
    free
        The free bytes that it reports.
    """

    free: int = 0


@dataclass(frozen=True)
class Elsewhere:
    """`reserve` returns another address than the one it would have."""


@dataclass(frozen=True)
class Meanwhile:
    """Something happens just before the call: another process takes or leaves memory, say.

    Parameters
    ----------
    act
        What happens.
    """

    act: Callable[[], object]


Happening = Fail | Interrupt | Corrupt | Report | Elsewhere | Meanwhile


@dataclass
class _Rule:
    applies: Callable[[Call, int], bool]
    what: Happening
    left: int


@dataclass
class FaultPlan:
    """The rules of one driver. Its attribute `met` counts the happenings that came about."""

    _rules: list[_Rule] = field(default_factory=list)
    _seen: Counter[str] = field(default_factory=Counter)
    met: int = 0  # happenings that came about

    def at(self, number: int, what: Happening) -> None:
        """Something happens at one call.

        Parameters
        ----------
        number
            The number of the call.
        what
            What happens.
        """
        self._rules.append(_Rule(lambda call, _: call.number == number, what, 1))

    def nth(self, name: str, occurrence: int, what: Happening, times: int = 1) -> None:
        """Something happens at an occurrence of a call, and at those after it.

        Parameters
        ----------
        name
            The name of the driver's method.
        occurrence
            Counted from the making of the plan.
        what
            What happens.
        times
            How many calls the rule meets before it is used up.
        """
        self._rules.append(_Rule(lambda call, seen: call.name == name and seen >= occurrence, what, times))

    def when(self, applies: Callable[[Call], bool], what: Happening, times: int = 1) -> None:
        """Something happens at the first calls that a predicate accepts.

        Parameters
        ----------
        applies
            The predicate.
        what
            What happens.
        times
            How many calls the rule meets before it is used up.
        """
        self._rules.append(_Rule(lambda call, _: applies(call), what, times))

    def next(self, name: str, what: Happening, times: int = 1) -> None:
        """Something happens at the next calls of a name.

        Parameters
        ----------
        name
            The name of the driver's method.
        what
            What happens.
        times
            How many calls the rule meets before it is used up.
        """
        self.nth(name, self._seen[name] + 1, what, times)

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        self._rules.clear()

    def meet(self, call: Call) -> list[Happening]:
        """What happens at a call that is about to be made."""
        self._seen[call.name] += 1
        if not self._rules:
            return []
        met = [rule for rule in self._rules if rule.left > 0 and rule.applies(call, self._seen[call.name])]
        for rule in met:
            rule.left -= 1
        self.met += len(met)
        return [rule.what for rule in met]
