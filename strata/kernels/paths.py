"""The table of paths: every operation, mode and tier that exists, made of what the operations say of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from strata.arguments import shown
from strata.executors.base import StrataError
from strata.kernels.descriptor import Descriptor
from strata.kernels.path import Path
from strata.kernels.registry import DESCRIPTORS
from strata.nearest import hint

__all__ = ["PATHS", "Path", "select", "table"]


def table(descriptors: Mapping[str, Descriptor] = DESCRIPTORS) -> dict[str, Path]:
    """The paths of some operations by name.

    Operations of the same modes stand together, mode by mode, and after each path those that replace it.

    Raises
    ------
    StrataError
        For a path whose baseline is no path of the table, and for two that replace each other.
    """
    rows: dict[str, Path] = {}
    for modes in dict.fromkeys(one.modes for one in descriptors.values()):
        alike = [one for one in descriptors.values() if one.modes == modes]
        for mode in modes:
            made = [one.path(mode, tier, _replaced(one, descriptors)) for one in alike for tier in one.tiers]
            own = {path.name for path in made}
            for first in made:
                if first.baseline not in own:
                    rows |= {path.name: path for path in _with_replacing(first, made)}
            lost = sorted(own - rows.keys())
            if lost:
                raise StrataError(f"{lost[0]} replaces a path that replaces it, expected one that stands before it")
    for path in rows.values():
        if path.baseline is not None and path.baseline not in rows:
            raise StrataError(f"{path.name} replaces {path.baseline}, expected a path of the table")
    return rows


def _replaced(one: Descriptor, descriptors: Mapping[str, Descriptor]) -> Descriptor | None:
    if one.replaces is None:
        return None
    if one.replaces not in descriptors:
        raise StrataError(f"{one.name} replaces {one.replaces!r}, expected one of {', '.join(descriptors)}")
    return descriptors[one.replaces]


def _with_replacing(base: Path, made: Sequence[Path]) -> Iterator[Path]:
    """A path, and those that replace it."""
    yield base
    for path in made:
        if path.baseline == base.name:
            yield from _with_replacing(path, made)


PATHS: dict[str, Path] = table()


def select(pattern: str) -> list[Path]:
    """Paths whose name matches a shell pattern, in table order.

    Raises
    ------
    ValueError
        When nothing matches; the message names the pattern, and a known name when one is near.
    """
    found = [path for name, path in PATHS.items() if fnmatchcase(name, pattern)]
    if found:
        return found
    said = hint(pattern, PATHS, "see `python -m validation paths`")
    raise ValueError(f"no path matches {shown(pattern)}; {said}")
