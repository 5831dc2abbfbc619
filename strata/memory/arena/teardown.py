"""Driver calls that give something back for good: one that fails is made again, since it may have had its effect.

The second call answers INVALID_VALUE where the first one had its effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strata.executors.base import StrataError
from strata.memory.driver.driver import Code, DriverError
from strata.memory.driver.errors import end_if_lost


class Teardown:
    """The end of one thing: every call is attempted whatever the others answer, and then what was refused is told.

    Parameters
    ----------
    what
        What is closed, such as `arena`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._left: list[str] = []

    def attempt(self, call: Callable[[], Any], again: bool = False) -> None:
        """Make one call of the end.

        Parameters
        ----------
        call
            The call.
        again
            Whether it was made before and failed, or nobody knows: then INVALID_VALUE says that it had its effect.

        Raises
        ------
        Fatal
            When the context is lost.
        """
        for repeated in (again, True):
            try:
                call()
                return
            except DriverError as error:
                end_if_lost(error, f"closing the {self._what}")
                if repeated and error.code == Code.INVALID_VALUE:
                    return
                failed = error
        self._left.append(str(failed))

    def end(self) -> None:
        """Raises StrataError when something could not be given back."""
        if self._left:
            raise StrataError(f"{self._what}: closed, but {'; '.join(self._left)}")
