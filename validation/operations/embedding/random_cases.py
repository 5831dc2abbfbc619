"""Small cases of embeddings at drawn sizes: what a soak runs."""

from __future__ import annotations

from collections.abc import Sequence

from validation.operations.embedding.case import EmbeddingCase

ROWS = (1, 2, 3, 7, 13, 31)
#: Multiples of the largest block, so that every mode takes the case.
WIDTHS = (256, 512, 768, 1280)
VOCABS = (1, 2, 3, 31, 64, 257)


def case(recipe: str, seed: int, words: Sequence[int]) -> EmbeddingCase:
    """The case of a recipe whose sizes some words choose."""
    sizes = (choice[word % len(choice)] for choice, word in zip((ROWS, WIDTHS, VOCABS), words, strict=False))
    return EmbeddingCase(recipe, seed, *sizes)
