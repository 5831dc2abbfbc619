"""The calls of a fake driver: each meets its plan of faults, has its effect or has not, and is entered in a log."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar, cast

from strata.memory.driver.driver import STICKY, Code, DriverError
from strata.memory.driver.fake_memory import FakeMemory
from strata.memory.driver.fault_plan import Call, Corrupt, Elsewhere, Fail, FaultPlan, Interrupt, Meanwhile, Report

T = TypeVar("T")
#: Calls that return something: when they fail, after their effect too, the caller holds nothing and nothing is kept.
MAKERS = frozenset(("reserve", "create", "stream", "record", "page_locked"))


class FakeCalls:
    """The calls of one fake driver.

    Its attribute `log` has every call so far.

    Parameters
    ----------
    plan
        What goes wrong.
    memory
        The memory of the process that calls.
    """

    def __init__(self, plan: FaultPlan, memory: FakeMemory) -> None:
        self.plan, self._memory = plan, memory
        self.log: list[Call] = []
        self._numbers = count(1)

    def make(self, name: str, args: tuple[int, ...], effect: Callable[[], T], flips: list[Corrupt] | None = None) -> T:
        """Make one call: what the plan holds for it, its effect, its entry in the log.

        Parameters
        ----------
        name
            The name of the driver's method.
        args
            Its numbers, a host array by its size.
        effect
            What the call does; its value is the call's.
        flips
            A list that takes the bytes to be changed in a copy; None of calls that copy nothing in.

        Raises
        ------
        DriverError
            Where the plan says so, when the context is lost, and what the effect raises.
        """
        call = Call(next(self._numbers), name, args)
        happenings = self.plan.meet(call)
        for happening in happenings:
            if isinstance(happening, Meanwhile):
                happening.act()
            elif isinstance(happening, Corrupt) and flips is not None:
                flips.append(happening)
        fails = [happening for happening in happenings if isinstance(happening, Fail | Interrupt)]
        fail = fails[0] if fails else None
        try:
            if self._memory.lost:
                raise DriverError(name, Code.ILLEGAL_ADDRESS, self._memory.lost)
            if fail and (not fail.after or name in MAKERS):
                raise self._refusal(name, args, fail)
            result: Any = effect()
            if fail:
                raise self._refusal(name, args, fail)
        except DriverError as error:
            self.log.append(call._replace(error=error.code))
            raise
        except BaseException:
            self.log.append(call)
            raise
        for happening in happenings:
            if isinstance(happening, Report):
                result = (happening.free, result[1])
            elif isinstance(happening, Elsewhere):
                result = self._memory.moved(result)
        self.log.append(call)
        return cast(T, result)

    def _refusal(self, name: str, args: tuple[int, ...], fail: Fail | Interrupt) -> BaseException:
        if name in ("map", "unmap", "set_access", "release", "address_free"):
            self._memory.doubtful.add(args[0])
        if isinstance(fail, Interrupt):
            return fail.error
        if fail.code in STICKY:
            self._memory.lost = f"{name} was made to fail"
        return DriverError(name, fail.code)
