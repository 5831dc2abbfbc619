"""The table of recipes: names, motivations, and what the issue asks to be covered."""

from __future__ import annotations

import pytest

from strata.executors.base import StrataError
from validation.operations.kv_pack.recipes import RECIPES, Aim, Kind, Pages, Sign, Widths, find, of_operation


def test_every_recipe_says_why_in_one_sentence() -> None:
    for name, recipe in RECIPES.items():
        assert recipe.name == name
        assert recipe.motivation.endswith(".")
        assert "\n" not in recipe.motivation
        assert recipe.operation in ("prompt_attention", "kv_pack")


def test_the_recipes_cover_every_way_of_drawing() -> None:
    attention = of_operation("prompt_attention")
    used = {plane.kind for recipe in attention for plane in (recipe.k, recipe.v)}
    assert used == set(Kind)
    assert {plane.sign for recipe in attention for plane in (recipe.k, recipe.v)} == set(Sign)
    assert {recipe.pages for recipe in attention} == set(Pages)
    assert {recipe.widths for recipe in attention} == set(Widths)
    assert {recipe.q.aim for recipe in attention} == set(Aim)


def test_an_unknown_recipe_names_the_nearest() -> None:
    assert find("flat").name == "flat"
    with pytest.raises(StrataError, match="'signed_decade'; the nearest is 'signed_decades'"):
        find("signed_decade")
