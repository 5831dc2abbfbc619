"""The CUDA driver through cuda-bindings: calls that raise, in the primary context that CuPy uses too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from strata.executors.base import ContextLostError, ExecutorUnavailable
from strata.executors.cuda.card import FORKED, Card
from strata.executors.cuda.driver import find_driver
from strata.executors.cuda.environment import import_cupy
from strata.forks import Home
from strata.imports import NotImportedError, optional
from strata.memory.driver.driver import DriverError


class Bindings:
    """The driver's functions and CuPy for one device.

    Its attributes are `cuda`, the module `cuda.bindings.driver`, `cupy`, the module, and `extra`, the extra of this
    project that fits.

    Parameters
    ----------
    device
        The number of the card, counted from 0.

    Raises
    ------
    ExecutorUnavailable
        When this machine has no usable card, CuPy or cuda-bindings; the message tells what to do.
    """

    def __init__(self, device: int = 0) -> None:
        found = find_driver()
        self.cupy = import_cupy(found)
        self.extra = found.extra
        try:
            self.cuda: Any = optional("cuda.bindings.driver")
        except NotImportedError as error:
            raise ExecutorUnavailable(
                f"cuda-bindings does not import ({error}): in the checkout, python -m pip install -e '.[{found.extra}]'"
            ) from None
        if not 0 <= device < found.devices:
            raise ExecutorUnavailable(f"device {device}: this machine has {found.devices}, counted from 0")
        self.card = Card(self.cupy, device)  # makes the primary context
        self.device = device
        self._home = Home()
        (self._context,) = self._take("open", self.cuda.cuDevicePrimaryCtxRetain(device))

    def call(self, name: str, function: Any, *args: Any) -> Any:
        """Call the driver, with the device's context current.

        Parameters
        ----------
        name
            The name of the method, for messages.
        function
            A function of `cuda`.
        *args
            What the function takes.

        Returns
        -------
        Any
            Its value, a tuple of several, or None.

        Raises
        ------
        DriverError
            When the driver answers anything but success.
        """
        self._at_home(name)
        now = self.cuda.cuCtxGetCurrent()
        if now[0] == 0 and int(now[1]) == self._number:
            return self.call_current(name, function, *args)
        with self.current(name):
            return self.call_current(name, function, *args)

    def call_current(self, name: str, function: Any, *args: Any) -> Any:
        """As `call`, inside `current`: for many calls in a row.

        Parameters
        ----------
        name
            The name of the method, for messages.
        function
            A function of `cuda`.
        *args
            What the function takes.

        Raises
        ------
        DriverError
            When the driver answers anything but success.
        """
        answer = function(*args)
        if answer[0] != 0 or len(answer) > 2:
            return self._take(name, answer)
        return answer[1] if len(answer) == 2 else None

    @contextmanager
    def current(self, name: str) -> Iterator[None]:
        """Inside, the device's context is this thread's; afterwards it is again the one that was.

        A context is current for each thread by itself, and CuPy makes another one current whenever it changes device,
        so it is asked for every time. Raises DriverError.
        """
        self._at_home(name)
        (now,) = self._take(name, self.cuda.cuCtxGetCurrent())
        if int(now) == self._number:
            yield
            return
        self._take(name, self.cuda.cuCtxPushCurrent(self._context))
        try:
            yield
        finally:
            self.cuda.cuCtxPopCurrent()

    def _at_home(self, name: str) -> None:
        if self._home.left:
            raise ContextLostError(f"{name}: {FORKED}")

    @property
    def _number(self) -> int:
        return int(self._context)

    def attribute(self, attribute: Any) -> int:
        """A number that the device has."""
        return int(self.call("attribute", self.cuda.cuDeviceGetAttribute, attribute, self.device))

    def close(self) -> None:
        """Let go of the primary context; CuPy keeps it alive as long as it needs it."""
        self.cuda.cuDevicePrimaryCtxRelease(self.device)

    def _take(self, name: str, answer: tuple[Any, ...]) -> tuple[Any, ...]:
        code, *values = answer
        if int(code) != 0:
            raise DriverError(name, int(code), getattr(code, "name", ""))
        return tuple(values)
