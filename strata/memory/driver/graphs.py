"""Captured graphs and the addresses they hold: a graph whose addresses moved, or hold nothing, is never launched.

On the card such a launch reads foreign bytes in silence, or loses the context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from strata.executors.base import StrataError
from strata.memory.driver.driver import Graph


class StaleGraph(StrataError):  # noqa: N818 - a state of the graph
    """A graph that must be captured again before it may be launched."""


class Place(Protocol):
    """What a graph's address belongs to. present: whether its own bytes are there."""

    name: str

    @property
    def address(self) -> int: ...

    @property
    def present(self) -> bool: ...


class BoundGraph:
    """A graph with the places whose addresses it was captured with, all of them present at that moment."""

    def __init__(self, name: str, graph: Graph, places: Sequence[Place]) -> None:
        self.name = name
        self._graph: Graph | None = graph
        self._places = [(place, place.address) for place in places]
        self._check("captured")

    def launch(self) -> Any:
        """Launch it. Raises StaleGraph, with nothing launched, when a place moved or is absent, or it was destroyed."""
        self._check("launched")
        if self._graph is None:
            raise StaleGraph(f"graph {self.name} was destroyed, expected to be captured again before it is launched")
        launched: Any = self._graph
        return launched.launch()

    def destroy(self) -> None:
        """Drop the captured work; safe to repeat."""
        self._graph = None

    def _check(self, what: str) -> None:
        for place, address in self._places:
            if not place.present:
                raise StaleGraph(f"graph {self.name} cannot be {what}: {place.name} is absent")
            if place.address != address:
                raise StaleGraph(
                    f"graph {self.name} cannot be {what}: {place.name} is at {place.address:#x}, "
                    f"it was captured at {address:#x}"
                )


class GraphResource:
    """Graphs as a resource: destroyed by a release, captured again by the first use after a restore.

    capture: makes the graph; everything it needs is present then.
    """

    nbytes = 0

    def __init__(self, name: str, capture: Callable[[], BoundGraph], needs: tuple[str, ...]) -> None:
        self.name, self.needs = name, needs
        self._capture = capture
        self._graph: BoundGraph | None = None
        self._present = False

    @property
    def present(self) -> bool:
        return self._present

    def release(self) -> None:
        if self._graph is not None:
            self._graph.destroy()
        self._graph, self._present = None, False

    def restore(self) -> None:
        """Allows capturing; nothing is captured yet."""
        self._present = True

    @property
    def graph(self) -> BoundGraph:
        """The graph, captured now if it has not been. Raises StaleGraph while the resource is released."""
        if not self._present:
            raise StaleGraph(f"graphs {self.name} were released, expected to be restored first")
        if self._graph is None:
            self._graph = self._capture()
        return self._graph
