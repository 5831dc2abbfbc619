"""Mutants of lending: pieces mapped and unmapped, LEND and RECLAIM, prompt loans, the head's alias, their order."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

_MEMORY = "strata/memory/"
_FAULTED = "tests/validation/memory/test_exhaustive.py"
_TRACES = "tests/validation/memory/test_machine.py"
_SITUATIONS = "tests/validation/memory/test_situations.py"
_UNIT = "tests/strata/memory/"


def _fault(name: str, file: str, old: str, new: str, why: str, *tests: str, also: tuple[Edit, ...] = ()) -> Mutant:
    """tests: files, or names of files beside strata/memory's tests."""
    judges = tuple(test if test.startswith("tests/") else f"{_UNIT}{test}.py" for test in tests)
    return Mutant(f"memory-{name}", f"{_MEMORY}{file}.py", old, new, why, also=also, tests=judges)


_PIECES = (
    _fault(
        "unmapped-under-a-reader",
        "arena/arena",
        "        if last == self.pieces:\n            return Given(0, 0)\n"
        '        with fatal_if_refused("synchronize before the unmap of pieces"):\n'
        "            self.driver.synchronize()\n",
        "        if last == self.pieces:\n            return Given(0, 0)\n",
        "Pieces are unmapped while a kernel still reads them.",
        _UNIT + "arena/test_arena.py",
        _SITUATIONS,
        _TRACES,
    ),
    _fault(
        "refused-map-not-unwound",
        "arena/arena",
        "                self._release(handle, size)\n                return Grown(self.mapped_bytes, error)\n",
        "                return Grown(self.mapped_bytes, error)\n",
        "Memory that could not be mapped is nobody's.",
        _FAULTED,
        "arena/test_arena",
    ),
    _fault(
        "map-after-all",
        "arena/mapping",
        "    try:\n        driver.map(va, size, handle)\n    except DriverError as error:\n",
        "    try:\n        driver.map(va, size, handle)\n    except ZeroDivisionError as error:\n",
        "A map that failed after its effect stays.",
        _FAULTED,
        "arena/test_arena",
    ),
    _fault(
        "no-access-is-ready",
        "arena/mapping",
        "            driver.unmap(va, size)\n        raise\n",
        "            driver.unmap(va, size)\n        return\n",
        "A piece without access counts as mapped.",
        "arena/test_arena",
        "loan/test_lending",
    ),
    _fault(
        "access-forgotten",
        "arena/mapping",
        "    try:\n        driver.set_access(va, size)\n    except DriverError as error:\n"
        '        end_if_lost(error, f"set_access at {va:#x}")\n        with',
        "    try:\n        pass\n    except DriverError as error:\n"
        '        end_if_lost(error, f"set_access at {va:#x}")\n        with',
        "Mapped pieces are never given access.",
        "arena/test_arena",
    ),
    _fault(
        "one-handle-in-two-ranges",
        "arena/arena",
        "                lifted.insert(0, self._unmap_last()[0])\n",
        "                lifted.insert(0, self._handles.pop())\n",
        "Memory that a prompt borrows stays mapped in the cache as well.",
        "loan/test_head",
        "arena/test_arena",
    ),
    _fault(
        "unmap-beyond-the-piece",
        "arena/arena",
        "        unmap_piece(self.driver, self.base + self.starts[k], size, handle)\n",
        "        unmap_piece(self.driver, self.base + self.starts[k], self.reserved - self.starts[k], handle)\n",
        "An unmap covers all that lies behind a piece, mapped or not.",
        "arena/test_arena",
    ),
    _fault(
        "zombie-forgotten",
        "arena/arena",
        '                end_if_lost(error, "release of a piece")\n                return False\n',
        '                end_if_lost(error, "release of a piece")\n'
        "                self.driver.unreleased.strike(handle)\n                return False\n",
        "Memory whose release failed is never released again.",
        "arena/test_arena",
    ),
    _fault(
        "zombie-for-ever",
        "arena/arena",
        "            if not again or error.code != Code.INVALID_VALUE:\n",
        "            if True:\n",
        "A handle that the driver does not know is released again and again.",
        "arena/test_arena",
        "loan/test_lending",
    ),
    _fault(
        "zombie-is-released",
        "arena/arena",
        "            released += size if self._release(handle, size) else 0\n",
        "            self._release(handle, size)\n            released += size\n",
        "Memory that a failed release keeps is reported as free.",
        "arena/test_arena",
    ),
    _fault(
        "keep-rounds-down",
        "arena/arena",
        "        last = next((k for k in range(self.pieces) if self.starts[k] >= keep), self.pieces)\n"
        "        if last == self.pieces:\n",
        "        last = next((k for k in range(self.pieces) if self.starts[k] + self.sizes[k] > keep), self.pieces)\n"
        "        if last == self.pieces:\n",
        "Shrinking gives away the piece that still holds bytes to be kept.",
        "arena/test_arena",
    ),
    _fault(
        "last-piece-not-padded",
        "arena/pieces",
        "    whole, rest = divmod(round_up(total, granularity), piece)\n",
        "    whole, rest = divmod(total, piece)\n",
        "The last piece is no multiple of the granularity.",
        "arena/test_pieces",
    ),
    _fault(
        "tail-of-everything",
        "arena/pieces",
        "    for first in range(len(sizes) - 1, 0, -1):\n",
        "    for first in range(len(sizes) - 1, -1, -1):\n",
        "The first piece may be lent, and nothing is left.",
        "arena/test_pieces",
    ),
)

