"""Kinds of data: what an operation's cases are made of, and the recipes of each kind under one roof."""

from __future__ import annotations

from typing import Protocol

from strata.kernels.paths import AROUND, EXPERTS, Path
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.attention import recipes
from validation.operations.experts import recipes as expert_recipes
from validation.operations.router import recipes as around_recipes

#: Kinds whose cases are `experts.case.ExpertCase`.
ROUTED = ("expert", "router", "combine")
#: The kind of data that each operation takes.
_KINDS = {
    "prompt_attention": "prompt_attention",
    "decode_attention": "prompt_attention",
    "kv_pack": "kv_pack",
    **dict.fromkeys(EXPERTS, "expert"),
    **{operation: operation for operation in AROUND},
}


class AnyRecipe(Protocol):
    """What a recipe of every kind has. operation: the kind of its data; edition: of the plans, its first; far: whether
    lanes are asked the checks of `validation.run.far` besides."""

    @property
    def name(self) -> str: ...

    @property
    def motivation(self) -> str: ...

    @property
    def operation(self) -> str: ...

    @property
    def edition(self) -> int: ...

    @property
    def far(self) -> bool: ...


def recipes_of_all() -> dict[str, AnyRecipe]:
    """Every recipe by name, in table order."""
    return {**recipes.RECIPES, **expert_recipes.RECIPES, **around_recipes.RECIPES}


def of_path(path: Path) -> str:
    """The kind of data of a path's operation: `prompt_attention`, `kv_pack`, `expert`, `router` or `combine`.

    Raises UnknownOperationError for an operation of no kind.
    """
    if path.operation not in _KINDS:
        raise UnknownOperationError(path, "kind of data", _KINDS)
    return _KINDS[path.operation]


def find(name: str) -> AnyRecipe:
    """The recipe of a name. Raises StrataError for a name that none has."""
    known = recipes_of_all()
    if name in known:
        return known[name]
    if ":" in name:  # parts of expert recipes put together
        return expert_recipes.find(name)
    raise recipes.unknown(name, known)


def of_kind(kind: str) -> list[AnyRecipe]:
    """The recipes of a kind, in table order."""
    return [recipe for recipe in recipes_of_all().values() if recipe.operation == kind]
