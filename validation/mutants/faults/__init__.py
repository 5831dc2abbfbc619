"""The mutants, by what they change. Every module here defines `mutants()`, and all of them are found by themselves."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from validation.mutants.mutant import Mutant, MutantError


def table() -> dict[str, Mutant]:
    """Every mutant by name, in the order of modules and entries. Raises MutantError for a name that occurs twice."""
    found: dict[str, Mutant] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        for mutant in import_module(f"{__name__}.{module.name}").mutants():
            if mutant.name in found:
                raise MutantError(f"mutant {mutant.name}: the name occurs twice")
            found[mutant.name] = mutant
    return found
