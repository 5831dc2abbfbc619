"""The operations that there are: every folder beside this file whose module `operation` has some.

Nobody lists them: a folder that is put here is found. What asks for an operation by the name in a path gets it or an
error, never another's answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from strata.executors.base import StrataError
from strata.kernels.paths import Path
from validation import operations
from validation.core.case import AnyCase, CaseError
from validation.core.conventional import Conventional
from validation.core.operation import Operation, Recipe
from validation.core.recipe import unknown_recipe
from validation.core.recordable import Recordable
from validation.core.unknown_operation import UnknownOperationError


@cache
def found() -> Mapping[str, Operation]:
    """Every operation by name, in the order of lists and plans."""
    made: list[Operation] = []
    for module in iter_modules(operations.__path__):
        if module.ispkg:
            own = import_module(f"{operations.__name__}.{module.name}.operation")
            made += own.OPERATIONS
    return {one.name: one for one in sorted(made, key=lambda one: one.rank)}


def of(path: Path) -> Operation:
    """The operation of a path. Raises UnknownOperationError where there is none."""
    if path.operation not in found():
        raise UnknownOperationError(path, "operation", found())
    return found()[path.operation]


def kinds() -> list[Operation]:
    """One operation for each kind of data, in the order of lists and plans."""
    first: dict[str, Operation] = {}
    for one in found().values():
        first.setdefault(one.data, one)
    return list(first.values())


@cache
def recipes_of_all() -> Mapping[str, Recipe]:
    """Every recipe by name, in table order."""
    return {recipe.name: recipe for operation in kinds() for recipe in operation.recipes()}


def of_path(path: Path) -> str:
    """The kind of data of a path's operation. Raises UnknownOperationError for an operation that does not exist."""
    return of(path).data


def conventional(path: Path) -> Conventional:
    """What checks in common use ask of a path. Raises UnknownOperationError for an operation that has none."""
    checks = of(path).conventional
    if checks is None:
        raise UnknownOperationError(path, "check in common use", [n for n, one in found().items() if one.conventional])
    return checks


def recorded() -> list[str]:
    """The operations that records are of, in the order of lists and plans."""
    return [name for name, operation in found().items() if operation.record is not None]


def recordable(name: str) -> Recordable:
    """What a record and its verifier ask of an operation. Raises StrataError where records are of no such one."""
    record = found()[name].record if name in found() else None
    if record is None:
        raise StrataError(f"records are not of {name!r}, expected {' or '.join(recorded())}")
    return record


def find(name: str) -> Recipe:
    """The recipe of a name. Raises StrataError for a name that none has."""
    known = recipes_of_all()
    if name in known:
        return known[name]
    for operation in kinds():
        recipe = operation.composed(name)
        if recipe is not None:
            return recipe
    raise unknown_recipe(name, known)


def of_case(case: AnyCase) -> Operation:
    """The first operation that takes a case's data. Raises StrataError for a recipe that does not exist."""
    return _taking(find(case.recipe).operation)


def _taking(data: str) -> Operation:
    return next(one for one in kinds() if one.data == data)


def of_kind(kind: str) -> list[Recipe]:
    """The recipes of a kind, in table order."""
    return [recipe for recipe in recipes_of_all().values() if recipe.operation == kind]


def parse(text: str) -> AnyCase:
    """The case of a text form, by the operation of its recipe. Raises CaseError for a text without a recipe, and
    StrataError for a recipe that does not exist."""
    said = [word.removeprefix("recipe=") for word in text.split() if word.startswith("recipe=")]
    if not said or not said[0]:
        raise CaseError("case: recipe is missing, expected e.g. recipe=uniform seed=1 context=64 queries=8")
    return _taking(find(said[0]).operation).parse(text)
