"""Which cases a run plans: the lists of the profiles, and the sizes asked for by --context and --queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from strata.executors.base import StrataError
from strata.kernels import kv_pack
from strata.kernels.decode_attention import BATCH
from strata.kernels.paths import Path
from strata.kernels.pool import MODE_FORMATS
from validation.core import editions
from validation.operations import registry
from validation.operations.attention.case import Case
from validation.operations.attention.pools import BEYOND_WIDTHS, EDGE_WIDTHS
from validation.operations.attention.recipes import of_operation
from validation.operations.experts import plan as expert_plan
from validation.operations.experts import required as expert_required
from validation.operations.experts.case import AnyCase, ExpertCase
from validation.run.runner import Job

PROFILES = ("quick", "standard", "full")
#: The seed of all cases unless another is asked for; the one whose figures the ledger keeps.
SEED = 1
#: The recipe of sizes given on the command line.
SIZED_RECIPE = "signed_decades"
#: Sizes of the published parity program: (context, queries), the edge of the identity selection last.
PUBLISHED = ((32768, 2048), (1500, 1500), (2100, 256))
#: Sizes of SIZED_RECIPE that a record must hold for each of its paths: (context, queries). The first selects among
#: more cells than a query may take, the second is ragged in tiles, chunks and pages.
REQUIRED = ((4096, 512), (1500, 512))
PAGE_SIZES = (1, 4, 16, 64)
#: Cells and queries of a quick case: past the second tile and the absent chunks; ragged in every page size.
_SMALL = (211, 3)
_WIDE = (2301, 23)
#: Past two chunks of each path, ragged: the law recipe runs a path nine times more and is planned at this size alone.
LAWS = (143, 3)
#: Cells and queries of a case of far addresses.
FAR = (97, 2)
#: Queries that the baseline takes as two batches, the second one not full.
_BATCHES = BATCH + 3
#: Page size and KV heads of a pool whose cells lie past row 65,536: row numbers need more than 16 bits.
_LARGE_POOL = (4096, 16)
#: Queries of a captured case, the last positions of the capture.
_CAPTURED_QUERIES = {"quick": 48, "standard": 256, "full": 1 << 20}


@dataclass(frozen=True)
class Entry:
    """A case of a profile. modes, operations: those it is run in, None for all that take it; flavor: build on lanes,
    None by size; edition: of the plans, from which on it is one, or the later one of its recipe."""

    case: AnyCase
    modes: tuple[str, ...] | None = None
    flavor: str | None = None
    operations: tuple[str, ...] | None = None
    edition: int = 1

    @property
    def since(self) -> int:
        """The first edition that plans it."""
        return max(self.edition, registry.find(self.case.recipe).edition)

    def takes(self, path: Path) -> bool:
        """Whether the case is one of a path's."""
        chosen = self.operations is None or path.operation in self.operations
        return chosen and (self.modes is None or path.mode in self.modes) and fits(self.case, path)


def _small(recipe: str, seed: int, page_size: int, queries: int = _SMALL[1]) -> Case:
    return Case(recipe, seed, _SMALL[0], queries, page_size)


def _beyond(seed: int, cells: int, queries: int) -> Case:
    """A case of widths up to so many cells, on one KV head."""
    return Case("width_beyond", seed, cells, queries, 16, 1, top=cells)


def _attention_names() -> list[str]:
    """Synthetic attention recipes that are run at any size."""
    return [r.name for r in of_operation("prompt_attention") if r.any_size]


def _law_cases(seed: int) -> list[Case]:
    return [Case(r.name, seed, *LAWS, 4) for r in of_operation("prompt_attention") if r.laws]


def quick(seed: int) -> list[Entry]:
    """Every recipe at small sizes in every mode, each page size and group, sparse selections, the real width.

    Other groups and the fast build of lanes take another compilation each, so they stand for one mode.
    """
    names = [name for name in _attention_names() if name != "width_edges"]
    cases = [_small(name, seed, PAGE_SIZES[index % len(PAGE_SIZES)]) for index, name in enumerate(names)]
    cases.append(_small("width_edges", seed, 16, _BATCHES))
    cases.append(replace(_small("signed_decades", seed, 4), top=101))
    cases += _law_cases(seed)
    wide = Case("signed_decades", seed, 4096, 3, 4)
    edges = Case("width_edges", seed, max(EDGE_WIDTHS), len(EDGE_WIDTHS), 16)  # up to the widest row, tile by tile
    return [
        *(Entry(case, flavor="checked") for case in [*cases, wide]),
        Entry(replace(_small("signed_decades", seed, 64), n_head_kv=1, group=4), ("q4_0",)),
        Entry(replace(_small("signed_decades", seed, 1), n_head_kv=3, group=8), ("int8",)),
        Entry(wide, ("q4_0",)),
        Entry(edges, flavor="fast"),
        Entry(replace(_small("signed_decades", seed, _LARGE_POOL[0], 1), n_head_kv=_LARGE_POOL[1]), ("q4_0",)),
        Entry(_beyond(seed, BEYOND_WIDTHS[0], 1), flavor="fast", operations=("prompt_attention",)),
        Entry(_beyond(seed, BEYOND_WIDTHS[-1], len(BEYOND_WIDTHS)), ("q4_0",), "fast", ("prompt_attention",)),
        Entry(Case("far", seed, *FAR), flavor="checked"),
    ]


def standard(seed: int) -> list[Entry]:
    """The quick cases in every mode, and every recipe past the widest selection."""
    context, queries = _WIDE
    cases = []
    for index, name in enumerate(_attention_names()):
        rows = len(EDGE_WIDTHS) if name == "width_edges" else queries
        cases.append(Case(name, seed + 1, context, rows, PAGE_SIZES[(index + 1) % len(PAGE_SIZES)]))
    cases += [Case("signed_decades", seed + 1, context, 8, group=group, n_head_kv=2) for group in (4, 8)]
    return [replace(entry, modes=None) for entry in quick(seed)] + [Entry(case) for case in cases]


