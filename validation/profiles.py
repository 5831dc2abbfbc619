"""Which cases a run plans: the lists of the profiles, and the sizes asked for by --context and --queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from strata.executors.base import StrataError
from strata.kernels.paths import Path
from validation.cases import Case
from validation.planes import FORMATS
from validation.recipes import find, of_operation
from validation.runner import Job

PROFILES = ("quick", "standard", "full")
#: The recipe of sizes given on the command line.
SIZED_RECIPE = "signed_decades"
#: Sizes of the published parity program: (context, queries), the edge of the identity selection last.
PUBLISHED = ((32768, 2048), (1500, 1500), (2100, 256))
PAGE_SIZES = (1, 4, 16, 64)
#: Random-bit cases of the full profile.
FUZZED = 60
#: Cells and queries of a quick case: past the second tile and the absent chunks; ragged in every page size.
_SMALL = (211, 5)
_WIDE = (2301, 23)
#: Queries of a captured case, the last positions of the capture.
_CAPTURED_QUERIES = {"quick": 48, "standard": 256, "full": 1 << 20}


def _small(recipe: str, seed: int, page_size: int, **fields: int) -> Case:
    context, queries = _SMALL
    return Case(recipe, seed, fields.pop("context", context), fields.pop("queries", queries), page_size, **fields)


def _attention_names(capture: bool) -> list[str]:
    return [
        recipe.name
        for recipe in of_operation("prompt_attention")
        if not recipe.judged_by_bits and (recipe.name != "captured" or capture)
    ]


def quick(seed: int) -> list[Case]:
    """Every recipe at small sizes, each page size and group, a sparse selection and one real width."""
    names = [name for name in _attention_names(False) if name != "width_edges"]
    cases = [_small(name, seed, PAGE_SIZES[index % len(PAGE_SIZES)]) for index, name in enumerate(names)]
    cases.append(_small("width_edges", seed, 16, queries=18))
    cases.append(_small("signed_decades", seed, 4, top=101))
    cases.append(_small("signed_decades", seed, 64, group=4, n_head_kv=1))
    cases.append(_small("signed_decades", seed, 1, group=8, n_head_kv=3))
    cases.append(Case("signed_decades", seed, 4096, 4, 4))
    return cases


def standard(seed: int) -> list[Case]:
    """Every recipe past the widest selection, in each page size; the small ones besides."""
    context, queries = _WIDE
    cases = quick(seed)
    for index, name in enumerate(_attention_names(False)):
        edges = {"queries": 29} if name == "width_edges" else {"queries": queries}
        cases.append(Case(name, seed + 1, context, page_size=PAGE_SIZES[(index + 1) % len(PAGE_SIZES)], **edges))
    cases += [Case("signed_decades", seed + 1, context, 8, group=group, n_head_kv=2) for group in (4, 8)]
    return cases


def full(seed: int) -> list[Case]:
    """The published sizes, every recipe in every page size, and random bits for the prediction."""
    cases = standard(seed)
    for offset, page_size in enumerate(PAGE_SIZES):
        cases += [Case(name, seed + 2 + offset, 3000, 64, page_size) for name in _attention_names(False)]
    cases += [Case(SIZED_RECIPE, seed, context, queries) for context, queries in PUBLISHED]
    for index in range(FUZZED):
        group = (12, 8, 4)[index % 3]
        page_size = PAGE_SIZES[index % len(PAGE_SIZES)]
        cases.append(Case("any_bits", seed + index, 2051 + 97 * index, 29, page_size, group=group))
    return cases


def pack_cases(seed: int, profile: str) -> list[Case]:
    """Cases of kv_pack: every recipe in every page size, longer ones outside the quick profile."""
    cells = 131 if profile == "quick" else 1031
    names = [recipe.name for recipe in of_operation("kv_pack")]
    return [Case(name, seed, cells, 0, page_size, group=1) for name in names for page_size in PAGE_SIZES]


def captured(seed: int, layers: Sequence[int], tokens: int, heads: tuple[int, int], profile: str) -> list[Case]:
    """Cases of every captured layer over all its tokens, packed by our kernel and by the `gguf` package.

    heads: KV heads and query heads of each.
    """
    queries = min(_CAPTURED_QUERIES[profile], tokens)
    return [
        Case("captured", seed, tokens, queries, 4, *heads, options=(("layer", str(layer)), ("packer", packer)))
        for layer in layers
        for packer in ("kernel", "gguf")
    ]


def fits(case: Case, path: Path) -> bool:
    """Whether a case says something about a path: same operation, and a packer that has its formats."""
    if (path.operation == "kv_pack") != (find(case.recipe).operation == "kv_pack"):
        return False
    return case.option("packer", "") != "gguf" or "q4_0" in FORMATS[path.mode]


def plan(paths: Sequence[Path], cases: Sequence[Case], lanes: bool) -> list[Job]:
    """Jobs of every case on every path of its operation, tiers of a mode next to one another.

    On lanes cases below the real selection width run in the checked build, every second of them
    under a permuted schedule; the larger ones in the fast build.
    """
    jobs = []
    for index, case in enumerate(cases):
        small = lanes and case.context <= _SMALL[0]
        for path in sorted(paths, key=lambda path: (path.operation, path.mode)):
            if fits(case, path):
                jobs.append(Job(case, path, "checked" if small else "fast", index if small and index % 2 else None))
    if not jobs:
        raise StrataError("no planned case fits the selected paths, expected recipes and paths of one operation")
    return jobs


def with_recipe(cases: Sequence[Case], name: str) -> list[Case]:
    """The cases of one recipe; where a profile has none, its first case made with that recipe."""
    recipe = find(name)
    own = [case for case in cases if case.recipe == name]
    alike = [case for case in cases if find(case.recipe).operation == recipe.operation]
    return own or [replace(case, recipe=name) for case in alike[:1]]
