"""Every constant of the kernels and of what launches them, and the cases on both sides of those at which something
changes: what docs/sizes.md lists and a test holds against the sources and the quick plan.

A size is measured over the cases of the quick profile, or of the checks of this package. Its value is taken from the
module that has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from strata.executors.base import KERNELS
from strata.kernels import (
    combine,
    decode_attention,
    expert_decode,
    expert_fused,
    expert_mmq,
    experts,
    kv_pack,
    pool,
    prompt_attention,
    router,
)
from strata.kernels.paths import PATHS
from validation.core.case import AnyCase
from validation.operations import registry
from validation.operations.attention import pools
from validation.operations.experts import routing
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.far import MANY_EXPERTS, UNIT
from validation.operations.experts.recipes import find as find_experts
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.pages import page_table
from validation.operations.kv_pack.recipes import find
from validation.run import plan as profiles


class Side(Enum):
    """What cases there must be around a value."""

    EDGE = "at it and one more"
    MOST = "at it, the most there may be, and below"
    OVER = "up to it and above"
    EACH = "at each"


@dataclass(frozen=True)
class Size:
    """names: of constants, `file:NAME`; value: the number at which something changes, or several; of: what is measured,
    a key of `measured`; changes: what does."""

    names: tuple[str, ...]
    value: int | tuple[int, ...]
    of: str
    side: Side
    changes: str

    def lacks(self, found: frozenset[int]) -> str:
        """What no case has; "" when there are cases on both sides."""
        values = (self.value,) if isinstance(self.value, int) else self.value
        for value in values:
            have = {
                Side.EDGE: {value, value + 1} <= found,
                Side.MOST: value in found and min(found) < value,
                Side.OVER: min(found) <= value < max(found),
                Side.EACH: value in found,
            }[self.side]
            if not have:
                return f"{self.of} {self.side.value} for {value}"
        return ""


_CHUNKS = {prompt_attention.cells_per_chunk(mode, tier) for mode in pool.MODE_FORMATS for tier in (75, 80)}
_TILES = tuple(sorted(_CHUNKS))
_KERNELS = [(form, tier, shape) for form in experts.GATE_UP for tier in (75, 80) for shape in expert_fused.SHAPES]
_COLUMNS = tuple(columns for _, columns in expert_fused.SHAPES.values())
_ROWS = tuple(rows for rows, _ in expert_fused.SHAPES.values())

SIZES = (
    Size(("prompt_attention.py:WARPS", "prompt_attention.cu:kWarps"), _TILES, "width", Side.EDGE, "cells of a chunk"),
    Size(
        ("prompt_attention.py:RING", "prompt_attention.cu:kRing"),
        prompt_attention.RING * max(_TILES),
        "width",
        Side.OVER,
        "chunks whose rows are held; then their places are used again",
    ),
    Size(
        ("decode_attention.py:CELLS", "decode_attention.cu:kChunk"),
        decode_attention.CELLS,
        "width",
        Side.EDGE,
        "cells of a chunk",
    ),
    Size(("decode_attention.py:BATCH",), decode_attention.BATCH, "queries", Side.OVER, "queries of a launch"),
    Size(("pool.py:GROUPS",), pool.GROUPS, "query heads of a KV head", Side.EACH, "the kernels are built for each"),
    Size(
        ("kv_pack.py:THREADS", "kv_pack.py:_ROWS", "kv_pack.cu:kWarps"),
        kv_pack.THREADS // 32,
        "packed rows",
        Side.EDGE,
        "rows of a block",
    ),
    Size(("combine.py:THREADS",), combine.THREADS, "combined fours of columns", Side.OVER, "threads of a block"),
    Size(("router.py:WARPS",), router.WARPS, "routed tokens", Side.EDGE, "tokens of a block"),
    Size(("router.py:MOST_EXPERTS",), router.MOST_EXPERTS, "routed experts", Side.MOST, "logits of a token"),
    Size(("router.cu:kEach",), 32, "routed experts", Side.EDGE, "experts of a turn of a warp"),
    Size(("router.py:MOST_RANKS",), router.MOST_RANKS, "ranks of the router", Side.MOST, "a lane writes each rank"),
    Size(
        ("experts.py:MAX_EXPERTS", "expert_prepare.cu:kThreads"),
        experts.MAX_EXPERTS,
        "experts grouped",
        Side.MOST,
        "threads of the block that groups",
    ),
    Size(("expert_prepare.cu:kWarps",), 32, "experts grouped", Side.EDGE, "experts of a warp's scan"),
    Size(("experts.py:MAX_TOP",), experts.MAX_TOP, "ranks", Side.MOST, "ranks of a token"),
    Size(
        ("expert_fused.py:SHAPES", "expert_fused.py:LARGE", "expert_fused.py:SMALL", "expert_tile.cuh:kTiles"),
        _COLUMNS,
        "rows of an expert",
        Side.EDGE,
        "routed rows of a tile",
    ),
    Size(
        ("expert_tile.cuh:kFeatures", "expert_mmq.py:ROWS", "weight_tile.cuh:kRows"),
        _ROWS,
        "weight rows",
        Side.OVER,
        "weight rows of a block",
    ),
    Size(
        ("expert_mmq.py:COLUMNS", "expert_mmq.cu:kPairs"),
        expert_mmq.COLUMNS,
        "rows of an expert",
        Side.OVER,
        "routed rows of a tile",
    ),
    Size(
        ("expert_mmq.py:STEP", "weight_tile.cuh:kStep", "weight_tile.cuh:kParts"),
        expert_mmq.STEP,
        "values of K",
        Side.OVER,
        "values of K of a step",
    ),
    Size(
        ("expert_mmq.py:BLOCK", "expert_mmq.cu:kBlock"),
        expert_mmq.BLOCK,
        "values of K",
        Side.OVER,
        "values of a block of codes",
    ),
    Size(("expert_decode.py:PAIRS",), expert_decode.PAIRS, "rows of an expert", Side.OVER, "pairs of a tile"),
    Size(
        ("activation.cuh:kUnitValues", "expert_fused.py:_UNIT_VALUES"),
        UNIT,
        "values of K",
        Side.OVER,
        "values of a unit of activations",
    ),
    Size(
        ("expert_fused.py:_STAGES", "expert_fused.py:_THREE_STAGES"),
        tuple(sorted({expert_fused.stages_of(*kernel) * UNIT for kernel in _KERNELS})),
        "values of K",
        Side.OVER,
        "units of activations in flight",
    ),
)

#: Constants at which no size of a case makes a difference, by the reason.
FIXED: Mapping[str, tuple[str, ...]] = {
    "every row has so many values, in every case": (
        "decode_attention.cu:kDim", "kv_pack.cu:kDim", "prompt_attention.cu:kDim", "pool.py:HEAD_DIM",
        "decode_attention.cu:kEach", "decode_attention.cu:kVScales", "prompt_attention.cu:kPerWarp",
        "prompt_attention.cu:kSteps", "prompt_attention.cu:kSums", "prompt_attention.cu:kWindows",
        "prompt_attention.cu:kVGroups", "prompt_attention.cu:kScales",
    ),
    "the shape of a tile or of shared memory, which every case fills; static_assert holds both sides together": (
        "prompt_attention.py:ROWS", "prompt_attention.cu:kRows", "prompt_attention.cu:kScoreRow",
        "prompt_attention.cu:kKRow", "prompt_attention.cu:kVRow", "prompt_attention.cu:kStages",
        "expert_mmq.py:BLOCK_BYTES",
        "expert_mmq.py:STAGED", "expert_mmq.cu:kBlockBytes", "expert_mmq.cu:kScales", "expert_prepare.cu:kScans",
        "expert_fused.py:_SCANS", "expert_fused.py:_UNIT_BYTES", "activation.cuh:kUnitScales",
        "activation.cuh:kUnitBytes", "activation.cuh:kActivationBlock", "experts.py:BLOCK",
        "expert_sums.cuh:kParts", "expert_sums.cuh:kStagesOfBlock", "expert_tile.cuh:kTogether",
        "expert_tile.cuh:kScales", "expert_tile.cuh:kGrid", "expert_tile.cuh:kSumsRow", "expert_tile.cuh:kPasses",
        "expert_tile.cuh:kPassColumns", "expert_tile.cuh:kChunk", "expert_tile.cuh:kBuffers", "expert_tile.cuh:kStage",
        "expert_tile.cuh:kChunkValues", "expert_tile.cuh:kChunkBytes", "expert_tile.cuh:kPieces",
        "expert_tile.cuh:kRowBytes", "expert_tile.cuh:kSkew", "expert_tile.cuh:kGroupBytes",
        "expert_tile.cuh:kWarpBytes", "expert_tile.cuh:kWordsBytes", "expert_tile.cuh:kWarps",
        "expert_tile.cuh:kThreads", "weight_tile.cuh:kWeightRow", "weight_tile.cuh:kScaleRow",
        "expert_fused.py:_SIGNED_GRID", "expert_fused.py:_SIGNS", "combine.py:_VECTOR",
    ),
    "threads of a block, all of which work in every case": (
        "decode_attention.py:THREADS", "decode_attention.cu:kThreads", "decode_attention.cu:kWarps",
        "prompt_attention.py:THREADS", "prompt_attention.cu:kThreads", "expert_mmq.py:THREADS",
        "expert_mmq.cu:kThreads", "experts_baseline.py:PASS_THREADS", "older_experts.cuh:kPassThreads",
    ),
    "every matrix has a multiple of so many rows": (
        "expert_decode.py:WARPS", "expert_decode.py:ROWS", "expert_decode.cu:kThreads",
    ),
    "what is fetched ahead or held in registers; no bit depends on it": (
        "decode_attention.cu:kAhead", "expert_fused.cu:kAhead", "prompt_attention.py:MIN_BLOCKS",
        "expert_mmq.py:MIN_BLOCKS", "expert_fused.py:_FRAGMENTS", "expert_fused.py:_MIN_BLOCKS",
        "expert_fused.py:_ONE_FRAGMENT", "expert_fused.py:_PASSES", "expert_fused.py:_LANES_BLOCKS",
    ),
    "bits of a number": (
        "decode_attention.cu:kMinusInfinity", "prompt_attention.cu:kMinusInfinity", "router.cu:kLargest",
        "activation.cuh:kInfinityBits", "activation.cuh:kNotANumber", "expert_sums.cuh:kStart",
        "expert_sums.cuh:kStartValue", "group_product.cuh:kRaised", "quotient.cuh:kUsualLow",
        "quotient.cuh:kUsualHigh", "swiglu.cuh:kMinusLog2E",
    ),
    "which format or tier: a path each": (
        "expert_tile.cuh:kDown", "expert_tile.cuh:kStaged", "experts.py:GATE_UP", "experts.py:DOWN",
        "expert_fused.py:_PAIRED", "expert_decode.py:_TIER", "expert_mmq.py:_PASS_DEFINES", "kv_pack.py:_DEFINES",
    ),
    "beyond it lies what `validation.run.far` asks on lanes (`far`, `few blocks`)": (
        "router.py:_MOST_BLOCKS", "expert_fused.py:_MOST_UNITS",
    ),
}  # fmt: skip

#: Files whose constants are listed: of operations that cases run. Bytes that are compared or decoded for memory and for
#: formats have tests of their own.
SOURCES = ("prompt_attention", "decode_attention", "kv_pack", "router", "combine", "expert_prepare", "expert_fused",
           "expert_mmq", "expert_decode")  # fmt: skip
MODULES = ("prompt_attention", "decode_attention", "kv_pack", "router", "combine", "expert_fused", "expert_mmq",
           "expert_decode", "experts_baseline", "experts", "pool")  # fmt: skip
#: Names of modules that are no sizes.
_WORDS = ("FORMATS", "MODE_FORMATS", "MODES", "EXPERT_MODES", "STAGES", "DESCRIPTOR")


def constants() -> Iterator[str]:
    """Every constant of those files, as `file:NAME`."""
    sources = [KERNELS / f"{name}.cu" for name in SOURCES]
    for file in (*sources, *sorted((KERNELS / "include").glob("*.cuh"))):
        for line in re.findall(r"^constexpr \w+ ([^;{]*);", file.read_text(encoding="utf-8"), re.MULTILINE):
            for name in re.findall(r"(k[A-Z]\w*) = ", line):
                yield f"{file.name}:{name}"
    for module in MODULES:
        text = (KERNELS / f"{module}.py").read_text(encoding="utf-8")
        for line in re.findall(r"^((?:_?[A-Z][A-Z0-9_]*(?:, )?)+)(?:: [^=\n]*)? = ", text, re.MULTILINE):
            for name in line.split(", "):
                if name not in _WORDS and not re.search(rf"^{name}: ", text, re.MULTILINE):
                    yield f"{module}.py:{name}"


def table() -> str:
    """The inventory as two tables of Markdown, as docs/sizes.md has it."""

    def row(*cells: str) -> str:
        return f"| {' | '.join(cells)} |"

    def shown(names: tuple[str, ...]) -> str:
        return ", ".join(f"`{name}`" for name in names)

    def number(value: int | tuple[int, ...]) -> str:
        return ", ".join(f"{one:,}" for one in ((value,) if isinstance(value, int) else value))

    sized = [
        row(shown(size.names), size.changes, number(size.value), f"{size.of}, {size.side.value}") for size in SIZES
    ]
    fixed = [row(reason, shown(names)) for reason, names in FIXED.items()]
    heads = (row("constants", "what changes", "at", "quick cases"), row("---", "---", "---", "---"))
    others = (row("no size makes a difference", "constants"), row("---", "---"))
    return "\n".join([*heads, *sized, "", *others, *fixed, ""])


def measured() -> dict[str, frozenset[int]]:
    """What the quick cases have of each size."""
    found: dict[str, set[int]] = {"experts grouped": set(MANY_EXPERTS)}
    for entry in profiles.entries(profiles.SEED, "quick", list(PATHS.values())):
        for name, values in _of(entry.case):
            found.setdefault(name, set()).update(values)
    return {name: frozenset(values) for name, values in found.items()}


def _of(case: AnyCase) -> Iterator[tuple[str, set[int]]]:
    kind = registry.find(case.recipe).operation
    if isinstance(case, Case):
        if kind == "kv_pack":
            yield "packed rows", {case.context * case.n_head_kv}
            return
        recipe = find(case.recipe)
        table, _ = page_table(case.stream("pages"), recipe.pages, case.context, case.page_size)
        yield "width", set(pools.select(case, recipe.widths, len(table))[2].tolist())
        yield "queries", {case.queries}
        yield "query heads of a KV head", {case.group}
        return
    assert isinstance(case, ExpertCase)
    of: dict[str, Callable[[ExpertCase], Iterator[tuple[str, set[int]]]]]
    of = {"router": _of_router, "combine": _of_combine, "expert": _of_experts}
    yield from of[kind](case)


def _of_router(case: ExpertCase) -> Iterator[tuple[str, set[int]]]:
    yield "routed tokens", {case.tokens}
    yield "routed experts", {case.experts}
    yield "ranks of the router", {case.top}


def _of_combine(case: ExpertCase) -> Iterator[tuple[str, set[int]]]:
    yield "combined fours of columns", {case.tokens * case.n // 4}


def _of_experts(case: ExpertCase) -> Iterator[tuple[str, set[int]]]:
    ids = routing.draw(case.stream("ids"), find_experts(case.recipe).routing, case.tokens, case.experts, case.top)
    counts: dict[int, int] = {}
    for expert in ids[(ids >= 0) & (ids < case.experts)].tolist():
        counts[expert] = counts.get(expert, 0) + 1
    yield "rows of an expert", set(counts.values())
    yield "ranks", {case.top}
    yield "weight rows", {2 * case.ff, case.n}
    yield "values of K", {case.n, case.ff}
