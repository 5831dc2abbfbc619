"""A case of an expert operation, as data with a one-line text form of its own.

For example `recipe=experts_plain seed=1 tokens=33 experts=6 top=3 n=256 ff=128`; n and ff may be left out and are
then those of the model, 2,560 and 640.
"""

from __future__ import annotations

from dataclasses import dataclass

from validation.core.case import MOST_SEED, FieldCase, Fields, Number

#: The model's hidden size and expert width.
N, FF = 2560, 640
#: n and ff have divisors: blocks of gate and up hold 256 values, and activations come in records of 64.
FIELDS = Fields(
    {
        "seed": Number(0, MOST_SEED),
        "tokens": Number(1, 1 << 20),
        "experts": Number(1, 1024),
        "top": Number(1, 64),
        "n": Number(1, 1 << 16, 256, N),
        "ff": Number(1, 1 << 16, 64, FF),
    },
    example="recipe=experts_plain seed=1 tokens=33 experts=6 top=3",
)


@dataclass(frozen=True)
class ExpertCase(FieldCase):
    """tokens: rows of x; experts: how many there are; top: ids of a token; n: hidden size; ff: features of an
    expert."""

    fields = FIELDS
    recipe: str
    seed: int
    tokens: int
    experts: int
    top: int
    n: int = N
    ff: int = FF

    @property
    def pairs(self) -> int:
        return self.tokens * self.top
