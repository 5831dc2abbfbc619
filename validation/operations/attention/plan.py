"""Which cases of attention the profiles have, and those that a record must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from strata.kernels.decode_attention import BATCH
from strata.kernels.prompt_attention import DESCRIPTOR
from validation.core.entry import Planned
from validation.operations.attention.pools import BEYOND_WIDTHS, EDGE_WIDTHS
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.plan import FAR_CELLS, LARGE_POOL, PAGE_SIZES, SMALL_CELLS
from validation.operations.kv_pack.recipes import of_operation

#: Cases that a record must hold for each path of prompt attention: (context, queries).
(_REQUIRED,) = DESCRIPTOR.required
REQUIRED = _REQUIRED.sizes
#: The recipe of sizes given on the command line.
SIZED_RECIPE = _REQUIRED.recipe
#: Sizes of the published parity program: (context, queries), the edge of the identity selection last.
PUBLISHED = ((32768, 2048), (1500, 1500), (2100, 256))
#: Cells and queries of a quick case.
_SMALL = (SMALL_CELLS, 3)
_WIDE = (2301, 23)
#: Past two chunks of each path, ragged: the law recipe runs a path nine times more and is planned at this size alone.
RELATED = (143, 3)
#: The recipe whose ids block selection chooses; cells, queries, page size, KV heads, group and top of its cases: of few
#: blocks with a cut inside one, of the usual width, and of many queries. None is a multiple of a block.
SELECTED = "selected"
_SELECTED = ((301, 5, 4, 2, 12, 101), (2303, 17, 16, 2, 12), (16_382, 64, 64, 2, 12))
#: Queries that the baseline takes as two batches, the second one not full.
_BATCHES = BATCH + 3


#: Queries of a captured case, the last positions of the capture.
_CAPTURED_QUERIES = {"quick": 48, "standard": 256, "full": 1 << 20}


def _small(recipe: str, seed: int, page_size: int, queries: int = _SMALL[1]) -> Case:
    return Case(recipe, seed, _SMALL[0], queries, page_size)


def _beyond(seed: int, cells: int, queries: int) -> Case:
    """A case of widths up to so many cells, on one KV head."""
    return Case("width_beyond", seed, cells, queries, 16, 1, top=cells)


def _attention_names() -> list[str]:
    """Synthetic attention recipes that are run at any size."""
    return [r.name for r in of_operation("prompt_attention") if r.any_size]


def _law_cases(seed: int) -> list[Case]:
    return [Case(r.name, seed, *RELATED, 4) for r in of_operation("prompt_attention") if r.relations]


def quick(seed: int) -> list[Planned]:
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
        *(Planned(case, flavor="checked") for case in [*cases, wide]),
        Planned(replace(_small("signed_decades", seed, 64), n_head_kv=1, group=4), ("q4_0",)),
        Planned(replace(_small("signed_decades", seed, 1), n_head_kv=3, group=8), ("int8",)),
        Planned(wide, ("q4_0",)),
        Planned(edges, flavor="fast"),
        Planned(replace(_small("signed_decades", seed, LARGE_POOL[0], 1), n_head_kv=LARGE_POOL[1]), ("q4_0",)),
        Planned(_beyond(seed, BEYOND_WIDTHS[0], 1), flavor="fast", operations=("prompt_attention",)),
        Planned(_beyond(seed, BEYOND_WIDTHS[-1], len(BEYOND_WIDTHS)), ("q4_0",), "fast", ("prompt_attention",)),
        Planned(Case("far", seed, FAR_CELLS, 2), flavor="checked"),
        Planned(Case(SELECTED, seed, *_SELECTED[0]), flavor="checked"),
    ]


def standard(seed: int) -> list[Planned]:
    """The quick cases in every mode, and every recipe past the widest selection."""
    context, queries = _WIDE
    cases = []
    for index, name in enumerate(_attention_names()):
        rows = len(EDGE_WIDTHS) if name == "width_edges" else queries
        cases.append(Case(name, seed + 1, context, rows, PAGE_SIZES[(index + 1) % len(PAGE_SIZES)]))
    cases += [Case("signed_decades", seed + 1, context, 8, group=group, n_head_kv=2) for group in (4, 8)]
    cases += [Case(SELECTED, seed + 1, *size) for size in _SELECTED[1:]]
    return [entry._replace(modes=None) for entry in quick(seed)] + [Planned(case) for case in cases]


def full(seed: int) -> list[Planned]:
    """The standard cases, every recipe in every page size, and the published sizes."""
    cases = [
        Case(name, seed + 2 + offset, 3000, 64, page_size)
        for offset, page_size in enumerate(PAGE_SIZES)
        for name in _attention_names()
    ]
    cases += [Case(SIZED_RECIPE, seed, context, queries) for context, queries in PUBLISHED]
    return standard(seed) + [Planned(case) for case in cases]


LISTS: Mapping[str, Callable[[int], list[Planned]]] = {"quick": quick, "standard": standard, "full": full}


def planned(seed: int, profile: str) -> list[Planned]:
    """The cases of a profile."""
    return LISTS[profile](seed)


def required(seed: int) -> list[Planned]:
    """The cases that a record must hold whatever its profile."""
    return [Planned(Case(SIZED_RECIPE, seed, context, queries)) for context, queries in REQUIRED]


def captured(seed: int, layers: Sequence[int], tokens: int, heads: tuple[int, int], profile: str) -> list[Planned]:
    """Cases of every captured layer over all its tokens, packed by our kernel and by the `gguf` package.

    heads: KV heads and query heads of each.
    """
    queries = min(_CAPTURED_QUERIES[profile], tokens)
    return [
        Planned(Case("captured", seed, tokens, queries, 4, *heads, options=(("layer", str(layer)), ("packer", packer))))
        for layer in layers
        for packer in ("kernel", "gguf")
    ]
