"""The cache between its two sizes: the one for decoding, and the one that also covers what decoding alone needs."""

from __future__ import annotations

from strata.executors.base import StrataError
from strata.memory.cache.cache import ExpertCache
from strata.memory.driver.errors import fatal_if_refused
from strata.memory.loan.tail_loan import TailLoan


class Growth:
    """decode_bytes: mapped while decoding, a boundary of pieces; reserve: bytes that stay free when the cache grows;
    decode_slots: that lie wholly in `decode_bytes`.

    Raises StrataError when `decode_bytes` is no boundary of the arena's pieces or leaves no slot.
    """

    def __init__(self, cache: ExpertCache, decode_bytes: int, reserve: int = 0) -> None:
        boundaries = [*cache.arena.starts[1:], cache.arena.reserved]
        if decode_bytes not in boundaries:
            raise StrataError(
                f"decode size of {decode_bytes} bytes: expected a boundary of pieces, e.g. {boundaries[-1]}"
            )
        self.cache, self.decode_bytes, self.reserve = cache, decode_bytes, reserve
        self.decode_slots = cache.slots.within(decode_bytes)
        if self.decode_slots < 1:
            raise StrataError(f"decode size of {decode_bytes} bytes: it holds no slot")

    def settle(self) -> None:
        """Let swaps land and the card come to rest. Raises Fatal."""
        self.cache.land()
        with fatal_if_refused("synchronize before a release"):
            self.cache.driver.synchronize()

    def grow(self) -> int:
        """Map further pieces into what is free beyond the reserve; stops where the card refuses. Returns mapped bytes.

        Raises DriverError when free memory cannot be read, Fatal when the context is lost.
        """
        arena = self.cache.arena
        arena.retry_zombies()
        free, _ = self.cache.driver.mem_info()
        return arena.grow(arena.mapped_bytes + max(0, free - self.reserve)).mapped

    def shrink(self, tail: TailLoan) -> None:
        """Back to the decode size: no row of what goes is resident, and the prompt loan forgets what goes.

        Raises DriverError when an unmap is refused, Fatal as the arena does.
        """
        cache = self.cache
        if cache.arena.mapped_bytes <= self.decode_bytes:
            return
        with cache.guard():
            if cache.residency.resident(self.decode_slots):
                cache.take(tail.ledger, self.decode_slots)
            cache.arena.shrink(self.decode_bytes)
            tail.forget(self.decode_slots)
