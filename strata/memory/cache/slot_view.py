"""The bytes of one expert in its slot, for as long as they are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata.memory.driver.driver import View
from strata.memory.driver.views import StaleView

if TYPE_CHECKING:
    from strata.memory.cache.cache import ExpertCache


class SlotView:
    """A view of memory, bound to the expert that was in it: a slot that is written again makes it stale too."""

    def __init__(self, cache: ExpertCache, row: int, slot: int, view: View) -> None:
        self._cache, self._view = cache, view
        self.row, self.slot = row, slot
        self._stamp = int(cache.stamps[slot])

    @property
    def address(self) -> int:
        """Raises StaleView when the slot was given to another expert, or unmapped, after this view was made."""
        if self._cache.residency.slot(self.row) != self.slot or self._cache.stamps[self.slot] != self._stamp:
            raise StaleView(f"slot {self.slot} was taken from row {self.row} after this view of it was made")
        return self._view.address

    def array(self) -> Any:
        """The bytes as an array of the driver's kind, for use at once. Raises StaleView as `address` does."""
        _ = self.address
        return self._view.array()
