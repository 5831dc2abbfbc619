"""A case of block selection: everything that decides the bytes of its inputs, as data with a one-line text form.

The operations that score and the one that chooses from given scores have the same fields.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strata.kernels.selection import BLOCK, TOP
from validation.core.case import MOST_SEED, CaseError, FieldCase, Fields, Number

#: Cells at most, of a context as of what is set aside for one.
MOST_CELLS = 1 << 20
#: How long queries are, the first by default: each one cell longer than the one before; of any length, edges among
#: them; all of them as long.
LENGTHS = ("causal", "ragged", "equal")
FIELDS = Fields(
    {
        "seed": Number(0, MOST_SEED),
        "context": Number(0, MOST_CELLS),
        "queries": Number(1, 8192),
        "top": Number(0, MOST_CELLS, default=TOP),
        "capacity": Number(0, MOST_CELLS, multiple=BLOCK, default=0),
    },
    ("lengths",),
    "recipe=select_bell seed=1 context=4096 queries=64",
)


@dataclass(frozen=True)
class SelectCase(FieldCase):
    """One case.

    Parameters
    ----------
    context
        Cells of the longest query.
    top
        Cells that a query chooses, besides those of a block that `BLOCK` does not divide.
    capacity
        Cells that there is room for; 0 for as many as are needed.
    options
        `lengths`, one of LENGTHS.
    """

    fields = FIELDS
    recipe: str
    seed: int
    context: int
    queries: int
    top: int = TOP
    capacity: int = 0
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        FIELDS.check_options(self.options)
        if self.capacity and self.capacity < self.context:
            raise CaseError(f"case: capacity is {self.capacity}, expected 0 or at least the context of {self.context}")
        said = dict(self.options).get("lengths", LENGTHS[0])
        if said not in LENGTHS:
            raise CaseError(f"case: lengths is {said!r}, expected one of {', '.join(LENGTHS)}")

    @property
    def blocks(self) -> int:
        """Blocks that there is room for, at least one."""
        return max(self.capacity or self.context + BLOCK - 1, BLOCK) // BLOCK

    @property
    def widest(self) -> int:
        """Cells that a query chooses at most, at least one."""
        return max(min(self.context, self.top + BLOCK - 1), 1)

    def widths(self, n_kv: np.ndarray) -> np.ndarray:
        """int64, what queries of so many cells usually choose."""
        return np.asarray(np.minimum(n_kv, self.top + BLOCK - 1))
