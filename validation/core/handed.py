"""What a candidate is handed: copies of what an expectation is made from, compared byte for byte after its run.

What calls kernels puts every run through `handed`, so that no caller can leave it out: `row_hooks.RowHooks`, and
those that stand for kernels themselves (`attention.kernels.Operation`, `experts.under_test.ExpertOperation`,
`kv_pack.packing.Packing`):

- arrays among the arguments are copies. One that is no longer equal to its original after the run is an error;
- the executor keeps what each buffer that is no output was made from, and what its memory holds after the run is
  compared with that, on a card as on lanes (`watched.Watched`);
- arrays of the result are copies as well, so that a later run cannot change what an earlier one gave.

An array keeps its copy as long as nobody changes it, so that experts are placed once for all runs of a case.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from strata.executors.base import Executor, StrataError
from validation.core.arrays import rebuilt
from validation.core.byte_equality import difference
from validation.core.watched import ByIdentity, watched

_Run = TypeVar("_Run", bound=Callable[..., Any])
_MARK = "_hands_copies"


class InputsChangedError(StrataError):
    """A candidate changed what it was given; the message names the array and the first byte."""


class Lent(NamedTuple):
    """One array that was lent. name: for messages; own: what the expectation is made from; lent: its copy."""

    name: str
    own: np.ndarray
    lent: np.ndarray


_copies: ByIdentity[np.ndarray, np.ndarray] = ByIdentity()


def _copy(own: np.ndarray) -> np.ndarray:
    held = _copies.get(own)
    if held is None or difference(held, own) is not None:  # changed since, by either side
        held = own.copy(order="K")
        _copies.put(own, held)
    return held


@contextmanager
def handing(
    run: Callable[..., Any], executor: Executor, args: Sequence[Any], named: Mapping[str, Any] | None = None
) -> Iterator[tuple[Executor, tuple[Any, ...], dict[str, Any]]]:
    """The executor and arguments for one call of `run(executor, *args, **named)`, compared when the block ends.

    Raises InputsChangedError when an array that was lent, or a buffer that is an input, does not hold what it held.
    """
    lent: list[Lent] = []

    def lend(name: str, own: np.ndarray) -> np.ndarray:
        lent.append(Lent(name, own, _copy(own)))
        return lent[-1].lent

    names = _names(run, len(args))
    copies = tuple(rebuilt(value, lend, name) for name, value in zip(names, args, strict=True))
    others = {name: rebuilt(value, lend, name) for name, value in (named or {}).items()}
    own = watched(executor)
    with own.used() as buffers:
        yield own, copies, others
    said = [*_changed(lent), *own.changed(buffers)]
    if said:
        more = f"; {len(said) - 1} more inputs changed" if len(said) > 1 else ""
        raise InputsChangedError(f"the run changed its inputs: {said[0]}{more}")


def _changed(lent: Sequence[Lent]) -> Iterator[str]:
    for one in lent:
        at = difference(one.lent, one.own)
        if at is not None:
            yield f"{one.name} {at}"


def _names(run: Callable[..., Any], count: int) -> list[str]:
    """What the arguments after the executor are called."""
    found: list[str] = []
    try:
        parameters = list(inspect.signature(run).parameters.values())[1:]
    except (TypeError, ValueError):  # built in: it has no signature
        parameters = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            break
        found.append(parameter.name)
    return [found[i] if i < len(found) else f"argument {i + 1}" for i in range(count)]


def handed(run: _Run) -> _Run:
    """`run(executor, ...)` on copies of its arrays and a watched executor, giving copies of the arrays it made.

    Raises InputsChangedError when it changed what it was given. One that is handed copies already stays.
    """
    if getattr(run, _MARK, False):
        return run

    @wraps(run)
    def call(executor: Executor, *args: Any, **named: Any) -> Any:
        with handing(run, executor, args, named) as (own, copies, others):
            result = run(own, *copies, **others)
        return rebuilt(result, lambda name, array: array.copy())

    setattr(call, _MARK, True)
    return cast(_Run, call)
