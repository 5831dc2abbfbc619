"""The inputs of a case, made from nothing but its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from validation.check.arrays import Drawn, Values
from validation.check.author import called
from validation.check.case import OwnCase
from validation.check.load import Loaded
from validation.check.own_kernel import OwnKernel
from validation.check.recipes import RECIPES, Filling
from validation.check.refusal import refuse
from validation.check.sizes import shape_of
from validation.core.arrays import frozen
from validation.core.random_streams import Stream


def filled(kernel: OwnKernel) -> dict[str, Values]:
    """The inputs that the toolkit fills."""
    return {name: values for name, values in kernel.inputs.items() if isinstance(values, Values)}


def candidates(kernel: OwnKernel, recipe: str) -> list[str]:
    """The inputs that a recipe can be about: float ones where it says nothing of integers, for one that cancels those
    of both signs if there are any, and for one of signs or offsets those that may have them."""
    own = filled(kernel)
    if recipe in ("one_sign", "negative"):
        return [name for name, values in own.items() if values.both_signs]
    if recipe == "shifted":
        return [name for name, values in own.items() if values.offset]
    if not RECIPES[recipe].needs_float:
        return list(own)
    floats = [name for name, values in own.items() if values.floating]
    signed = [name for name in floats if own[name].both_signs]
    return (signed or floats) if recipe == "cancelling" else floats


def targets(kernel: OwnKernel, recipe: str, seed: int) -> list[str]:
    """The inputs that a case is about: one of the candidates, in turn by the seed, or all of them."""
    able = candidates(kernel, recipe)
    return [able[seed % len(able)]] if RECIPES[recipe].targets and able else able


def stream_of(case: OwnCase, *names: str) -> Stream:
    """Random words of a case for one purpose."""
    return Stream.of(case.seed, "check", case.recipe, *(f"{name}={value}" for name, value in case.sizes), *names)


def inputs_of(loaded: Loaded, case: OwnCase) -> Mapping[str, np.ndarray]:
    """The inputs of a case, read-only.

    Raises
    ------
    AuthorError
        For what the author's functions raise, for arrays of another type or shape than declared, and for a `Drawn`
        that gives other values when it is asked again.
    """
    kernel, sizes = loaded.kernel, case.by_name
    about = targets(kernel, case.recipe, case.seed)
    made: dict[str, np.ndarray] = {}
    for name, source in kernel.inputs.items():
        shape = called(loaded.file, f"the axes of {name}", shape_of, source.axes, sizes)
        stream = stream_of(case, "input", name)
        if isinstance(source, Drawn):
            made[name] = called(loaded.file, f"make of {name}", _drawn, source, name, stream, shape, sizes)
        else:
            turn = case.seed // max(1, len(candidates(kernel, case.recipe)))
            filling = Filling(source, shape, stream, name in about, turn)
            recipe = RECIPES[case.recipe]
            made[name] = (recipe.floats if source.floating else recipe.integers)(filling)
    return frozen(made)


def _drawn(source: Drawn, name: str, stream: Stream, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
    first, again = (source.make(stream, dict(sizes)) for _ in range(2))
    for array in (first, again):
        if not isinstance(array, np.ndarray) or array.dtype != source.dtype or array.shape != shape:
            said = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            raise refuse(name, said, f"{source.dtype.name} {shape}")
    if first.tobytes() != again.tobytes():
        raise refuse(name, "an array that changes from call to call", "values made from the stream alone")
    return np.array(first, order="C")


def along(
    axis: str, axes: Mapping[str, tuple[Any, ...]], arrays: Mapping[str, np.ndarray], items: np.ndarray
) -> dict[str, np.ndarray]:
    """Some items of an axis.

    Parameters
    ----------
    axis : str
        The name of a size.
    axes, arrays : mapping
        The axes of every array, and the arrays; those without that axis stay as they are.
    items : int array
        The indices of the items, in the order in which they come out.
    """
    out = {}
    for name, array in arrays.items():
        own = axes[name]
        out[name] = np.ascontiguousarray(np.take(array, items, axis=own.index(axis))) if axis in own else array
    return out
