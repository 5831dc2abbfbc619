"""A case of embeddings: everything that decides the bytes of its inputs, as data with a one-line text form."""

from __future__ import annotations

from dataclasses import dataclass

from strata.formats import FORMATS
from strata.kernels.embedding import GROUP, HALVES
from validation.core.case import MOST_SEED, FieldCase, Fields, Number

FIELDS = Fields(
    {
        "seed": Number(0, MOST_SEED),
        "rows": Number(1, 8192),
        "width": Number(GROUP, 1 << 16, multiple=GROUP, default=256),
        "vocab": Number(1, 1 << 18, default=64),
    },
    (),
    "recipe=embedding_bell seed=1 rows=9 width=256 vocab=300",
)


@dataclass(frozen=True)
class EmbeddingCase(FieldCase):
    """One case.

    Parameters
    ----------
    rows
        Tokens.
    width, vocab
        Values of a row of the matrix, and its rows.
    """

    fields = FIELDS
    recipe: str
    seed: int
    rows: int
    width: int = 256
    vocab: int = 64

    def fits(self, mode: str) -> bool:
        """Whether a row of the matrix is of whole blocks of a mode."""
        return self.width % values_of_block(mode) == 0


def values_of_block(mode: str) -> int:
    """Values of a block of a mode; of halves what a row has a multiple of."""
    return GROUP if mode == HALVES else FORMATS[mode].values
