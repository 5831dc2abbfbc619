"""What only decoding needs, who depends on whom, and the order in which it is released and restored.

The reference order: head H and draft experts X stand by themselves; draft head D is a part of H's rows; verifier V
holds H's address in its window graphs; the draft graphs G hold addresses of X, D and V.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from strata.executors.base import StrataError

#: Names of the reference model's resources, with what each depends on.
DEPENDENCIES = {"H": (), "X": (), "D": ("H",), "V": ("H",), "G": ("X", "D", "V")}


def closure(names: Iterable[str], needs: Mapping[str, Sequence[str]]) -> set[str]:
    """Some resources and everything that cannot stay without them.

    Parameters
    ----------
    names
        The resources.
    needs
        What each depends on.
    """
    gone = set(names)
    while more := {name for name, on in needs.items() if name not in gone and gone & set(on)}:
        gone |= more
    return gone


class Resource(Protocol):
    """One thing in device memory.

    Attributes
    ----------
    name
        Unique.
    needs
        Names of others that must be there while it is.
    nbytes
        Bytes that it takes.
    present
        Whether it is there, whole and with its own bytes.
    """

    name: str
    needs: tuple[str, ...]
    nbytes: int

    @property
    def present(self) -> bool: ...

    def release(self) -> None:
        """Give its memory back. Raises StrataError with it present as before, Fatal when that is unknown."""
        ...

    def restore(self) -> None:
        """Take memory, load and verify. Raises StrataError with it absent, Fatal when that is unknown."""
        ...


class ResourceGraph:
    """Resources in an order in which each comes after what it needs.

    Parameters
    ----------
    resources
        In any order.

    Raises
    ------
    StrataError
        For a name that occurs twice, an unknown need, or a circle.
    """

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._by_name = {resource.name: resource for resource in resources}
        if len(self._by_name) != len(resources):
            raise StrataError(f"resources {[resource.name for resource in resources]}: expected different names")
        self._order: list[Resource] = []
        visiting: set[str] = set()

        def visit(resource: Resource) -> None:
            if resource in self._order:
                return
            if resource.name in visiting:
                raise StrataError(f"resource {resource.name} depends on itself")
            visiting.add(resource.name)
            for need in resource.needs:
                if need not in self._by_name:
                    raise StrataError(f"resource {resource.name} needs {need!r}, expected one of {list(self._by_name)}")
                visit(self._by_name[need])
            self._order.append(resource)

        for resource in resources:
            visit(resource)

    @property
    def order(self) -> tuple[Resource, ...]:
        """Restore order; released in reverse."""
        return tuple(self._order)

    def __getitem__(self, name: str) -> Resource:
        return self._by_name[name]

    def with_dependents(self, names: Iterable[str]) -> list[Resource]:
        """The named resources and everything that cannot stay without them, in restore order.

        Raises StrataError for an unknown name.
        """
        unknown = sorted(set(names) - set(self._by_name))
        if unknown:
            raise StrataError(f"resources {unknown}: expected some of {list(self._by_name)}")
        gone = closure(names, {resource.name: resource.needs for resource in self._order})
        return [resource for resource in self._order if resource.name in gone]

    def release(self, names: Iterable[str]) -> list[str]:
        """Release them and their dependents, dependents first; what is absent is passed over. Returns the names.

        Raises StrataError when one refuses; it is then present, those before it are absent.
        """
        released = []
        for resource in reversed(self.with_dependents(names)):
            if resource.present:
                resource.release()
                released.append(resource.name)
        return released

    def restore(self) -> list[str]:
        """Restore everything that is absent, what others need first. Returns the names.

        Raises StrataError when one refuses; those restored before it are present.
        """
        restored = []
        for resource in self._order:
            if not resource.present:
                resource.restore()
                restored.append(resource.name)
        return restored

    def violations(self) -> list[str]:
        """A line for every resource that is there without one that it needs."""
        return [
            f"{resource.name} is there without {need}"
            for resource in self._order
            if resource.present
            for need in resource.needs
            if not self._by_name[need].present
        ]

    @property
    def absent(self) -> list[str]:
        """Names of those that are not there, in restore order."""
        return [resource.name for resource in self._order if not resource.present]

    def nbytes(self, names: Iterable[str]) -> int:
        """Bytes of the named resources and their dependents."""
        return sum(resource.nbytes for resource in self.with_dependents(names))