_LENDING = (
    _fault(
        "straddler-stays-named",
        "loan/lending",
        "first = 0 if last is None else cache.slots.within(last.boundary)",
        "first = 0 if last is None else cache.slots.within(last.boundary) + 1",
        "The slot that the boundary of a loan cuts is still named.",
        "loan/test_lending",
        _SITUATIONS,
        _TRACES,
    ),
    _fault(
        "lent-before-demotion",
        "loan/lending",
        "            experts = self.cache.take(self.book, loan.first)\n            try:\n"
        "                given = self.cache.arena.shrink(loan.tail.boundary)\n",
        "            try:\n                given = self.cache.arena.shrink(loan.tail.boundary)\n"
        "                experts = self.cache.take(self.book, loan.first)\n",
        "Memory goes while rows still name it.",
        "loan/test_lending",
    ),
    _fault(
        "undo-left-out",
        "loan/lending",
        "                self._undo(loan, error)\n",
        "",
        "A refused LEND leaves its rows in the loan.",
        "loan/test_lending",
    ),
    _fault(
        "lend-is-not-idempotent",
        "loan/lending",
        '            if self.loan is not None:\n                self._stays_out(self.loan, "LEND")\n'
        "                return self.loan.answer\n",
        "",
        "A second LEND lends more.",
        _TRACES,
    ),
    _fault(
        "swaps-still-flying",
        "loan/lending",
        '            raise Refused(f"cannot lend: {obstacle}")\n        self.cache.land()\n',
        '            raise Refused(f"cannot lend: {obstacle}")\n',
        "Memory is lent into which a swap is still being copied.",
        _SITUATIONS,
        _TRACES,
    ),
    _fault(
        "two-owners-of-the-tail",
        "loan/lending",
        '        if other:\n            raise Refused(f"LEND:',
        '        if other is None:\n            raise Refused(f"LEND:',
        "Memory that a prompt borrows is lent to another process.",
        _SITUATIONS,
        _TRACES,
    ),
    _fault(
        "reclaim-without-room",
        "loan/lending",
        "        if need and free < need + SPARE_BYTES:\n",
        "        if need and free < need:\n",
        "Memory is taken back although the card would be full, and pages.",
        "loan/test_lines",
    ),
    _fault(
        "reclaim-counts-mapped-pieces",
        "loan/lending",
        "self._await_memory(loan.mapped - arena.mapped_bytes)",
        "self._await_memory(loan.tail.nbytes)",
        "A second try waits for memory that it has already.",
        "loan/test_lending",
    ),
    _fault(
        "reclaim-without-copies",
        "cache/cache",
        "            self.write(pairs)\n            compared",
        "            compared",
        "Slots come back at their addresses with foreign bytes.",
        "loan/test_lending",
    ),
    _fault(
        "promoted-before-verified",
        "cache/cache",
        "            verified = verify(self.arena, self.slots, self.source, check, len(pairs), compared)\n"
        "            self.promote(pairs, book)\n",
        "            self.promote(pairs, book)\n"
        "            verified = verify(self.arena, self.slots, self.source, check, len(pairs), compared)\n",
        "Rows name their slots before these are verified.",
        "loan/test_lending",
    ),
    _fault(
        "refused-map-ends-the-loan",
        "loan/lending",
        '                self._stays_out(loan, f"RECLAIM: {refusal}")\n',
        '                self._stays_out(loan, f"RECLAIM: {refusal}")\n                self.loan = None\n',
        "After a refused RECLAIM nobody knows of the loan.",
        "loan/test_lending",
    ),
    _fault(
        "refused-map-keeps-memory",
        "loan/lending",
        '                self._stays_out(loan, f"RECLAIM: {refusal}")\n',
        "",
        "LEND repeats an answer while a refused RECLAIM holds part of the memory.",
        "loan/test_lending",
        also=(Edit(f"{_MEMORY}loan/lending.py", '                self._stays_out(self.loan, "LEND")\n', ""),),
    ),
    _fault(
        "loan-not-ended",
        "loan/lending",
        "            self.verified = self.cache.give_back(self.book, check)\n            self.loan = None\n",
        "            self.verified = self.cache.give_back(self.book, check)\n",
        "RECLAIM leaves a loan without rows.",
        "loan/test_lines",
    ),
    _fault(
        "verified-of-the-last-time",
        "loan/lending",
        "            self.verified = self.cache.give_back(self.book, check)\n",
        "            self.cache.give_back(self.book, check)\n",
        "RECLAIM reports what an earlier one has verified.",
        "loan/test_lending",
    ),
    _fault(
        "switch-unread-by-lending",
        "loan/lending",
        "verifies_all() if verify_all is None else verify_all",
        "bool(verify_all)",
        "STRATA_VERIFY_RECLAIM has no effect on RECLAIM.",
        "loan/test_lines",
    ),
    _fault(
        "switch-unread-by-alias",
        "loan/head",
        "verifies_all() if verify_all is None else verify_all",
        "bool(verify_all)",
        "STRATA_VERIFY_RECLAIM has no effect on the head's alias.",
        "tests/validation/memory/test_loan_engine.py",
    ),
    _fault(
        "switch-unread-by-loan",
        "loan/loan_switches",
        "field(default_factory=verifies_all)",
        "False",
        "STRATA_VERIFY_RECLAIM has no effect on prompt loans.",
        "tests/validation/memory/test_loan_engine.py",
    ),
    _fault(
        "lendable-after-the-end",
        "loan/lines",
        "self.status is not None or self.lending.obstacle()",
        "self.lending.obstacle()",
        "INFO offers a loan after a fatal end.",
        "loan/test_lines",
    ),
    _fault(
        "granules-out-of-the-reserve",
        "cache/cache_size",
        " // granularity * granularity // max_blob",
        " // max_blob",
        "What the cache maps beyond its slots is taken from the reserve.",
        "cache/test_cache_size",
        "plan/test_plan",
    ),
    _fault(
        "verify-all-is-a-sample",
        "loan/lending",
        "check = pairs if self.verify_all else self.cache.sample(pairs, loan.tail.first)",
        "check = self.cache.sample(pairs, loan.tail.first)",
        "Every byte is to be verified, and some slots are.",
        "loan/test_lending",
        "tests/validation/memory/test_card_run.py",
    ),
    _fault(
        "low-ram-lends",
        "loan/rejections",
        'what the cache would give up",\n        lambda s: s.low_ram,\n',
        'what the cache would give up",\n        lambda s: False,\n',
        "Memory is lent whose bytes nobody else holds.",
        "loan/test_lines",
    ),
    _fault(
        "rows-without-bytes-are-lent",
        "loan/lending",
        "        if missing:\n            expert = cache.geometry.expert(missing[0])\n",
        "        if False:\n            expert = cache.geometry.expert(missing[0])\n",
        "An expert that the host does not hold becomes a miss.",
        "loan/test_lines",
    ),
    _fault(
        "empty-loan-is-no-loan",
        "cache/loan_book",
        "        return self.first is not None or bool(self._rows)\n",
        "        return bool(self._rows)\n",
        "A prompt that borrows empty slots does not stop LEND.",
        "cache/test_loan_book",
        _SITUATIONS,
        _TRACES,
    ),
    _fault(
        "size-in-hexadecimal",
        "loan/lines",
        """    if re.fullmatch(r"[0-9]+", text) is None:\n        return 0, shown(text)\n""",
        """    if text[:2] == "0x":\n        return int(text, 16), shown(text)\n"""
        """    if re.fullmatch(r"[0-9]+", text) is None:\n        return 0, shown(text)\n""",
        "LEND takes a size that is no decimal number.",
        "loan/test_lines",
    ),
    _fault(
        "size-is-another-number",
        "loan/lines",
        "return min(mib, MOST_MIB), f",
        'return min(mib, MOST_MIB), "" and f',
        "A refused LEND answers with another number than was asked for.",
        "loan/test_lines",
    ),
    _fault(
        "alias-of-one-allocation",
        "loan/rejections",
        '    *_BOTH,\n    _IN_PIECES,\n    _rule("low-ram"',
        '    *_BOTH,\n    _rule("low-ram"',
        "The head's alias is offered over a cache whose pieces cannot be moved.",
        "loan/test_rejections",
    ),
    _fault(
        "plan-less-than-nothing",
        "plan/text",
        "    if plan.left < 0:\n",
        "    if plan.left is None:\n",
        "A plan that does not fit prints a negative size as what is free.",
        "plan/test_command",
    ),
    _fault(
        "fatal-without-exit",
        "loan/lines",
        "        return None if fatal is None else fatal.status\n",
        "        return None\n",
        "After a fatal end the process goes on.",
        "loan/test_lines",
    ),
)

