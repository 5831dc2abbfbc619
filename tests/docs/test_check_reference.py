"""docs/check_reference.md has every object with its parameters, every recipe and every verdict, and nothing else."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import validation.check as check
from validation.check.recipes import RECIPES
from validation.core.verdict import Verdict

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "check_reference.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    part = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| `")]


def test_every_object_has_its_parameters() -> None:
    said = {name.strip("`"): re.findall(r"`(\w+)`", parameters) for name, parameters, _ in rows("Objects")}
    objects = {name: getattr(check, name) for name in check.__all__ if name != "Stream"}
    assert said == {name: [field.name for field in dataclasses.fields(one)] for name, one in objects.items()}


def test_every_recipe_is_there_with_what_it_finds() -> None:
    assert rows("Recipes") == [[f"`{recipe.name}`", recipe.motivation] for recipe in RECIPES.values()]


def test_every_verdict_is_explained() -> None:
    assert [name for name, _ in rows("Verdicts")] == [f"`{verdict.value}`" for verdict in Verdict]


def test_the_checks_that_a_report_names_are_explained() -> None:
    said = {name for cells in rows("Checks") for name in re.findall(r"`([\w ]+)`", cells[0])}
    folder = Path(check.__file__).parent
    source = "".join(file.read_text() for file in folder.glob("*.py"))
    for name in said:
        assert f'"{name}"' in source or f'}}{name}"' in source or f'"{name}' in source, name
