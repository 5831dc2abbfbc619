"""Constants of the kernels of elements, and what the cases of each operation have of each size."""

from __future__ import annotations

from strata.kernels.pointwise import THREADS, VECTOR
from validation.core.sizes import BITS, Measured, Side, Size, Sizes
from validation.operations.gated.case import ElementCase


def _table(operation: str, vector: tuple[str, ...] = (), threads: tuple[str, ...] = ()) -> tuple[Size, ...]:
    of = f"elements of {operation}"
    return (
        Size(vector, VECTOR, of, Side.EDGE, "elements of a thread"),
        Size(threads, VECTOR * THREADS, of, Side.EDGE, "elements of a block"),
    )


def _of(case: ElementCase) -> Measured:
    yield f"elements of {case.recipe.partition('_')[0]}", {case.rows * case.columns}


SIZES = {
    # The constants are one module's, and are listed once.
    "gated": Sizes(
        ("gated",),
        ("gated", "pointwise"),
        _table("gated", ("pointwise.py:VECTOR",), ("pointwise.py:THREADS",)),
        {},
        _of,
    ),
    "softcap": Sizes(
        ("softcap",),
        ("softcap",),
        _table("softcap"),
        {BITS: ("softcap.py:LEAST_CAP", "softcap.py:LARGEST_CAP")},
        _of,
    ),
    "residual": Sizes(("residual",), ("residual",), _table("residual"), {}, _of),
}
