"""Constants of the kernels of dense products, and what their cases have of each size."""

from __future__ import annotations

from strata.kernels import linear, linear_dp4a, linear_f16, linear_quantise
from validation.core.sizes import AHEAD, BLOCK, FAR, PATH, TILE, Measured, Side, Size, Sizes
from validation.operations.linear.case import LinearCase
from validation.operations.linear.formats import GROUP

_SHAPES = (linear_dp4a.FEW, linear_dp4a.MANY)

_TABLE = (
    Size(
        ("linear_dp4a.py:FEW", "linear_dp4a.py:MANY"),
        tuple(shape.rows for shape in _SHAPES),
        "multiplied rows",
        Side.EDGE,
        "rows of a block; few have an entry of their own",
    ),
    Size((), tuple(shape.groups for shape in _SHAPES), "multiplied groups", Side.EDGE, "groups of a turn"),
    Size(("linear_dp4a.py:OUTPUTS",), linear_dp4a.OUTPUTS, "outputs", Side.EDGE, "outputs of a block"),
    Size(("linear.py:ROWS",), linear.ROWS, "outputs", Side.EDGE, "outputs of a tile"),
    Size(
        ("linear.py:COLUMNS", "linear.py:NARROW_COLUMNS"),
        linear.COLUMNS,
        "multiplied rows",
        Side.EDGE,
        "rows of a tile",
    ),
    Size(("linear.cu:kPairs",), GROUP, "multiplied rows", Side.EDGE, "rows of a part of a tile"),
    Size(("linear.py:STEP",), linear.STEP // GROUP, "multiplied groups", Side.EDGE, "groups of a step"),
    Size(
        ("linear_quantise.py:UNIT", "linear_units.cuh:kUnit", "linear_units.cuh:kUnitGroups"),
        linear_quantise.UNIT // GROUP,
        "multiplied groups",
        Side.EDGE,
        "groups of a unit of codes",
    ),
    Size(("linear_f16.py:ROWS",), linear_f16.ROWS, "multiplied rows", Side.EDGE, "rows of a block"),
    Size(("linear_f16.py:OUTPUTS",), linear_f16.OUTPUTS, "outputs", Side.EDGE, "outputs of a block"),
)

_FIXED = {
    TILE: (
        *("linear.cu:kColumn", "linear.cu:kColumnCodes", "linear.cu:kColumnSums", "linear.cu:kScales"),
        *("linear.py:COLUMN_BYTES", "linear.py:SUMS_BYTES", "linear_dp4a.cu:kGridBytes", "linear_dp4a.cu:kScales"),
        *("linear_units.cuh:kUnitCodes", "linear_units.cuh:kUnitSize", "linear_units.cuh:kUnitSums"),
        *("linear_quantise.py:GROUP", "linear_quantise.py:UNIT_BYTES", "linear_f16.py:VECTOR"),
    ),
    BLOCK: ("linear.cu:kThreads", "linear.py:THREADS", "linear_f16.py:THREADS", "linear_quantise.py:THREADS"),
    AHEAD: ("linear.py:MIN_BLOCKS", "linear.py:STAGED", "linear_dp4a.cu:kFewAhead"),
    PATH: (
        *("linear.cu:kOffset", "linear_formats.cuh:kHasOffset", "linear_formats.cuh:kOfSixes"),
        *("linear.py:NARROW", "linear_weights.py:LINEAR_FORMATS"),
    ),
    FAR: ("linear_weights.py:MOST",),
}


def _of(case: LinearCase) -> Measured:
    yield "multiplied rows", {case.rows}
    yield "outputs", {case.outputs}
    yield "multiplied groups", {case.width // GROUP}


SIZES = Sizes(
    ("linear", "linear_dp4a", "linear_f16", "linear_quantise"),
    ("linear", "linear_dp4a", "linear_f16", "linear_quantise", "linear_weights"),
    _TABLE,
    _FIXED,
    _of,
)