def full(seed: int) -> list[Entry]:
    """The standard cases, every recipe in every page size, and the published sizes."""
    cases = [
        Case(name, seed + 2 + offset, 3000, 64, page_size)
        for offset, page_size in enumerate(PAGE_SIZES)
        for name in _attention_names()
    ]
    cases += [Case(SIZED_RECIPE, seed, context, queries) for context, queries in PUBLISHED]
    return standard(seed) + [Entry(case) for case in cases]


LISTS: Mapping[str, Callable[[int], list[Entry]]] = {"quick": quick, "standard": standard, "full": full}


def required(seed: int) -> list[Entry]:
    """The cases that a record must hold whatever its profile, of every operation that records are of."""
    attention = [Entry(Case(SIZED_RECIPE, seed, context, queries)) for context, queries in REQUIRED]
    return attention + [Entry(case) for case in expert_required.cases(seed)]


def pack_entries(seed: int, profile: str) -> list[Entry]:
    """Cases of kv_pack: every recipe in every page size, longer ones outside the quick profile."""
    cells = 259 if profile == "quick" else 1031
    names = [recipe.name for recipe in of_operation("kv_pack") if not recipe.far]
    cases = [Case(name, seed, cells, 0, page_size, group=1) for name in names for page_size in PAGE_SIZES]
    page_size, heads = _LARGE_POOL
    large = Case("pack_bell", seed, 67, 0, page_size, heads, group=1)
    rows = kv_pack.THREADS // 32  # of a block
    sizes = ((FAR[0], PAGE_SIZES[0], 2), (rows, PAGE_SIZES[-1], 1), (rows + 1, PAGE_SIZES[1], 1))
    far = [Case("pack_far", seed, context, 0, page, heads, group=1) for context, page, heads in sizes]
    return [*(Entry(case) for case in cases), Entry(large, ("q4_0",)), *(Entry(case) for case in far)]


def entries(seed: int, profile: str, paths: Sequence[Path], edition: int = editions.NEWEST) -> list[Entry]:
    """The cases that an edition of a profile has for some paths, by the kinds of data that they take.

    Those of an earlier edition come first, in the order that they had in it. Raises StrataError for an unknown one.
    """
    newest = editions.find(edition).number
    found = {registry.of_path(path) for path in paths}
    planned: list[Entry] = []
    if "prompt_attention" in found:
        planned += LISTS[profile](seed)
    if "kv_pack" in found:
        planned += pack_entries(seed, profile)
    for kind in registry.ROUTED:
        if kind in found:
            planned += [Entry(*one) for one in expert_plan.LISTS[kind](seed, profile)]
    return sorted((one for one in planned if one.since <= newest), key=lambda one: one.since)


def captured(seed: int, layers: Sequence[int], tokens: int, heads: tuple[int, int], profile: str) -> list[Entry]:
    """Cases of every captured layer over all its tokens, packed by our kernel and by the `gguf` package.

    heads: KV heads and query heads of each.
    """
    queries = min(_CAPTURED_QUERIES[profile], tokens)
    return [
        Entry(Case("captured", seed, tokens, queries, 4, *heads, options=(("layer", str(layer)), ("packer", packer))))
        for layer in layers
        for packer in ("kernel", "gguf")
    ]


def fits(case: AnyCase, path: Path) -> bool:
    """Whether a case says something about a path: data of its kind, and a packer that has its formats."""
    if registry.of_path(path) != registry.find(case.recipe).operation:
        return False
    if isinstance(case, ExpertCase):
        return True
    return case.option("packer", "") != "gguf" or "q4_0" in MODE_FORMATS[path.mode]


def plan(paths: Sequence[Path], entries: Sequence[Entry], lanes: bool) -> list[Job]:
    """Jobs of every entry on every path of its operation, tiers of a mode next to one another.

    On lanes small cases run in the checked build, and every second case under a permuted schedule.
    """
    jobs = []
    for index, entry in enumerate(entries):
        small = isinstance(entry.case, Case) and entry.case.context <= _SMALL[0]
        flavor = entry.flavor or ("checked" if small else "fast")
        for path in sorted(paths, key=lambda path: (path.operation, path.mode)):
            if entry.takes(path):
                jobs.append(Job(entry.case, path, flavor, index if lanes and index % 2 else None))
    if not jobs:
        raise StrataError(
            "no planned case fits the selected paths, expected recipes of their operation and a profile that plans"
            " those for them: a larger one, or other formats"
        )
    return jobs


def record_plan(
    paths: Sequence[Path], profile: str, seed: int, lanes: bool = False, edition: int = editions.NEWEST
) -> list[Job]:
    """The jobs of a record: those of its profile and the required sizes, each case once on a path.

    A profile may plan a case twice on lanes, in two builds; the first stands for both. Which cases there are, and
    their order, does not depend on `lanes`.
    """
    found: dict[tuple[str, str], Job] = {}
    for job in plan(paths, entries(seed, profile, paths, edition) + required(seed), lanes):
        found.setdefault((job.path.name, job.case.text()), job)
    return list(found.values())


def with_recipe(entries: Sequence[Entry], name: str) -> list[Entry]:
    """The entries of one recipe; where a profile has none, its first case made with that recipe."""
    recipe = registry.find(name)
    own = [entry for entry in entries if entry.case.recipe == name]
    alike = [entry for entry in entries if registry.find(entry.case.recipe).operation == recipe.operation]
    return own or [replace(entry, case=replace(entry.case, recipe=name)) for entry in alike[:1]]
