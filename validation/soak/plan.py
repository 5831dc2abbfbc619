"""What run `index` of a soak is: a small case on a path, drawn from the seed and the index alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from strata.kernels.paths import Path, select
from strata.kernels.pool import GROUPS
from validation.core.random_streams import Stream
from validation.operations import registry
from validation.operations.attention.case import Case
from validation.operations.attention.recipes import Recipe, Widths
from validation.operations.attention.selection import TOP
from validation.operations.experts import random_cases
from validation.run.plan import LAWS
from validation.run.runner import Job

#: Cells: past three chunks and the absent ones. Queries: enough for neighbours.
CONTEXTS = (40, 211)
QUERIES = 4
#: `width_edges` gives query i the i-th edge width; the first eight go past one chunk of 32.
EDGE_QUERIES = 8
PAGE_SIZES = (1, 3, 4, 16, 64, 100, 512)
KV_HEADS = (1, 2, 3)
#: Larger pages hold a law case in too few of them for its table of gaps.
LAW_PAGES = 4
#: Words that a run is drawn from.
WORDS = 11
#: One run in so many is in the checked build: a prime, so that with cycles of any other length each path comes.
CHECKED_EVERY = 47
#: The group of checked runs: the one that the quick profile compiles.
CHECKED_GROUP = 12
#: Orders of lanes and blocks that runs take in turn; the repeat of a run has the next one.
SCHEDULES = 4


@cache
def cycle(pattern: str = "*") -> tuple[Path, ...]:
    """The paths of a pattern in turn, by name: prompt attention twice, all others once (a case of fused experts asks
    its baseline for every bit too). Raises ValueError for a pattern that no path matches."""
    twice = "prompt_attention"
    paths = sorted(select(pattern), key=lambda path: path.name)
    return tuple(path for path in paths for _ in range(2 if path.operation == twice else 1))


CYCLE = cycle()


def recipes(path: Path) -> list[registry.AnyRecipe]:
    """The synthetic recipes of a path's kind of data."""
    return [recipe for recipe in registry.of_kind(registry.of_path(path)) if recipe.name != "captured"]


def job(seed: int, index: int, paths: Sequence[Path] = CYCLE) -> Job:
    """Run `index` of a seed over a cycle of paths. Every path meets every recipe within as many cycles as there are
    recipes; those of experts within twice as many, for every second run of theirs has a recipe of drawn parts."""
    turn, slot = divmod(index, len(paths))
    path = paths[slot]
    known = recipes(path)
    draw = Stream.of(seed, "soak", index).words(WORDS).tolist()
    if registry.of_path(path) == "expert":
        at, drawn_parts = divmod(turn + slot, 2)
        recipe = random_cases.recipe(draw[-3:]) if drawn_parts else known[at % len(known)]
    else:
        recipe = known[(turn + slot) % len(known)]
    checked = index % CHECKED_EVERY == CHECKED_EVERY - 1
    flavor, schedule = "checked" if checked else "fast", index % SCHEDULES or None
    if not isinstance(recipe, Recipe):
        return Job(random_cases.case(recipe.name, recipe.operation, draw[0], draw[1:]), path, flavor, schedule)
    return Job(_pool_case(path, recipe, draw, checked), path, flavor, schedule)


def _pool_case(path: Path, recipe: Recipe, draw: Sequence[int], checked: bool) -> Case:
    """A case of attention or packing."""
    context = CONTEXTS[0] + draw[1] % (CONTEXTS[1] - CONTEXTS[0] + 1)
    page, heads = PAGE_SIZES[draw[2] % len(PAGE_SIZES)], KV_HEADS[draw[3] % len(KV_HEADS)]
    if path.operation == "kv_pack":
        return Case(recipe.name, draw[0], context, 0, page, heads, group=1)
    queries = EDGE_QUERIES if recipe.widths is Widths.EDGES else 1 + draw[4] % QUERIES
    group = CHECKED_GROUP if checked else GROUPS[draw[5] % len(GROUPS)]
    top = 1 + draw[7] % context if draw[6] % 3 == 0 else TOP
    if recipe.laws:  # each law applies at the sizes that the profiles plan, and a case where one does not is void
        context, queries = LAWS
        page, top = min(page, LAW_PAGES), TOP
    return Case(recipe.name, draw[0], context, queries, page, heads, group, top)
