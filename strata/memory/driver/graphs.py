"""Captured graphs and the addresses they hold: a graph whose addresses moved, or hold nothing, is never launched.

On the card such a launch reads foreign bytes in silence, or loses the context.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from strata.executors.base import StrataError
from strata.memory.driver.driver import Graph


class StaleGraph(StrataError):  # noqa: N818 - a state of the graph
    """A graph that must be captured again before it may be launched."""


class Place(Protocol):
    """What a graph's address belongs to.

    Attributes
    ----------
    name
        For messages.
    address
        The address of its first byte.
    present
        Whether its own bytes are there.
    """

    name: str

    @property
    def address(self) -> int: ...

    @property
    def present(self) -> bool: ...


class BoundGraph:
    """A graph with the places whose addresses it was captured with, all of them present at that moment.

    Parameters
    ----------
    name
        For messages.
    graph
        What was captured.
    places
        Whatever the graph has an address of.
    """

    def __init__(self, name: str, graph: Graph, places: Sequence[Place]) -> None:
        self.name = name
        self._graph = graph
        self._places = [(place, place.address) for place in places]
        self._check("captured")

    def launch(self) -> np.ndarray:
        """Launch it. Raises StaleGraph, with nothing launched, when a place moved or is absent."""
        self._check("launched")
        return self._graph.launch()

    def _check(self, what: str) -> None:
        for place, address in self._places:
            if not place.present:
                raise StaleGraph(f"graph {self.name} cannot be {what}: {place.name} is absent")
            if place.address != address:
                raise StaleGraph(
                    f"graph {self.name} cannot be {what}: {place.name} is at {place.address:#x}, "
                    f"it was captured at {address:#x}"
                )
