"""Constants of the kernels of experts, and what their cases have of each size."""

from __future__ import annotations

from strata.kernels import expert_decode, expert_fused, expert_mmq, experts
from validation.core.sizes import AHEAD, BITS, BLOCK, EVERY_MATRIX, FAR, PATH, TILE, Measured, Side, Size, Sizes
from validation.operations.experts import routing
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.far import MANY_EXPERTS, UNIT
from validation.operations.experts.recipes import find

_KERNELS = [(form, tier, shape) for form in experts.GATE_UP for tier in (75, 80) for shape in expert_fused.SHAPES]
_COLUMNS = tuple(columns for _, columns in expert_fused.SHAPES.values())
_ROWS = tuple(rows for rows, _ in expert_fused.SHAPES.values())

_TABLE = (
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

_FIXED = {
    TILE: (
        "expert_mmq.py:BLOCK_BYTES",
        "expert_mmq.py:STAGED",
        "expert_mmq.cu:kBlockBytes",
        "expert_mmq.cu:kScales",
        "expert_prepare.cu:kScans",
        "expert_fused.py:_SCANS",
        "expert_fused.py:_UNIT_BYTES",
        "activation.cuh:kUnitScales",
        "activation.cuh:kUnitBytes",
        "activation.cuh:kActivationBlock",
        "experts.py:BLOCK",
        "expert_sums.cuh:kParts",
        "expert_sums.cuh:kStagesOfBlock",
        "expert_tile.cuh:kTogether",
        "expert_tile.cuh:kScales",
        "expert_tile.cuh:kGrid",
        "expert_tile.cuh:kSumsRow",
        "expert_tile.cuh:kPasses",
        "expert_tile.cuh:kPassColumns",
        "expert_tile.cuh:kChunk",
        "expert_tile.cuh:kBuffers",
        "expert_tile.cuh:kStage",
        "expert_tile.cuh:kChunkValues",
        "expert_tile.cuh:kChunkBytes",
        "expert_tile.cuh:kPieces",
        "expert_tile.cuh:kRowBytes",
        "expert_tile.cuh:kSkew",
        "expert_tile.cuh:kGroupBytes",
        "expert_tile.cuh:kWarpBytes",
        "expert_tile.cuh:kWordsBytes",
        "expert_tile.cuh:kWarps",
        "expert_tile.cuh:kThreads",
        "weight_tile.cuh:kWeightRow",
        "weight_tile.cuh:kScaleRow",
        "expert_fused.py:_SIGNED_GRID",
        "expert_fused.py:_SIGNS",
    ),
    BLOCK: (
        "expert_mmq.py:THREADS",
        "expert_mmq.cu:kThreads",
        "experts_baseline.py:PASS_THREADS",
        "older_experts.cuh:kPassThreads",
    ),
    EVERY_MATRIX: (
        "expert_decode.py:WARPS",
        "expert_decode.py:ROWS",
        "expert_decode.cu:kThreads",
    ),
    AHEAD: (
        "expert_fused.cu:kAhead",
        "expert_mmq.py:MIN_BLOCKS",
        "expert_fused.py:_FRAGMENTS",
        "expert_fused.py:_MIN_BLOCKS",
        "expert_fused.py:_ONE_FRAGMENT",
        "expert_fused.py:_PASSES",
        "expert_fused.py:_LANES_BLOCKS",
    ),
    BITS: (
        "activation.cuh:kInfinityBits",
        "activation.cuh:kNotANumber",
        "expert_sums.cuh:kStart",
        "expert_sums.cuh:kStartValue",
        "group_product.cuh:kRaised",
        "quotient.cuh:kUsualLow",
        "quotient.cuh:kUsualHigh",
        "swiglu.cuh:kMinusLog2E",
    ),
    PATH: (
        "expert_tile.cuh:kDown",
        "expert_tile.cuh:kStaged",
        "experts.py:GATE_UP",
        "experts.py:DOWN",
        "expert_fused.py:_PAIRED",
        "expert_decode.py:_TIER",
        "expert_mmq.py:_PASS_DEFINES",
    ),
    FAR: ("expert_fused.py:_MOST_UNITS",),
}


def _of(case: ExpertCase) -> Measured:
    ids = routing.draw(case.stream("ids"), find(case.recipe).routing, case.tokens, case.experts, case.top)
    counts: dict[int, int] = {}
    for expert in ids[(ids >= 0) & (ids < case.experts)].tolist():
        counts[expert] = counts.get(expert, 0) + 1
    yield "rows of an expert", set(counts.values())
    yield "ranks", {case.top}
    yield "weight rows", {2 * case.ff, case.n}
    yield "values of K", {case.n, case.ff}


SIZES = Sizes(
    ("expert_prepare", "expert_fused", "expert_mmq", "expert_decode"),
    ("expert_fused", "expert_mmq", "expert_decode", "experts_baseline", "experts"),
    _TABLE,
    _FIXED,
    _of,
    beside={"experts grouped": frozenset(MANY_EXPERTS)},
)
