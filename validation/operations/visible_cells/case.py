"""A case of visible cells: everything that decides what is asked, as data with a one-line text form."""

from __future__ import annotations

from dataclasses import dataclass

from strata.kernels.visible_cells import LAST
from validation.core.case import MOST_SEED, CaseError, FieldCase, Fields, Number

#: Words of the ids of a case at most.
MOST_IDS = 1 << 27
FIELDS = Fields(
    {
        "seed": Number(0, MOST_SEED),
        "first": Number(0, LAST),
        "rows": Number(1, 8192),
        "window": Number(1, LAST + 1, default=512),
    },
    (),
    "recipe=cells_chunk seed=1 first=4096 rows=64",
)


@dataclass(frozen=True)
class CellsCase(FieldCase):
    """One case.

    Parameters
    ----------
    first
        The cell of the first query.
    rows
        Queries, each one cell further than the one before.
    window
        Cells that a query of a local layer sees at most.
    """

    fields = FIELDS
    recipe: str
    seed: int
    first: int
    rows: int
    window: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first + self.rows > LAST + 1:
            raise CaseError(f"case: first is {self.first}, expected up to {LAST + 1 - self.rows} for {self.rows} rows")
        if self.rows * self.window > MOST_IDS:
            raise CaseError(
                f"case: window is {self.window}, expected up to {MOST_IDS // self.rows} for {self.rows} rows"
            )
