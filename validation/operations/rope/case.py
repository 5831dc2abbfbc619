"""A case of rope: everything that decides the bytes of its inputs, as data with a one-line text form."""

from __future__ import annotations

from dataclasses import dataclass

from validation.core.case import MOST_SEED, FieldCase, Fields, Number

#: Pairs of a thread and their two halves: what heads have a multiple of.
DIMS = 8
#: Positions that tables have at most.
MOST_CONTEXT = 1 << 20
FIELDS = Fields(
    {
        "seed": Number(0, MOST_SEED),
        "rows": Number(1, 8192),
        "heads": Number(1, 256, default=1),
        "d": Number(DIMS, 1024, multiple=DIMS, default=64),
        "context": Number(1, MOST_CONTEXT, default=64),
    },
    (),
    "recipe=rope_angles seed=1 rows=5 heads=4 d=256 context=4096",
)


@dataclass(frozen=True)
class RopeCase(FieldCase):
    """One case.

    Parameters
    ----------
    rows, heads, d
        The shape of what is turned.
    context
        Positions that the tables have.
    """

    fields = FIELDS
    recipe: str
    seed: int
    rows: int
    heads: int = 1
    d: int = 64
    context: int = 64
