"""Small cases of operations on elements at drawn sizes: what a soak runs."""

from __future__ import annotations

from collections.abc import Sequence

from validation.operations.gated.case import CAP, ElementCase

MOST_ROWS = 9
#: Columns around a thread's four, and any up to so many.
COLUMNS, MOST_COLUMNS = (1, 2, 3, 4, 5, 7, 8), 700
CAPPED = (CAP, CAP, "50", "0.3", "1.1754944e-38", "3.4028235e38")


def columns(word: int) -> int:
    """At an edge in half of the cases."""
    which, word = word % 2, word // 2
    return COLUMNS[word % len(COLUMNS)] if which else 1 + word % MOST_COLUMNS


def case(recipe: str, seed: int, words: Sequence[int]) -> ElementCase:
    """The case of a recipe whose sizes some words choose."""
    cap = CAPPED[words[2] % len(CAPPED)]
    options = () if cap == CAP or not recipe.startswith("softcap_") else (("cap", cap),)
    return ElementCase(recipe, seed, 1 + words[0] % MOST_ROWS, columns(words[1]), options)
