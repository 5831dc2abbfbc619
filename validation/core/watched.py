"""An executor that knows what its input buffers were made from, and finds those that a run changed."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np

from strata.executors.base import POISON_OUTPUT, Argument, Buffer, Executor, Image, Kernel, Witness
from validation.core.byte_equality import difference

_Of = TypeVar("_Of")
_Value = TypeVar("_Value")


class ByIdentity(Generic[_Of, _Value]):
    """Values by the identity of an object, each as long as its object lives."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[weakref.ref[Any], _Value]] = {}

    def get(self, of: _Of) -> _Value | None:
        held = self._held.get(id(of))
        return held[1] if held is not None and held[0]() is of else None

    def put(self, of: _Of, value: _Value) -> None:
        number, held = id(of), self._held

        def gone(dead: weakref.ref[Any]) -> None:
            if number in held and held[number][0] is dead:
                del held[number]

        held[number] = (weakref.ref(of, gone), value)

    def __len__(self) -> int:
        return len(self._held)


class Watched:
    """`inner`, with a copy of what every buffer was made from that kernels may not write to.

    Buffers are the inner executor's own. `used` tells which of them a run gave to its launches; they alone are
    compared, and once for all launches of a run: on a card each is a copy to the host.
    """

    def __init__(self, inner: Executor) -> None:
        self.inner = inner
        self.name, self.arch, self.capability = inner.name, inner.arch, inner.capability
        self._made: ByIdentity[Buffer, tuple[str, np.ndarray]] = ByIdentity()
        self._used: dict[int, Buffer] = {}

    def build(self, kernel: Kernel) -> Image:
        return self.inner.build(kernel)

    def array(self, host: np.ndarray, name: str = "", *, written: bool = False) -> Buffer:
        buffer = self.inner.array(host, name, written=written)
        if not written:
            self._made.put(buffer, (name or "a buffer", np.array(host)))
        return buffer

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = POISON_OUTPUT, name: str = "") -> Buffer:
        return self.inner.empty(shape, dtype, poison=poison, name=name)

    def launch(
        self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument], reached: Sequence[Buffer] = ()
    ) -> Witness:
        for given in (*args, *reached):
            if given is not None and not isinstance(given, np.generic):
                self._used[id(given)] = given
        return self.inner.launch(kernel, grid, args, reached)

    def describe(self) -> dict[str, Any]:
        return self.inner.describe()

    def __getattr__(self, name: str) -> Any:
        """What only some executors have: a clock, attributes, a rule."""
        return getattr(self.inner, name)

    @contextmanager
    def used(self) -> Iterator[Mapping[int, Buffer]]:
        """The buffers that launches inside the block are given, of which a block around it knows nothing."""
        outer, self._used = self._used, {}
        try:
            yield self._used
        finally:
            self._used = outer

    def changed(self, used: Mapping[int, Buffer]) -> Iterator[str]:
        """A phrase for each of some input buffers whose memory no longer holds what it was made from.

        Raises LaunchError when a card does not answer.
        """
        for buffer in used.values():
            made = self._made.get(buffer)
            at = None if made is None else difference(buffer.host(), made[1])
            if made is not None and at is not None:
                yield f"buffer {made[0]} {at}"


#: The executors that were watched last: what a run keeps on one stays there for the next.
_watched: list[Watched] = []
_MOST = 16


def watched(executor: Executor) -> Watched:
    """The same one for an executor each time; a watched one stays as it is."""
    if isinstance(executor, Watched):
        return executor
    for one in _watched:
        if one.inner is executor:
            return one
    made = Watched(executor)
    _watched[:] = [*_watched[1 - _MOST :], made]
    return made
