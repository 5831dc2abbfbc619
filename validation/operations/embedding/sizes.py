"""Constants of the kernel of embeddings, and what its cases have of each size."""

from __future__ import annotations

from strata.kernels import embedding
from validation.core.sizes import FAR, PATH, TILE, Measured, Side, Size, Sizes
from validation.operations.embedding.case import EmbeddingCase

_TABLE = (
    Size(("embedding.py:THREADS",), embedding.THREADS, "embedded groups", Side.EDGE, "threads of a block"),
)  # fmt: skip
_FIXED = {
    TILE: ("embedding.py:GROUP", "embedding.cu:kGroup"),
    PATH: ("embedding.py:_TYPE_F16", "embedding.py:HALVES"),
    FAR: ("embedding.py:_MOST",),
}


def _of(case: EmbeddingCase) -> Measured:
    yield "embedded groups", {case.rows * case.width // embedding.GROUP}


SIZES = Sizes(("embedding",), ("embedding",), _TABLE, _FIXED, _of)
