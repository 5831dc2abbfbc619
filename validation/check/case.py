"""A case of an author's kernel: a recipe with a seed and sizes, and its text of one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strata.arguments import LARGEST, shown, whole
from strata.arguments import of as named
from strata.executors.base import StrataError
from validation.check import recipes
from validation.check.own_kernel import OwnKernel


@dataclass(frozen=True)
class OwnCase:
    """What is run: data by a recipe and a seed, of given sizes.

    Parameters
    ----------
    recipe : str
        One of `validation.check.recipes.RECIPES`.
    seed : int
        Of the data.
    sizes : tuple of (str, int)
        Every size of the kernel by its name, in the kernel's order.
    """

    recipe: str
    seed: int
    sizes: tuple[tuple[str, int], ...]

    @property
    def by_name(self) -> dict[str, int]:
        """The sizes as a mapping."""
        return dict(self.sizes)

    def text(self) -> str:
        """The case in one line, which `parse` reads: ``recipe=plain seed=1 rows=3 width=129``."""
        words = [f"recipe={self.recipe}", f"seed={self.seed}", *(f"{name}={value}" for name, value in self.sizes)]
        return " ".join(words)


def case_of(kernel: OwnKernel, recipe: str, seed: int, sizes: Mapping[str, int]) -> OwnCase:
    """The case of a kernel with these sizes. Raises StrataError for a recipe or a size that the kernel has not."""
    recipes.find(recipe)
    if not 0 <= seed <= LARGEST:
        raise StrataError(f"seed={seed}: expected a whole number of 0 to {LARGEST}")
    unknown = [name for name in sizes if name not in kernel.sizes]
    missing = [name for name in kernel.sizes if name not in sizes]
    if unknown or missing:
        expected = " ".join(f"{name}=N" for name in kernel.sizes)
        fault = f"{unknown[0]}= is no size of {kernel.name}" if unknown else f"{missing[0]}= is missing"
        raise StrataError(f"{fault}; expected {expected}")
    for name, size in kernel.sizes.items():
        if not size.allows(sizes[name]):
            multiple = f", a multiple of {size.multiple}" if size.multiple > 1 else ""
            raise StrataError(f"{name}={sizes[name]}: expected {size.least} to {size.most}{multiple}")
    return OwnCase(recipe, seed, tuple((name, sizes[name]) for name in kernel.sizes))


def parse(text: str, kernel: OwnKernel) -> OwnCase:
    """The case that a text says, the inverse of `OwnCase.text`.

    Parameters
    ----------
    text : str
        Words ``name=value`` with blanks between, in any order, each name once.
    kernel : OwnKernel
        Whose sizes they are.

    Raises
    ------
    StrataError
        For a word that is none, a name that is unknown, missing or given twice, and a value out of range.
    """
    words: dict[str, str] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals:
            raise StrataError(f"a case's text has {shown(word)}, expected name=value")
        if name in words:
            raise StrataError(f"a case's text has {shown(name)} twice, expected it once")
        words[name] = value
    for name in ("recipe", "seed"):
        if name not in words:
            raise StrataError(f"a case's text has no {name}=, expected one")
    recipe, seed = words.pop("recipe"), named("seed", whole(), words.pop("seed"))
    return case_of(kernel, recipe, seed, {name: named(shown(name), whole(), value) for name, value in words.items()})
