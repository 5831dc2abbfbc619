"""Cases that a record must hold for each path of an operation, whatever else was planned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Required:
    """Cases that a record must hold.

    Parameters
    ----------
    recipe
        The recipe of the cases.
    keys
        Words of a case's text that are looked at.
    sizes
        The values of `keys` of each case that must be there.
    """

    recipe: str
    keys: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]

    def missing(self, cases: Iterable[str]) -> str:
        """What is not among the texts of some cases, e.g. `signed_decades at 4,096/512`; "" when nothing is."""
        held = [dict(word.split("=", 1) for word in text.split() if "=" in word) for text in cases]
        wanted = [{"recipe": self.recipe} | dict(zip(self.keys, map(str, size), strict=True)) for size in self.sizes]
        lacking = [
            "/".join(f"{number:,}" for number in size)
            for size, words in zip(self.sizes, wanted, strict=True)
            if not any(words.items() <= case.items() for case in held)
        ]
        return f"{self.recipe} at {' and '.join(lacking)}" if lacking else ""
