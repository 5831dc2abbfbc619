"""Constants of the kernels of dense products, and what their cases have of each size."""

from __future__ import annotations

from validation.core.sizes import Measured, Sizes
from validation.operations.linear.case import LinearCase


def _of(case: LinearCase) -> Measured:
    yield "rows of a product", {case.rows}


SIZES = Sizes(("linear",), ("linear",), (), {}, _of)
