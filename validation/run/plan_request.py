"""The cases that a command line asks for: a profile, a recipe, a size, one case, or those of a capture."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from strata.executors.base import StrataError
from strata.kernels.paths import Path
from validation.operations import registry
from validation.operations.attention import plan as attention_plan
from validation.operations.kv_pack.case import Case
from validation.operations.registry import parse
from validation.run import plan as profiles
from validation.run.plan import Entry

DEFAULT_QUERIES = 512


def plan_entries(options: argparse.Namespace, paths: Sequence[Path]) -> list[Entry]:
    """The entries that the command line asks for. Raises StrataError for sizes and recipes that cannot be."""
    sized = options.context is not None or options.queries is not None
    if options.case is not None:
        return [Entry(parse(options.case))]
    if options.recipe:
        registry.find(options.recipe)
    if sized:
        if not options.context:
            given = "not given, and --queries is" if options.context is None else f"{options.context}"
            raise StrataError(f"--context is {given}, expected at least 1 cell")
        queries = min(DEFAULT_QUERIES, options.context) if options.queries is None else options.queries
        if not 1 <= queries <= options.context:
            raise StrataError(f"--queries is {queries}, expected 1 to the context of {options.context}")
        return [Entry(Case(options.recipe or attention_plan.SIZED_RECIPE, options.seed, options.context, queries))]
    entries = profiles.entries(options.seed, options.profile, paths)
    if options.capture:
        entries += _captured(options, paths)
    if options.recipe == "captured" and not options.capture:
        raise StrataError("recipe captured needs a capture: name its file by --capture")
    return profiles.with_recipe(entries, options.recipe) if options.recipe else entries


def _captured(options: argparse.Namespace, paths: Sequence[Path]) -> list[Entry]:
    """Cases of the captured values, of every kind of data that the paths take and the capture has."""
    kinds = {registry.of_path(path) for path in paths}
    chosen = [operation for operation in registry.kinds() if operation.data in kinds]
    made = [one for operation in chosen for one in operation.captured(options.capture, options.seed, options.profile)]
    return [Entry(*one) for one in made]
