"""Fuzzed operations on elements: random configurations, each run twice, and every bit compared with NumPy.

The second run has its rows in another order, and writes over one of its operands; on lanes it is in the checked build
under a permuted schedule. Elements may be any bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strata.executors.base import Executor
from strata.kernels.paths import Path
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.core.fuzz_numbers import NUMBERS, floats
from validation.core.handed import handed
from validation.core.random_streams import Stream
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.experts.fuzz import SCHEDULES, other
from validation.operations.gated.inputs import Inputs
from validation.operations.gated.launched import ELEMENTS
from validation.operations.gated.random_cases import CAPPED, MOST_ROWS, columns


@dataclass(frozen=True)
class Configuration:
    """Sizes of one draw. numbers: `fuzz_numbers`; place: which operand the second run writes over, of those that there
    are and none."""

    index: int
    mode: str
    numbers: str
    rows: int
    columns: int
    cap: str
    place: int

    def text(self) -> str:
        return f"#{self.index} {self.numbers}: {self.rows} rows of {self.columns}, cap {self.cap}, place {self.place}"


def configuration(seed: int, index: int, modes: Sequence[str], checked: bool = False) -> Configuration:
    """Configuration `index` of a seed, the same in every build."""
    words = Stream.of(seed, "fuzz elements", index).words(5).tolist()
    return Configuration(
        index,
        modes[index % len(modes)],
        NUMBERS[words[0] % len(NUMBERS)],
        1 + words[1] % MOST_ROWS,
        columns(words[2]),
        CAPPED[words[3] % len(CAPPED)],
        words[4] % 6,
    )


def inputs(seed: int, what: Configuration, operands: Sequence[str]) -> Inputs:
    """Elements of each operand."""
    stream = Stream.of(seed, "fuzz of elements", what.index)
    shape = (what.rows, what.columns)
    arrays = {name: floats(stream.child(name), shape, what.numbers) for name in operands}
    return Inputs(arrays, float(np.float32(what.cap)))


def compare(executor: Executor, seed: int, what: Configuration, path: Path) -> Compared:
    """An operation, run twice and held against NumPy. Raises UnknownOperationError for another operation's path."""
    if path.operation not in ELEMENTS:
        raise UnknownOperationError(path, "configuration", tuple(ELEMENTS))
    one, stream = ELEMENTS[path.operation], Stream.of(seed, "fuzz runs of elements", what.index)
    second = other(executor, 1 + int(stream.child("schedule").below(SCHEDULES, ())))
    order = stream.child("order").permutation(what.rows)
    data, places = inputs(seed, what, one.operands), (None, *one.operands)
    runs = (
        handed(one.run)(executor, path, data, None),
        handed(one.run)(second, path, data.rows(order), places[what.place % len(places)]),
    )
    want = one.bits(path.mode, data)
    wrong = sum(
        int((got.out.view(np.uint32) != due.view(np.uint32)).sum())
        for got, due in zip(runs, (want, np.ascontiguousarray(want[order])), strict=True)
    )
    arch = tuple(sorted({witness.arch for witness in runs[0].witnesses}))
    intact, not_finite = all(got.guards_ok for got in runs), int((~np.isfinite(want)).sum())
    return Compared(what.text(), path.name, 2 * want.size, wrong, not_finite, intact, "", arch)


KIND = FuzzKind(configuration, compare)
