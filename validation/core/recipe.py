"""A recipe as most operations have it: a name, a reason, and since when it is planned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from strata.arguments import shown
from strata.executors.base import StrataError
from strata.nearest import hint


@dataclass(frozen=True)
class NamedRecipe:
    """One way of making data.

    Parameters
    ----------
    name, motivation
        What it is called, and what it shows.
    operation
        The kind of its data.
    edition
        Of the plans, its first.
    far
        Whether lanes are asked the checks of far addresses besides.
    """

    name: str
    motivation: str
    operation: str
    edition: int = 1
    far: bool = False

    @property
    def ladder(self) -> bool:
        """Whether each row has a size of its own, so that it takes many of them."""
        return self.name.endswith("_ladder")


def unknown_recipe(name: str, known: Iterable[str]) -> StrataError:
    """Of a name that no recipe has; it names the nearest one, if one is near, and the command that lists all."""
    said = hint(name, known, "see `python -m validation recipes`")
    return StrataError(f"no recipe is called {shown(name)}; {said}")
