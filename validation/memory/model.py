"""What an expert cache and its loans should do, said once more in plain words: dictionaries, lists and brute force.

Nothing here is shared with strata.memory but the sizes. It knows no driver, no copies and no faults: only which expert
is in which slot, what is lent, and what each request is answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

MIB = 1 << 20
SPARE = 128 * MIB
REFUSED = "refused"


@dataclass
class Model:
    """off: offsets of slots, one more than there are; layers: the layer a slot is cut for, -1 for any; sizes: of the
    pieces; blobs: bytes of an expert by layer; experts: of a layer; total: bytes of the card; fixed: bytes on it that
    nobody lends; swaps: most of a round."""

    off: Sequence[int]
    layers: Sequence[int]
    sizes: Sequence[int]
    blobs: Sequence[int]
    experts: int
    total: int
    fixed: int
    swaps: int
    where: dict[int, int] = field(default_factory=dict)
    usage: dict[int, float] = field(default_factory=dict)
    pieces: int = 0
    landing: dict[int, int] = field(default_factory=dict)
    lent: dict[int, int] | None = None
    lent_pieces: int = 0
    answer: tuple[int, int, int] = (0, 0, 0)
    prompt: dict[int, int] | None = None
    prompt_first: int = -1
    evicted: dict[int, int] = field(default_factory=dict)  # row by slot: a row may have left several
    borrowed: int = 0
    reading: str = ""  # how a prompt is read at the moment, when the phases have it
    moved: int = 0  # pieces that came or went with the prompt that is read

    @property
    def slots(self) -> int:
        return len(self.off) - 1

    @property
    def mapped(self) -> int:
        return sum(self.sizes[: self.pieces])

    @property
    def free(self) -> int:
        return self.total - self.fixed - self.mapped - self.borrowed

    def usable(self) -> int:
        """Slots that lie wholly in mapped pieces."""
        return sum(1 for slot in range(self.slots) if self.off[slot + 1] <= self.mapped)

    def rows(self) -> Iterable[int]:
        return range(len(self.blobs) * self.experts)

    def owned(self, row: int) -> bool:
        """A loan brings it back: nobody else may."""
        return row in (self.lent or {}) or row in (self.prompt or {})

    def land(self) -> None:
        self.where |= self.landing
        self.landing = {}

    def lend(self, mib: int, least: int = 0, absent: frozenset[int] = frozenset()) -> tuple[int, int, int] | str:
        """What LEND answers: MiB, experts, chunk (0: the prompt path owns its memory). least: slots that must stay for
        a prompt; absent: rows that the host does not hold, so that they cannot leave."""
        self.land()
        if self.lent is not None:
            return self.answer
        if self.prompt is not None or self.evicted or mib < 1:
            return REFUSED
        # The fewest last pieces with enough bytes; one must stay.
        for count in range(1, self.pieces):
            tail = sum(self.sizes[self.pieces - count : self.pieces])
            if tail >= mib * MIB:
                break
        else:
            return REFUSED
        boundary = self.mapped - tail
        first = min(slot for slot in range(self.slots) if self.off[slot + 1] > boundary)
        if first < max(1, least) or any(slot >= first and row in absent for row, slot in self.where.items()):
            return REFUSED
        self.lent = self._take(first)
        self.lent_pieces = count
        self.pieces -= count
        self.answer = (tail // MIB, len(self.lent), 0)
        return self.answer

    def reclaim(self) -> tuple[int, int, int] | str:
        """What RECLAIM answers: MiB, experts, milliseconds (none on a stopped clock)."""
        self.land()
        if self.lent is None:
            return (0, 0, 0)
        if self.prompt is not None or self.evicted:
            return REFUSED
        need = sum(self.sizes[self.pieces : self.pieces + self.lent_pieces])
        if self.free < need + SPARE:
            return REFUSED
        self.pieces += self.lent_pieces
        back = (self.answer[0], len(self.lent), 0)
        self.where |= self.lent
        self.lent = None
        return back

    def begin_swaps(self) -> None:
        """A round of the adaptive tier: misses that are used more than residents of their layer take their slots."""
        if self.landing:
            return
        found: list[tuple[float, int, int]] = []
        for layer in range(len(self.blobs)):
            rows = [row for row in self.rows() if row // self.experts == layer and not self.owned(row)]
            misses = [row for row in rows if row not in self.where and self.usage.get(row, 0.0) >= 2.0]
            victims = [row for row in rows if row in self.where]
            misses.sort(key=lambda row: (-self.usage.get(row, 0.0), row))
            victims.sort(key=lambda row: (self.usage.get(row, 0.0), row))
            for miss, victim in zip(misses, victims, strict=False):
                gain = self.usage.get(miss, 0.0) - self.usage.get(victim, 0.0)
                if self.usage.get(miss, 0.0) < self.usage.get(victim, 0.0) + 1.5:
                    break
                found.append((gain, miss, victim))
        found.sort(key=lambda item: (-item[0], item[1]))
        self.usage = {row: 0.7 * count for row, count in self.usage.items()}
        for _, miss, victim in found[: self.swaps]:
            self.landing[miss] = self.where.pop(victim)

    def admit(self, row: int) -> int:
        """The slot that an expert is let into, -1 for none."""
        if row in self.where or row in self.landing or self.owned(row):
            return -1
        taken = {*self.where.values(), *self.landing.values(), *self.evicted}
        taken |= {*(self.lent or {}).values(), *(self.prompt or {}).values()}
        if self.prompt is not None:
            taken |= set(range(self.prompt_first, self.slots))
        layer = row // self.experts
        for slot in range(self.usable()):
            size = self.off[slot + 1] - self.off[slot]
            if slot not in taken and self.layers[slot] in (-1, layer) and size >= self.blobs[layer]:
                self.where[row] = slot
                return slot
        return -1

    def lend_prompt(self, nbytes: int, keep: int, most: int | None = None) -> int | str:
        """The first slot that a prompt borrows; most: the last one that it may be."""
        if keep > self.slots:
            return REFUSED
        fitting = [slot for slot in range(keep, self.usable() + 1) if self.mapped - self.off[slot] >= nbytes]
        if nbytes < 1 or not fitting:
            return REFUSED
        first = max(fitting) if most is None else min(max(fitting), most)
        self.land()
        if self.prompt is not None and first != self.prompt_first:
            self.refill_prompt()
        self.prompt = (self.prompt or {}) | self._take(first)
        self.prompt_first = first
        return first

    def refill_prompt(self) -> None:
        self.where |= self.prompt or {}
        self.prompt = None

    def others_lend(self) -> bool:
        """Whether something is lent that a prompt which is read differently respects."""
        return self.lent is not None or bool(self.evicted)

    def begin_loan(self, resources: int) -> None:
        """What decoding alone needs goes, and the cache grows into it. resources: bytes."""
        self.land()
        self.fixed -= resources
        before = self.pieces
        while self.pieces < len(self.sizes) and self.free >= self.sizes[self.pieces]:
            self.pieces += 1
        self.moved = self.pieces - before

    def end_loan(self, resources: int) -> None:
        """Back to the decode size; a row whose slot goes does not come back."""
        self.pieces -= self.moved
        self.fixed += resources
        self.prompt = {row: slot for row, slot in (self.prompt or {}).items() if slot < self.usable()}
        self.moved = 0

    def begin_alias(self, need: int, keep: int, head: int) -> int:
        """The fewest last pieces behind `keep` slots that hold `need` bytes with the head's move; the first slot."""
        self.land()
        starts = [sum(self.sizes[:k]) for k in range(self.pieces)]
        whole = [k for k in range(self.pieces) if keep <= self.slots and starts[k] >= self.off[keep]]
        for count in range(len(whole) + 1):
            tail = sum(self.sizes[self.pieces - count : self.pieces])
            if head + tail >= need or count == len(whole):
                break
        boundary = self.mapped - tail
        first = sum(1 for slot in range(self.slots) if self.off[slot + 1] <= boundary)
        self.prompt, self.prompt_first = self._take(first), first
        self.pieces, self.fixed, self.moved = self.pieces - count, self.fixed + tail, count
        return first

    def end_alias(self) -> None:
        """The pieces come back."""
        back = sum(self.sizes[self.pieces : self.pieces + self.moved])
        self.pieces, self.fixed, self.moved = self.pieces + self.moved, self.fixed - back, 0

    def shrink(self, keep: int) -> int | str:
        """How many rows leave a cache that is made smaller."""
        self.land()
        if self.lent is not None or self.prompt is not None:
            return REFUSED
        pieces = next((k for k in range(self.pieces) if sum(self.sizes[:k]) >= keep), self.pieces)
        boundary = sum(self.sizes[:pieces])
        first = sum(1 for slot in range(self.slots) if self.off[slot + 1] <= boundary)
        if first == 0:
            return REFUSED
        gone = self._take(first)
        self.evicted |= {slot: row for row, slot in gone.items()}
        self.pieces = pieces
        return len(gone)

    def grow(self, want: int) -> int | str:
        """How many rows enter a cache that is made larger."""
        self.land()
        if self.lent is not None or self.prompt is not None:
            return REFUSED
        if want >= self.off[-1]:
            want = sum(self.sizes)
        while self.pieces < len(self.sizes) and self.mapped + self.sizes[self.pieces] <= want:
            if self.free < self.sizes[self.pieces]:
                break
            self.pieces += 1
        entered = 0
        taken: list[tuple[int, int]] = []
        for slot in sorted(slot for slot in self.evicted if slot < self.usable()):
            row = self.evicted.pop(slot)
            if row in self.where:
                taken.append((row, slot))
            else:
                self.where[row] = slot
                entered += 1
        for row, slot in taken:
            layer = row // self.experts
            misses = [
                other
                for other in self.rows()
                if other // self.experts == layer and other not in self.where and not self.owned(other)
            ]
            if misses:
                self.where[max(misses, key=lambda other: (self.usage.get(other, 0.0), -other))] = slot
                entered += 1
        return entered

    def _take(self, first: int) -> dict[int, int]:
        gone = {row: slot for row, slot in self.where.items() if slot >= first}
        for row in gone:
            del self.where[row]
        return gone
