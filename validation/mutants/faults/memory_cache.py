"""Mutants of the expert cache: its table, slots, swaps, views, and what checks them."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

_MEMORY = "strata/memory/"
_TRACES = ("tests/validation/memory/test_situations.py", "tests/validation/memory/test_machine.py")
_UNIT = "tests/strata/memory/"


def _fault(name: str, file: str, old: str, new: str, why: str, *tests: str, also: tuple[Edit, ...] = ()) -> Mutant:
    """tests: names of files beside strata/memory's tests; the random traces when there are none."""
    judges = tuple(f"{_UNIT}{test}.py" for test in tests) or _TRACES
    return Mutant(f"memory-{name}", f"{_MEMORY}{file}.py", old, new, why, also=also, tests=judges)


_FAULTS = (
    _fault(
        "swap-promoted-in-flight",
        "cache/adaptive",
        "                self.cache.rest()\n                landed",
        "                landed",
        "A swap's row names its slot before the copy has landed.",
    ),
    _fault(
        "swap-below-a-window",
        "cache/adaptive",
        "                self.cache.rest()  #",
        "                #",
        "A slot is overwritten while a queued window still reads it.",
        "cache/test_adaptive",
    ),
    _fault(
        "lent-below-a-window",
        "cache/cache",
        "            self.rest()\n            pairs = self.residency.resident(first, stop)\n",
        "            pairs = self.residency.resident(first, stop)\n",
        "The table changes, and a prompt writes over slots, while a queued window still reads them.",
        "cache/test_adaptive",
    ),
    _fault(
        "filled-below-a-window",
        "cache/cache",
        "            self.rest()\n            self.write(pairs)\n",
        "            self.write(pairs)\n",
        "The table changes while a queued window still reads it.",
        "cache/test_adaptive",
    ),
    _fault(
        "swap-lands-unqueued",
        "cache/adaptive",
        "                self.cache.write(pairs)\n                self._landing = pairs",
        "                self._landing = pairs\n                self.cache.write(pairs)",
        "After an interrupt a swap that was never queued is still to land.",
        "loan/test_interrupts",
    ),
    _fault(
        "interrupt-forgotten",
        "cache/cache",
        "        if isinstance(error, StrataError) and not isinstance(error, Fatal):\n",
        "        if not isinstance(error, Fatal):\n",
        "A change that an interrupt left half made counts as made.",
        "loan/test_interrupts",
    ),
    _fault(
        "fill-promoted-in-flight",
        "cache/cache",
        "  # while the copies run\n            self.wait()\n",
        "\n",
        "Rows name their slots before the copies have landed.",
    ),
    _fault(
        "victim-still-named",
        "cache/residency",
        "        self._slot[row] = self._row[slot] = MISS\n",
        "        self._row[slot] = MISS\n",
        "An expert that left its slot is still found there.",
    ),
    _fault(
        "slot-still-taken",
        "cache/residency",
        "        self._slot[row] = self._row[slot] = MISS\n",
        "        self._slot[row] = MISS\n",
        "A slot that an expert has left counts as taken.",
    ),
    _fault(
        "swap-without-upload",
        "cache/adaptive",
        "                residency.upload()\n",
        "",
        "The device's table names a slot that is being overwritten.",
    ),
    _fault(
        "promotion-without-upload",
        "cache/cache",
        "            try:\n                self.residency.upload()\n            except Fatal:\n",
        "            try:\n                pass\n            except Fatal:\n",
        "Rows are promoted on the host alone.",
    ),
    _fault(
        "view-outlives-mapping",
        "driver/views",
        "        if self._now() != self._stamps:\n",
        "        if not self._now():\n",
        "A view of memory that was unmapped and mapped again shows what is there now.",
        "driver/test_driver_contract",
    ),
    _fault(
        "mappings-of-one-generation",
        "driver/views",
        "made = Mapping(va, size, handle, next(self._generations))",
        "made = Mapping(va, size, handle, 1)",
        "All mappings have one generation.",
        "driver/test_driver_contract",
    ),
    _fault(
        "view-of-a-new-tenant",
        "cache/cache",
        " or self._cache.stamps[self.slot] != self._stamp:",
        ":",
        "A view of a slot that was written again since shows the new bytes.",
        "cache/test_cache",
    ),
    _fault(
        "view-of-another-row",
        "cache/cache",
        "if self._cache.residency.slot(self.row) != self.slot or ",
        "if ",
        "A view of a slot whose row was demoted is still good.",
        "cache/test_cache",
    ),
    _fault(
        "slot-in-flight-is-free",
        "cache/cache",
        "        free[[*taken, *self.pending]] = False\n",
        "        free[[*taken]] = False\n",
        "An expert is admitted to a slot that another one is being copied into.",
        also=(
            Edit(
                f"{_MEMORY}cache/cache.py",
                " or named[slot] != MISS or slot in self.pending:",
                " or named[slot] != MISS:",
            ),
        ),
    ),
    _fault(
        "lent-slot-is-free",
        "cache/cache",
        "            if book.first is not None:\n                free[book.first :] = False\n",
        "            pass\n",
        "An expert is admitted to an empty slot that a prompt writes over.",
    ),
    _fault(
        "unmapped-slot-is-free",
        "cache/cache",
        "        free[self.usable_slots() :] = False\n",
        "",
        "An expert is admitted to a slot that shrinking has unmapped.",
        also=(Edit(f"{_MEMORY}cache/cache.py", "                if slot >= usable or ", "                if "),),
    ),
    _fault(
        "straddling-slot-is-usable",
        "cache/slots",
        '        return max(0, int(np.searchsorted(self.off, nbytes, side="right")) - 1)\n',
        '        return min(len(self), int(np.searchsorted(self.off, nbytes, side="left")))\n',
        "A slot of which only the first bytes are mapped counts as usable.",
        "cache/test_slots",
    ),
    _fault(
        "full-layer-takes-slot-0",
        "cache/admission",
        "next((slot for slot in waiting[layer] if left[slot]), None)",
        "next((slot for slot in waiting[layer] if left[slot]), 0)",
        "An expert that finds no free slot is given slot 0.",
        "cache/test_admission",
    ),
    _fault(
        "layer-takes-any-slot",
        "cache/admission",
        "fits = (layers == ANY_LAYER) | (layers == layer)",
        "fits = (layers == ANY_LAYER) | (layers >= 0)",
        "An expert enters a slot that was cut for another layer.",
        "cache/test_admission",
    ),
    _fault(
        "hotter-victim",
        "cache/adaptive",
        "            if usage[incoming] < usage[outgoing] + pace.margin:\n                break\n",
        "",
        "An expert that is used now is evicted for one that is used less.",
    ),
    _fault(
        "hottest-victim-first",
        "cache/adaptive",
        'victims = victims[np.argsort(usage[victims], kind="stable")]',
        'victims = victims[np.argsort(-usage[victims], kind="stable")]',
        "The most used resident expert of a layer is the first to go.",
    ),
    _fault(
        "lent-row-is-a-candidate",
        "cache/cache",
        " or any(book.exclusive and book.owns(row) for book in self.loan_books)",
        "",
        "An expert whose slot is lent becomes resident elsewhere, and is in two slots after the loan.",
    ),
    _fault(
        "row-in-flight-is-a-candidate",
        "cache/cache",
        "return row in self.pending.values() or any(",
        "return any(",
        "An expert that is on its way to a slot is admitted to another one.",
    ),
    _fault(
        "last-byte-of-a-copy",
        "cache/cache",
        "copy_in_all(copies, self.stream)",
        "copy_in_all([(va, blob[:-1]) for va, blob in copies], self.stream)",
        "The last byte of a slot stays that of its former tenant.",
    ),
    _fault(
        "slot-of-its-row",
        "cache/cache",
        "            copies = ranges(self.arena, self.slots, self.source, pairs)\n",
        "            elsewhere = [(row, row % len(self.slots)) for row, _ in pairs]\n"
        "            copies = ranges(self.arena, self.slots, self.source, elsewhere)\n",
        "A copy goes to the slot with the row's number.",
    ),
    _fault(
        "table-in-the-arena",
        "cache/cache",
        "        self.base, self.off = self.arena.base, slots.off.copy()\n",
        "        table = self.arena.reserved - 4 * self.geometry.rows\n"
        "        self.residency._arena.base = self.arena.base + table\n"
        "        self.base, self.off = self.arena.base, slots.off.copy()\n",
        "The residency table lies in memory that is lent.",
        "cache/test_cache",
        "loan/test_lending",
    ),
    _fault(
        "fatal-forgotten",
        "cache/cache",
        "        self.fatal = self.fatal or fatal\n        return self.fatal\n",
        "        return fatal\n",
        "After a fatal end the cache goes on.",
        "loan/test_lending",
    ),
    _fault(
        "sample-of-nothing",
        "cache/verification",
        "    if not pairs:\n        return []\n",
        "",
        "The slots to look at are chosen from a loan that had no expert.",
        "cache/test_verification",
    ),
    _fault(
        "sample-without-straddler",
        "cache/verification",
        "for slot in (slots.at(boundary - 1), slots.at(boundary)) if slot is not None",
        "for slot in (slots.at(boundary),) if slot is not None",
        "The slot before a piece's boundary is not verified.",
        "cache/test_verification",
    ),
    _fault(
        "verified-by-number",
        "cache/verification",
        "    starts = slots.off[[slot for _, slot in pairs]].tolist()\n",
        "    starts = [int(slots.off[pairs[0][1] + n]) for n, _ in enumerate(pairs)]\n",
        "Slots are read one after another, whether they are the loan's or not.",
        "cache/test_verification",
        "loan/test_lending",
    ),
    _fault(
        "count-not-asked",
        "cache/verification",
        "    if found.compared != expected:\n",
        "    if found.compared > expected:\n",
        "A comparison that compared nothing finds no difference.",
        "cache/test_verification",
    ),
    _fault(
        "another-expert-named",
        "cache/verification",
        "row, slot = pairs[found.index]",
        "row, slot = pairs[found.index - 1]",
        "The slot before the wrong one is named.",
        "cache/test_verification",
    ),
    _fault(
        "invariant-of-first-bytes",
        "cache/invariants",
        "        if not np.array_equal(got, expected):\n",
        "        if not np.array_equal(got[:64], expected[:64]):\n",
        "Only the beginning of a slot is held against its expert.",
        "cache/test_invariants",
    ),
    _fault(
        "invariant-without-device",
        "cache/invariants",
        "        if not cache.residency.stale and not np.array_equal(device, host):\n",
        "        if cache.residency.stale and not np.array_equal(device, host):\n",
        "The device's table is compared when it may differ, and not when it may not.",
        "cache/test_invariants",
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of the cache."""
    yield from _FAULTS
