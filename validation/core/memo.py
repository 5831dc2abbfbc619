"""The last value of each kind: tiers of one mode share inputs, reference and baseline of a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from validation.core.arrays import frozen


@dataclass
class Memo:
    """The last value of each kind, its arrays read-only."""

    _held: dict[str, tuple[object, Any]] = field(default_factory=dict)

    def get(self, kind: str, key: object, make: Callable[[], Any]) -> Any:
        """The held value when it was made for `key`, else a new one (pure functions only)."""
        if kind not in self._held or self._held[kind][0] != key:
            self._held.pop(kind, None)
            self._held[kind] = (key, frozen(make()))
        return self._held[kind][1]

    def forget(self, kind: str) -> None:
        """Make the value of a kind anew next time."""
        self._held.pop(kind, None)
