"""The engine that a card is tried with: experts of the real sizes in page-locked memory, a cache of 2 GiB, a head.

The same is made in miniature over a fake driver, so that whatever runs on a card has run before without one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from strata.formats import FORMATS
from strata.memory.arena.arena import open_arena
from strata.memory.arena.pieces import MiB
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.geometry import ExpertGeometry, blob_bytes
from strata.memory.cache.opening import open_cache
from strata.memory.cache.pattern import pattern, patterned
from strata.memory.cache.slots import sized_slots
from strata.memory.cache.source import total_bytes
from strata.memory.driver.fake import FakeCard, FakeDriver
from strata.memory.driver.real import RealDriver
from strata.memory.loan.head import HeadAlias
from strata.memory.loan.lending import SPARE_BYTES, Lending
from strata.memory.loan.output_head import Head
from strata.memory.loan.prompt_path import PromptPath
from strata.memory.loan.tail_loan import TailLoan
from strata.memory.plan.shapes import ModelShape
from validation.memory.borrower import Borrower, FakeBorrower, ProcessBorrower
from validation.memory.prompt_world import KEEP, SmallShape
from validation.memory.world import BLOBS, GRANULARITY, PIECE

#: Formats of gate and up, and of down, of the three kinds of layers; width of the model and of an expert.
PAIRS = (("iq3_xxs", "iq4_nl"), ("iq2_xs", "iq4_nl"), ("iq4_xs", "q2_0"))
WIDTH, EXPERT_WIDTH = 2560, 640


@dataclass(frozen=True)
class Sizes:
    """blobs: bytes of an expert by layer; experts: of a layer; cache: bytes of slots; lend: MiB."""

    blobs: tuple[int, ...]
    experts: int
    cache: int
    piece: int
    lend: int
    head: int
    fresh: int
    shape: Any
    keep: int


def real_sizes() -> Sizes:
    """What a card is tried with: experts of 2,176,000 bytes and others, LEND 1,400 of 2,048 MiB, a head of 417 MiB."""
    blobs = tuple(blob_bytes(WIDTH, EXPERT_WIDTH, FORMATS[one], FORMATS[two]) for one, two in PAIRS)
    return Sizes(blobs, 400, 2048 * MiB, 64 * MiB, 1400, 417 * MiB, 2000, ModelShape(), 128)


def small_sizes() -> Sizes:
    """The same in miniature."""
    return Sizes(BLOBS, 16, 30 * max(BLOBS), PIECE, 1, 150_001, 2000, SmallShape(), KEEP)


@dataclass
class BenchWorld:
    """One process on a card, real or not. borrow: another process that takes so many bytes, or all but so many."""

    sizes: Sizes
    driver: Any
    borrow: Callable[[int], Borrower]
    borrow_all_but: Callable[[int], Borrower]
    cache: ExpertCache = field(init=False)
    lending: Lending = field(init=False)

    def open(self) -> None:
        """Fill the host's memory with experts, and open the cache over them."""
        sizes = self.sizes
        geometry = ExpertGeometry(len(sizes.blobs), sizes.experts, sizes.blobs)
        self.host = self.driver.page_locked(total_bytes(geometry))
        self.source = patterned(geometry, self.host)
        self.profile = [(row * 7) % geometry.rows for row in range(geometry.rows)]
        self.slots = sized_slots(geometry, self.profile, sizes.cache)
        self.reopen()

    def reopen(self) -> None:
        """Open the cache over the experts that are there."""
        self.cache = open_cache(self.driver, self.source, self.slots, self.profile, self.sizes.piece)
        self.lending = Lending(self.cache, verify_all=True)

    def alias(self) -> HeadAlias:
        """A head of its own, whose memory prompts borrow."""
        content = self.driver.page_locked(self.sizes.head)
        content[:] = pattern(1 << 20, self.sizes.head)
        head = Head(open_arena(self.driver, self.sizes.head, self.sizes.piece), content)
        path = PromptPath(self.driver, self.sizes.shape, 4096)
        return HeadAlias(head, TailLoan(self.cache), path, keep=self.sizes.keep, most_chunk=4096)

    def close(self) -> None:
        """Give everything back."""
        self.cache.close()
        self.driver.close()


def real_world() -> BenchWorld:
    """On the card of this machine. Raises ExecutorUnavailable, telling what to do, when there is none."""
    return BenchWorld(
        real_sizes(),
        RealDriver(),
        lambda nbytes: ProcessBorrower(mib=-(-nbytes // MiB)),
        lambda nbytes: ProcessBorrower(leave=nbytes // MiB, slow=1.0),
    )


def fake_world() -> BenchWorld:
    """On a fake card."""
    card = FakeCard(SPARE_BYTES + 32 * MiB)
    driver = FakeDriver(card, GRANULARITY)
    return BenchWorld(
        small_sizes(),
        driver,
        lambda nbytes: FakeBorrower(card, nbytes, GRANULARITY),
        lambda nbytes: FakeBorrower(card, card.total - card.used - nbytes, GRANULARITY),
    )
