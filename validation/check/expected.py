"""What the outputs of a case should be and how far they may be off, from the author's reference and bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from strata.executors.lanes import Rule
from validation.check.arrays import Output
from validation.check.author import called
from validation.check.load import Loaded
from validation.check.refusal import refuse
from validation.check.roundings import Roundings
from validation.check.sizes import shape_of
from validation.core.arrays import frozen

Arrays = Mapping[str, np.ndarray]
Sizes = Mapping[str, int]


def wide(inputs: Arrays) -> dict[str, np.ndarray]:
    """The inputs for the author's functions: float ones as float64, which is exact, all of them copies that cannot be
    written to."""
    made = {
        name: array.astype(np.float64) if array.dtype.kind == "f" else array.copy() for name, array in inputs.items()
    }
    return frozen(made)


def _named(what: str, given: Any, names: list[str]) -> dict[str, Any]:
    """Arrays by name, of a mapping or, where there is one name, of the array itself."""
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise refuse(what, sorted(map(str, given)), f"arrays named {', '.join(names)}")
        return {name: given[name] for name in names}
    if len(names) != 1:
        raise refuse(what, type(given).__name__, f"a mapping with {', '.join(names)}")
    return {names[0]: given}


def _array(what: str, given: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    if not isinstance(given, np.ndarray) or given.dtype != dtype or given.shape != shape:
        said = f"{given.dtype} {given.shape}" if isinstance(given, np.ndarray) else type(given).__name__
        raise refuse(what, said, f"{dtype.name} {shape}")
    return np.array(given, order="C")


def _broadcast(what: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return np.broadcast_to(np.asarray(given, np.float64), shape)
    except (TypeError, ValueError):
        raise refuse(what, given, f"a number, or an array that broadcasts to {shape}") from None


def _outputs(loaded: Loaded, sizes: Sizes, floats_only: bool = False) -> dict[str, tuple[Output, tuple[int, ...]]]:
    return {
        name: (output, shape_of(output.axes, sizes))
        for name, output in loaded.kernel.outputs.items()
        if output.floating or not floats_only
    }


def reference(loaded: Loaded, inputs: Arrays, sizes: Sizes) -> dict[str, np.ndarray]:
    """The author's FP64 reference.

    Returns
    -------
    dict of str to array
        float64 for float outputs, the output's own type for integer ones.

    Raises
    ------
    AuthorError
        For what the function raises, and for arrays of another name, type or shape.
    """

    def ask() -> dict[str, np.ndarray]:
        own = _outputs(loaded, sizes)
        with np.errstate(all="ignore"):
            given = _named("reference", loaded.kernel.reference(wide(inputs), dict(sizes)), list(own))
        return {
            name: _array(
                f"reference of {name}", given[name], np.dtype(np.float64) if out.floating else out.dtype, shape
            )
            for name, (out, shape) in own.items()
        }

    return called(loaded.file, f"reference of {loaded.kernel.name}", ask)


def exact(loaded: Loaded, inputs: Arrays, sizes: Sizes) -> dict[str, np.ndarray] | None:
    """The author's model of every bit: outputs in their own types; None where he gives none. Raises AuthorError as
    `reference` does."""
    model = loaded.kernel.exact
    if model is None:
        return None

    def ask() -> dict[str, np.ndarray]:
        own = _outputs(loaded, sizes)
        copies = frozen({name: array.copy() for name, array in inputs.items()})
        with np.errstate(all="ignore"):
            given = _named("exact", model(copies, dict(sizes)), list(own))
        return {name: _array(f"exact {name}", given[name], out.dtype, shape) for name, (out, shape) in own.items()}

    return called(loaded.file, f"exact of {loaded.kernel.name}", ask)


def limits(loaded: Loaded, inputs: Arrays, due: Arrays, sizes: Sizes, rule: Rule) -> dict[str, np.ndarray]:
    """The bound of every element of every float output.

    Parameters
    ----------
    due : mapping
        What `reference` gave.
    rule : Rule
        The tensor core's rule where the kernel runs.

    Returns
    -------
    dict of str to float64 array
        By the names of the float outputs. Not finite where the reference is not.

    Raises
    ------
    AuthorError
        For what the author's functions raise, and for arrays of another name, type or shape.
    """
    bound = loaded.kernel.bound

    def ask() -> dict[str, np.ndarray]:
        own = _outputs(loaded, sizes, floats_only=True)
        if not own:
            return {}
        with np.errstate(all="ignore"):
            if isinstance(bound, Roundings):
                return _counted(dict.fromkeys(own, bound), own, inputs, due, sizes, rule)
            if isinstance(bound, Mapping):
                return _counted(bound, own, inputs, due, sizes, rule)
            assert callable(bound)
            copies = frozen({name: array.copy() for name, array in due.items()})
            given = _named("bound", bound(wide(inputs), copies, dict(sizes)), list(own))
        return {
            name: _array(f"bound of {name}", given[name], np.dtype(np.float64), shape)
            for name, (_, shape) in own.items()
        }

    return called(loaded.file, f"bound of {loaded.kernel.name}", ask)


def _counted(
    bounds: Mapping[str, Roundings],
    own: Mapping[str, tuple[Output, tuple[int, ...]]],
    inputs: Arrays,
    due: Arrays,
    sizes: Sizes,
    rule: Rule,
) -> dict[str, np.ndarray]:
    asked: dict[Callable[..., Any], dict[str, Any]] = {}
    out = {}
    for name, (output, shape) in own.items():
        roundings, magnitude = bounds[name], None
        if roundings.magnitude is not None:
            function = roundings.magnitude
            if function not in asked:
                sharing = [other for other in own if bounds[other].magnitude is function]
                asked[function] = _named("magnitude", function(wide(inputs), dict(sizes)), sharing)
            magnitude = _array(f"magnitude of {name}", asked[function][name], np.dtype(np.float64), shape)
        given = roundings.underflow
        grows = given(wide(inputs), dict(sizes)) if callable(given) else given
        grows = _broadcast(f"underflow of {name}", grows, shape)
        out[name] = roundings.limit(due[name], magnitude, output.dtype.name, sizes, rule, grows)
    return out