_PROMPTS = (
    _fault(
        "short-prompt-borrows",
        "loan/phases",
        "        if prompt.fresh < self.switches.repeat_tokens:\n",
        "        if prompt.fresh < 0:\n",
        "A short prompt releases what decoding needs.",
        "loan/test_phases",
    ),
    _fault(
        "loan-that-is-off",
        "loan/phases",
        '        if not self.switches.elastic:\n            return "prompt loans are off"\n',
        "",
        "Loans that are switched off are taken.",
        "loan/test_phases",
        also=(
            Edit(
                f"{_MEMORY}loan/loan_switches.py",
                "        if not self.elastic:\n            return ()\n",
                "",
            ),
        ),
    ),
    _fault(
        "state-not-set-again",
        "loan/phases",
        "                self._set(state)\n            except Fatal:\n",
        "            except Fatal:\n",
        "Sampling parameters are lost with the verifier.",
        "loan/test_phases",
    ),
    _fault(
        "restored-before-there-is-room",
        "loan/phases",
        "                self.sizes.shrink(self.tail.book)\n                self.resources.restore()\n",
        "                self.resources.restore()\n                self.sizes.shrink(self.tail.book)\n",
        "Resources are loaded while the cache still has their memory.",
        "loan/test_phases",
    ),
    _fault(
        "refill-compares-a-sample",
        "loan/phases",
        "self.verified = self.tail.refill(self.switches.verify_all)",
        "self.verified = self.tail.refill()",
        "A wrong byte comes back from a prompt although every byte was to be compared.",
        "loan/test_phases",
    ),
    _fault(
        "alias-compares-a-sample",
        "loan/head",
        "pairs if self.verify_all else self.cache.sample(pairs)",
        "self.cache.sample(pairs)",
        "A wrong byte comes back from the alias although every byte was to be compared.",
        "loan/test_head",
    ),
    _fault(
        "layout-below-a-window",
        "loan/prompt_path",
        '        with fatal_if_refused("synchronize before a new layout"):\n            self._driver.synchronize()\n',
        "",
        "A workspace is laid out while something may still use its addresses.",
        "loan/test_tail_loan",
    ),
    _fault(
        "cold-engine-lends",
        "loan/phases",
        "            self._cold.first = len(tail.cache.slots)\n",
        "            self._cold.first = None\n",
        "RECLAIM brings back more than the decode size.",
        "loan/test_phases",
    ),
    _fault(
        "interrupted-phase-goes-on",
        "loan/phases",
        "        except BaseException as error:\n            if self.tail.cache.end_if_fatal(error)",
        "        except Fatal as error:\n            if self.tail.cache.end_if_fatal(error)",
        "A change of phase that was broken off leaves the engine between two phases.",
        "loan/test_phases",
    ),
    _fault(
        "released-in-restore-order",
        "loan/resources",
        "for resource in reversed(self.with_dependents(names)):",
        "for resource in self.with_dependents(names):",
        "A resource goes before what needs it.",
        "loan/test_resources",
    ),
    _fault(
        "graph-of-a-moved-place",
        "driver/graphs",
        "            if place.address != address:\n",
        "            if place.address == 0:\n",
        "A graph is launched that holds an address where nothing is any more.",
        "loan/test_head",
        "loan/test_phases",
        "arena/test_window",
    ),
    _fault(
        "head-not-compared",
        "loan/output_head",
        "        if not found.equal or found.compared != self.content.nbytes:\n",
        "        if False:\n",
        "The head comes back unread.",
        "loan/test_head",
    ),
    _fault(
        "head-not-loaded",
        "loan/head",
        "        if not self.head.present:\n            self.head.load()\n",
        "        self.head._present = True\n",
        "The head comes back with a prompt's bytes.",
        "loan/test_head",
    ),
    _fault(
        "second-try-left-out",
        "loan/head",
        '            try:\n                self._back()\n            except Fatal:\n                raise\n            except StrataError as error:\n                raise Fatal(f"{what}: {error}; the second try failed too") from error\n',
        "            raise\n",
        "A refused way back to decoding is not tried again.",
        _FAULTED,
        "loan/test_head",
    ),
    _fault(
        "refill-without-bytes",
        "loan/tail_loan",
        "        return self.cache.give_back(self.book, pairs if verify_all else self.cache.sample(pairs))\n",
        "        self.cache.promote(pairs, self.book)\n        self.book.first = None\n        return Verified(0, 0, 0)\n",
        "Rows come back from a prompt without their bytes.",
        _SITUATIONS,
        _TRACES,
    ),
    _fault(
        "region-before-what-is-kept",
        "loan/tail_loan",
        "        if nbytes < 1 or nbytes > self.lendable(keep):\n",
        "        if nbytes < 1 or nbytes > self.lendable(0):\n",
        "A prompt borrows slots that should have stayed.",
        _SITUATIONS,
        _TRACES,
        "loan/test_tail_loan",
    ),
)

_EVICTION = (
    _fault(
        "grown-slots-stay-empty",
        "cache/cache_resize",
        "        cache.install(home, home if self.verify_all else cache.sample(home), self.book)\n",
        "        cache.promote(home, self.book)\n",
        "Slots that come back are named without having been filled.",
        _SITUATIONS,
        _TRACES,
    ),
    _fault(
        "back-although-elsewhere",
        "cache/cache_resize",
        "if cache.residency.slot(row) == MISS and first[row] == slot]",
        "if first[row] == slot]",
        "An expert that is resident elsewhere comes back as well.",
        _SITUATIONS,
        _TRACES,
    ),
    _fault(
        "resized-under-a-loan",
        "cache/cache_resize",
        "        if other:\n",
        "        if other is None:\n",
        "A cache is made larger into memory that it has lent.",
        _SITUATIONS,
        _TRACES,
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of lending."""
    yield from (*_PIECES, *_LENDING, *_PROMPTS, *_EVICTION)
