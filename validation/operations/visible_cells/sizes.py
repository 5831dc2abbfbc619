"""Constants of the kernel of visible cells, and what its cases have of each size."""

from __future__ import annotations

from strata.kernels import visible_cells
from validation.core.sizes import BITS, EVERY_ROW, FAR, Measured, Side, Size, Sizes
from validation.operations.visible_cells.case import CellsCase

_TABLE = (
    Size(("visible_cells.py:THREADS",), visible_cells.THREADS, "cells of a window", Side.EDGE, "ids of a turn"),
    Size(
        ("visible_cells.py:EACH",),
        visible_cells.THREADS * visible_cells.EACH,
        "cells of a window",
        Side.EDGE,
        "ids of a block",
    ),
    Size(("visible_cells.py:LAST",), visible_cells.LAST, "last cells", Side.MOST, "cells that an int32 counts"),
)
_FIXED = {
    EVERY_ROW: ("visible_cells.py:WORDS",),
    BITS: ("visible_cells.py:UNWRITTEN",),
    FAR: ("visible_cells.py:_MOST_BLOCKS",),
}


def _of(case: CellsCase) -> Measured:
    yield "cells of a window", {case.window}
    yield "last cells", {case.first + case.rows - 1}


SIZES = Sizes(("visible_cells",), ("visible_cells",), _TABLE, _FIXED, _of)
