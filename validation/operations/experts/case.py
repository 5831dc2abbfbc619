"""A case of an expert operation, as data with a one-line text form of its own.

For example `recipe=experts_plain seed=1 tokens=33 experts=6 top=3 n=256 ff=128`; n and ff may be left out and are
then those of the model, 2,560 and 640.
"""

from __future__ import annotations

from dataclasses import dataclass

from validation.core.case import MOST_SEED, Fields, Number
from validation.core.random_streams import Stream

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
class ExpertCase:
    """tokens: rows of x; experts: how many there are; top: ids of a token; n: hidden size; ff: features of an
    expert."""

    recipe: str
    seed: int
    tokens: int
    experts: int
    top: int
    n: int = N
    ff: int = FF

    def __post_init__(self) -> None:
        FIELDS.check({key: getattr(self, key) for key in FIELDS.numbers})

    @property
    def pairs(self) -> int:
        return self.tokens * self.top

    def stream(self, *names: str | int) -> Stream:
        """The random stream of this case's seed and recipe for a purpose."""
        return Stream.of(self.seed, self.recipe, *names)

    def text(self) -> str:
        """The canonical one-line form; `ExpertCase.parse` is its inverse."""
        return FIELDS.text(self)

    def brief(self) -> str:
        """The text form without n and ff where they are the model's."""
        return FIELDS.brief(self)

    @staticmethod
    def parse(text: str) -> ExpertCase:
        """The case of a text form."""
        return ExpertCase(**FIELDS.parse(text))
