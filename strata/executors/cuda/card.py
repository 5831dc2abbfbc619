"""One card through CuPy: its context, its facts, and its errors in this project's terms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from strata.executors.base import ContextLostError, ExecutorUnavailable, LaunchError
from strata.forks import Home
from strata.imports import said

FORKED = "this process was forked from the one that opened the card, which answers no other: start children by spawn"


class Card:
    """A card through CuPy.

    Its attributes are `capability`, the compute capability times ten (90 for an H200), and `facts`, CuPy's device
    properties.

    Parameters
    ----------
    cupy
        The module `cupy`.
    device
        The number of the card, counted from 0.

    Raises
    ------
    ExecutorUnavailable
        When the card cannot be used, for example because another process has it alone.
    """

    def __init__(self, cupy: Any, device: int) -> None:
        self.cupy = cupy
        self.device = device
        self._lost = ""  # what was being done when the context stopped answering
        self._home = Home()
        try:
            self.runtime = cupy.cuda.runtime
            with self.using(f"opening device {device}"):
                self.runtime.deviceSynchronize()  # makes the context
                self.facts: dict[str, Any] = dict(self.runtime.getDeviceProperties(device))
            self.capability = 10 * int(self.facts["major"]) + int(self.facts["minor"])
            self.shared_limit = self._attribute("MaxSharedMemoryPerBlockOptin")
            self.clock_khz = self._attribute("ClockRate")
        except LaunchError as error:
            raise ExecutorUnavailable(str(error)) from error
        except Exception as error:  # a CuPy that imports may still lack a library or a part of itself
            raise ExecutorUnavailable(f"CuPy does not open device {device} ({said(error)})") from error

    @property
    def title(self) -> str:
        """The card's name, e.g. `NVIDIA H200`."""
        name = self.facts["name"]
        return name.decode(errors="replace") if isinstance(name, bytes) else str(name)

    @contextmanager
    def using(self, doing: str) -> Iterator[None]:
        """Make this card current inside a `with` block.

        Parameters
        ----------
        doing
            What is being done, for messages.

        Raises
        ------
        LaunchError
            For what CuPy raises inside.
        ContextLostError
            When the card does not answer any more, and in a child that was forked since the card was opened.
        """
        if self._home.left:
            raise ContextLostError(f"{doing}: {FORKED}")
        if self._lost:
            raise ContextLostError(f"{doing}: the card's context was lost while {self._lost}; start a new process")
        errors = (self.runtime.CUDARuntimeError, self.cupy.cuda.driver.CUDADriverError)
        try:
            with self.cupy.cuda.Device(self.device):
                try:
                    yield
                except errors:
                    self._check_alive(doing, errors)
                    raise
        except errors as error:
            raise (ContextLostError if self._lost else LaunchError)(f"{doing}: {error}") from error

    def _check_alive(self, doing: str, errors: tuple[type[Exception], ...]) -> None:
        """After a refusal (no memory, a bad size) the card still answers; after a fault it never does again."""
        try:
            self.runtime.deviceSynchronize()
        except errors:
            self._lost = doing

    def _attribute(self, name: str) -> int:
        return int(self.runtime.deviceGetAttribute(getattr(self.runtime, f"cudaDevAttr{name}"), self.device))
