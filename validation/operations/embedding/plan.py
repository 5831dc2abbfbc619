"""Which cases of embeddings the profiles have. Each is one of the modes whose blocks its width is a multiple of."""

from __future__ import annotations

from collections.abc import Iterator

from strata.kernels.embedding import GROUP, THREADS
from validation.core.entry import Planned
from validation.operations.embedding.case import EmbeddingCase
from validation.operations.embedding.recipes import EDITION, RECIPES

#: Rows, width and vocab of a quick case, and of the standard profile.
_SMALL = (11, 256, 37)
_LARGE = ((512, 768, 4096), (97, 2560, 1031), (2048, 256, 262144))
#: The smallest rows of formats of 32, 64 and 256 values; one token of one; a block's groups and one more.
SIZES = (
    (1, 256, 1),
    (1, 32, 1),
    (13, 64, 7),
    (THREADS, GROUP, 3),
    (THREADS + 1, GROUP, 5),
    (7, 1280, 13),
)


def _cases(seed: int, profile: str) -> Iterator[EmbeddingCase]:
    for name, recipe in RECIPES.items():
        if not recipe.far:
            yield EmbeddingCase(name, seed, *_SMALL)
    for size in SIZES:
        yield EmbeddingCase("embedding_sizes", seed, *size)
    if profile != "quick":
        for size in _LARGE:
            yield EmbeddingCase("embedding_bell", seed, *size)


def planned(seed: int, profile: str) -> list[Planned]:
    """The cases of a profile."""
    return [Planned(case, flavor="checked", edition=EDITION) for case in _cases(seed, profile)]
