"""The arrays inside a value: replaced by others, or made read-only."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

_Value = TypeVar("_Value")


def rebuilt(value: Any, of_array: Callable[[str, np.ndarray], np.ndarray], name: str = "") -> Any:
    """`value` with `of_array(name, array)` in place of every array in it: in fields of dataclasses and named tuples, in
    tuples, lists and values of mappings. What holds no array stays the very same object."""
    if isinstance(value, np.ndarray):
        return of_array(name, value)
    if isinstance(value, tuple | list):
        names = getattr(value, "_fields", range(len(value)))
        new = [rebuilt(item, of_array, _inner(name, part)) for part, item in zip(names, value, strict=True)]
        if all(a is b for a, b in zip(new, value, strict=True)):
            return value
        return type(value)(*new) if hasattr(value, "_fields") else type(value)(new)
    if isinstance(value, dict):
        made = {key: rebuilt(item, of_array, _inner(name, key)) for key, item in value.items()}
        return made if any(made[key] is not value[key] for key in value) else value
    if is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name) for field in fields(value)}
        parts = {part: rebuilt(item, of_array, _inner(name, part)) for part, item in held.items()}
        if all(parts[part] is held[part] for part in held):
            return value
        other = copy(value)
        for cached in set(getattr(other, "__dict__", ())) - set(held):  # made from the arrays that are replaced
            del vars(other)[cached]
        for part, item in parts.items():
            object.__setattr__(other, part, item)
        return other
    return value


def _inner(name: str, part: object) -> str:
    return f"{name}[{part}]" if isinstance(part, int) else f"{name}.{part}" if name else str(part)


def frozen(value: _Value) -> _Value:
    """`value`, every array in it read-only: what is kept for others to read is changed by none of them."""

    def freeze(name: str, array: np.ndarray) -> np.ndarray:
        array.flags.writeable = False
        return array

    rebuilt(value, freeze)
    return value
