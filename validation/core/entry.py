"""One case of a profile, as an operation plans it."""

from __future__ import annotations

from typing import NamedTuple

from validation.core.case import AnyCase


class Planned(NamedTuple):
    """One case of a profile.

    Parameters
    ----------
    case
        What is run.
    modes, operations
        Those that it is run in; None for all that take it.
    flavor
        The build on lanes; None by its size.
    edition
        Of the plans, from which on it is one, or the later one of its recipe.
    """

    case: AnyCase
    modes: tuple[str, ...] | None = None
    flavor: str | None = None
    operations: tuple[str, ...] | None = None
    edition: int = 1
