"""A case of an author's kernel: a recipe with a seed and sizes, and its text of one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from validation.check import recipes
from validation.check.own_kernel import OwnKernel
from validation.core.case import MOST_SEED, CaseError, Fields, Number, written


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
        return written(self.recipe, [("seed", self.seed), *self.sizes])

    def brief(self) -> str:
        """The same: no size has a usual value."""
        return self.text()


def fields(kernel: OwnKernel) -> Fields:
    """The keys of a kernel's cases: its sizes, behind the seed."""
    numbers = {name: Number(size.least, size.most, size.multiple) for name, size in kernel.sizes.items()}
    example = OwnCase("plain", 1, tuple((name, size.ragged()) for name, size in kernel.sizes.items()))
    return Fields({"seed": Number(0, MOST_SEED), **numbers}, example=example.text())


def case_of(kernel: OwnKernel, recipe: str, seed: int, sizes: Mapping[str, int]) -> OwnCase:
    """The case of a kernel with these sizes. Raises StrataError for a recipe that is none, and CaseError for a seed or
    a size that the kernel has not."""
    recipes.find(recipe)
    if set(sizes) != set(kernel.sizes):
        raise CaseError(f"case: sizes are {', '.join(sizes)}, expected {', '.join(kernel.sizes)}")
    fields(kernel).check({"seed": seed, **sizes})
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
    CaseError
        For a word that is none, a name that is unknown, missing or given twice, and a value out of range.
    StrataError
        For a recipe that is none.
    """
    said = fields(kernel).parse(text)
    return case_of(kernel, said.pop("recipe"), said.pop("seed"), said)
