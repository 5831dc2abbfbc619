"""Mutants of memory's arithmetic: what is rounded up and what down, and which piece is somebody's whole; and of LEND,
when it is refused or asked for twice."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_MEMORY = "strata/memory/"
_FAULTED = "tests/validation/memory/test_exhaustive.py"
_TRACES = "tests/validation/memory/test_machine.py"

_ASKED = "        chunk = self._chunk(first)\n"
_OUT = (
    '            if self.loan is not None:\n                self._stays_out(self.loan, "LEND")\n'
    "                return self.loan.answer\n"
)


def _rounding(name: str, file: str, old: str, new: str, why: str) -> Mutant:
    """Judged by the controls."""
    return Mutant(f"memory-{name}", f"{_MEMORY}{file}.py", old, new, why, "router/*", controls=True)


def _traced(name: str, file: str, old: str, new: str, why: str, *tests: str) -> Mutant:
    """Judged by what `validation memory faults` and `traces` run."""
    return Mutant(f"memory-{name}", f"{_MEMORY}{file}.py", old, new, why, tests=tests)


_ROUNDINGS = (
    _rounding(
        "segment-not-rounded",
        "arena/pieces",
        "return round_up(mib * MiB, granularity)",
        "return mib * MiB",
        "A piece of 65 MiB is no multiple of a granularity of 2 MiB.",
    ),
    _rounding(
        "segment-rounded-down",
        "arena/pieces",
        "return round_up(mib * MiB, granularity)",
        "return mib * MiB // granularity * granularity",
        "A piece is smaller than it was asked for.",
    ),
    _rounding(
        "padding-not-counted",
        "loan/workspace_layout",
        "self.used += round_up(nbytes + ALIGN, ALIGN)",
        "self.used += round_up(nbytes, ALIGN)",
        "A workspace that was counted does not fit behind an address that is not aligned.",
    ),
    _rounding(
        "slot-at-the-boundary-is-cut",
        "cache/slots",
        'return max(0, int(np.searchsorted(self.off, nbytes, side="right")) - 1)',
        'return max(0, int(np.searchsorted(self.off, nbytes, side="left")) - 1)',
        "A slot that ends where the memory ends counts as cut.",
    ),
    _rounding(
        "half-a-slot-is-a-slot",
        "cache/slots",
        'return max(0, int(np.searchsorted(self.off, nbytes, side="right")) - 1)',
        'return int(np.searchsorted(self.off, nbytes, side="left"))',
        "A slot of which a part is mapped counts as one.",
    ),
    _rounding(
        "sized-slot-too-small",
        "cache/slots",
        "-(-geometry.blobs[layer] // SLOT_ALIGN) * SLOT_ALIGN",
        "geometry.blobs[layer] // SLOT_ALIGN * SLOT_ALIGN",
        "A slot cut to its expert is too small for it.",
    ),
    _rounding(
        "cache-of-half-pieces",
        "cache/cache_size",
        "(free - mib * MiB - prompt_bytes - later) // granularity * granularity // max_blob",
        "(round_up(free - mib * MiB - prompt_bytes - later, granularity)) // max_blob",
        "Slots are counted that take memory which is not free in whole pieces.",
    ),
    _rounding(
        "slot-that-does-not-fit",
        "cache/cache_size",
        "        if used > budget:\n",
        "        if used - blob >= budget:\n",
        "The slot that does not fit any more is counted.",
    ),
    _rounding(
        "largest-chunk-left-out",
        "loan/prompt_plan",
        "fits, beyond = 0, most_chunk // GRID + 1",
        "fits, beyond = 0, most_chunk // GRID",
        "The largest chunk is never planned.",
    ),
)

_LENDING = (
    _traced(
        "half-owned-piece-lent",
        "loan/head",
        "if arena.starts[k] >= slots.off[keep]]",
        "if arena.starts[k] + arena.sizes[k] > slots.off[keep]]",
        "The piece that the last kept slot reaches into is lent to a prompt.",
        _TRACES,
    ),
    _traced(
        "shrink-rounds-down",
        "cache/cache_resize",
        "for start in arena.starts[: arena.pieces] if start >= keep), arena.mapped_bytes)",
        "for start in reversed(arena.starts[: arena.pieces]) if start <= keep), arena.mapped_bytes)",
        "A smaller cache loses the piece that its last bytes lie in.",
        _TRACES,
    ),
    _traced(
        "lend-takes-before-the-chunk",
        "loan/lending",
        _ASKED,
        "        cache.take(self.book, first)\n" + _ASKED,
        "A LEND that is refused because no prompt chunk would fit has taken its rows.",
        _TRACES,
    ),
    _traced(
        "lend-takes-before-the-host",
        "loan/lending",
        "        if missing:\n            expert = cache.geometry",
        "        cache.take(self.book, first)\n        if missing:\n            expert = cache.geometry",
        "A LEND that is refused because the host does not hold an expert has taken its rows.",
        _FAULTED,
    ),
    _traced(
        "lend-takes-before-its-size",
        "loan/lending",
        "        if last is None or first == 0:\n",
        "        cache.take(self.book, max(first, 1))\n        if last is None or first == 0:\n",
        "A LEND of more than there is has taken every row.",
        _TRACES,
    ),
    _traced(
        "lend-again-takes-rows",
        "loan/lending",
        _OUT,
        _OUT.replace(
            "                return",
            "                self.cache.take(self.book, self.loan.first - 1)\n                return",
        ),
        "A second LEND gives the same answer, and takes a row more.",
        _TRACES,
    ),
    _traced(
        "lend-again-answers-what-was-asked",
        "loan/lending",
        "                return self.loan.answer\n",
        "                return self.loan.answer._replace(mib=mib)\n",
        "A second LEND says that it has lent what it was asked for.",
        _FAULTED,
    ),
)


def mutants() -> Iterator[Mutant]:
    yield from _ROUNDINGS
    yield from _LENDING
