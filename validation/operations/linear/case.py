"""A case of dense products: everything that decides the bytes of its inputs, as data with a one-line text form."""

from __future__ import annotations

from dataclasses import dataclass

from validation.core.case import MOST_SEED, FieldCase, Fields, Number
from validation.operations.linear.formats import holds

#: Rows and outputs at most, and values of a row.
MOST = 1 << 20
FIELDS = Fields(
    {
        "seed": Number(0, MOST_SEED),
        "rows": Number(1, MOST),
        "outputs": Number(1, MOST),
        "width": Number(4, MOST, multiple=4),
    },
    example="recipe=linear_bell seed=1 rows=9 outputs=257 width=1024",
)


@dataclass(frozen=True)
class LinearCase(FieldCase):
    """One case.

    Parameters
    ----------
    rows
        Tokens.
    outputs
        Rows of the matrix.
    width
        Values of a token and of a row of the matrix.
    """

    fields = FIELDS
    recipe: str
    seed: int
    rows: int
    outputs: int
    width: int

    def fits(self, mode: str) -> bool:
        """Whether a row of the matrix is of whole blocks of a mode."""
        return holds(mode, self.width)
