"""What run `index` of a soak is: a small case on a path, drawn from the seed and the index alone."""

from __future__ import annotations

from strata.kernels.paths import PATHS, Path
from strata.kernels.pool import GROUPS
from validation import kinds
from validation.cases import Case
from validation.draws import Stream
from validation.profiles import LAWS
from validation.recipes import Recipe, Widths, of_operation
from validation.runner import Job
from validation.selection import TOP

#: Cells: past three chunks and the absent ones. Queries: enough for neighbours.
CONTEXTS = (40, 211)
QUERIES = 4
#: `width_edges` gives query i the i-th edge width; the first eight go past one chunk of 32.
EDGE_QUERIES = 8
PAGE_SIZES = (1, 3, 4, 16, 64, 100, 512)
KV_HEADS = (1, 2, 3)
#: Larger pages hold a law case in too few of them for its table of gaps.
LAW_PAGES = 4
#: One run in so many is in the checked build. Prime to the length of the cycle of paths, so that each path comes.
CHECKED_EVERY = 47
#: The group of checked runs: the one that the quick profile compiles.
CHECKED_GROUP = 12
#: Orders of lanes and blocks that runs take in turn; the repeat of a run has the next one.
SCHEDULES = 4


def _cycle() -> list[Path]:
    """The paths in turn: the attention paths with a baseline twice, their baselines and kv_pack once. Expert paths are
    not soaked: every bit of theirs is predicted in every run, so that a false alarm would be a wrong model."""
    paths = sorted(
        (path for path in PATHS.values() if kinds.of_path(path) not in kinds.ROUTED), key=lambda path: path.name
    )
    return [path for path in paths for _ in range(2 if path.baseline else 1)]


CYCLE = tuple(_cycle())


def recipes(path: Path) -> list[Recipe]:
    """The synthetic recipes of a path's operation."""
    operation = "kv_pack" if path.operation == "kv_pack" else "prompt_attention"
    return [recipe for recipe in of_operation(operation) if recipe.name != "captured"]


def job(seed: int, index: int) -> Job:
    """Run `index` of a seed. Every path meets every recipe within as many cycles as there are recipes."""
    turn, slot = divmod(index, len(CYCLE))
    path = CYCLE[slot]
    known = recipes(path)
    recipe = known[(turn + slot) % len(known)]
    draw = Stream.of(seed, "soak", index).words(8).tolist()
    checked = index % CHECKED_EVERY == CHECKED_EVERY - 1
    context = CONTEXTS[0] + draw[1] % (CONTEXTS[1] - CONTEXTS[0] + 1)
    page, heads = PAGE_SIZES[draw[2] % len(PAGE_SIZES)], KV_HEADS[draw[3] % len(KV_HEADS)]
    schedule = index % SCHEDULES or None
    if path.operation == "kv_pack":
        case = Case(recipe.name, draw[0], context, 0, page, heads, group=1)
    else:
        queries = EDGE_QUERIES if recipe.widths is Widths.EDGES else 1 + draw[4] % QUERIES
        group = CHECKED_GROUP if checked else GROUPS[draw[5] % len(GROUPS)]
        top = 1 + draw[7] % context if draw[6] % 3 == 0 else TOP
        if recipe.laws:  # each law applies at the sizes that the profiles plan, and a case where one does not is void
            context, queries = LAWS
            page, top = min(page, LAW_PAGES), TOP
        case = Case(recipe.name, draw[0], context, queries, page, heads, group, top)
    return Job(case, path, "checked" if checked else "fast", schedule)
