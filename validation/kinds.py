"""Kinds of data: what an operation's cases are made of, and the recipes of each kind under one roof."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Protocol

from strata.executors.base import StrataError
from strata.kernels.paths import EXPERTS, Path
from validation import recipes
from validation.experts import around_recipes
from validation.experts import recipes as expert_recipes

#: Kinds whose cases are `experts.case.ExpertCase`.
ROUTED = ("expert", "router", "combine")


class AnyRecipe(Protocol):
    """What a recipe of every kind has. operation: the kind of its data; edition: of the plans, its first; far: whether
    lanes are asked the checks of `validation.magnitude` besides."""

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
    """The kind of data of a path's operation: `prompt_attention`, `kv_pack`, `expert`, `router` or `combine`."""
    if path.operation in EXPERTS:
        return "expert"
    return "prompt_attention" if path.operation == "decode_attention" else path.operation


def find(name: str) -> AnyRecipe:
    """The recipe of a name. Raises StrataError naming the nearest one."""
    known = recipes_of_all()
    if name in known:
        return known[name]
    if ":" in name:  # parts of expert recipes put together
        return expert_recipes.find(name)
    near = get_close_matches(name, known, n=1, cutoff=0.0)[0]
    raise StrataError(f"no recipe is called {name!r}; the nearest is {near!r} (see `python -m validation recipes`)")


def of_kind(kind: str) -> list[AnyRecipe]:
    """The recipes of a kind, in table order."""
    return [recipe for recipe in recipes_of_all().values() if recipe.operation == kind]
