"""Fuzzed rope: random configurations, each run twice, and every bit compared with NumPy.

The second run has its rows in another order and its output in the place of its input; on lanes it is in the checked
build under a permuted schedule. Heads and tables may be any bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strata.executors.base import Executor
from strata.kernels import rope
from strata.kernels.paths import Path
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.core.fuzz_numbers import NUMBERS, floats
from validation.core.handed import handed
from validation.core.random_streams import Stream
from validation.core.unknown_operation import UnknownOperationError
from validation.numerics.fma import plain
from validation.operations.experts.fuzz import SCHEDULES, other
from validation.operations.rope import reference
from validation.operations.rope.inputs import Inputs
from validation.operations.rope.random_cases import HEADS, ROWS, WIDTHS

#: Positions of a table.
CONTEXTS = (1, 2, 17, 64, 257)


@dataclass(frozen=True)
class Configuration:
    """Sizes of one draw. numbers: `fuzz_numbers`."""

    index: int
    mode: str
    numbers: str
    rows: int
    heads: int
    d: int
    context: int

    def text(self) -> str:
        return (
            f"#{self.index} {self.numbers}: {self.rows} rows, {self.heads} heads of {self.d}, {self.context} positions"
        )


def configuration(seed: int, index: int, modes: Sequence[str] = ("fp32",), checked: bool = False) -> Configuration:
    """Configuration `index` of a seed, the same in every build."""
    words = Stream.of(seed, "fuzz rope", index).words(5).tolist()
    return Configuration(
        index,
        modes[index % len(modes)],
        NUMBERS[words[0] % len(NUMBERS)],
        ROWS[words[1] % len(ROWS)],
        HEADS[words[2] % len(HEADS)],
        WIDTHS[words[3] % len(WIDTHS)],
        CONTEXTS[words[4] % len(CONTEXTS)],
    )


def draw(seed: int, what: Configuration) -> Inputs:
    """What is turned."""
    stream = Stream.of(seed, "fuzz rope data", what.index)
    steps = stream.child("steps").below(what.context, (what.rows, rope.WORDS)).astype(np.int32)
    x = floats(stream.child("x"), (what.rows, what.heads, what.d), what.numbers)
    cos, sin = (floats(stream.child(name), (what.context, what.d // 2), what.numbers) for name in ("cos", "sin"))
    return Inputs(x, steps, cos, sin)


def compare(executor: Executor, seed: int, what: Configuration, path: Path) -> Compared:
    """Rope, run twice and held against NumPy. Raises UnknownOperationError for another operation's path."""
    if path.operation != "rope":
        raise UnknownOperationError(path, "configuration", ("rope",))
    stream, data = Stream.of(seed, "fuzz rope runs", what.index), draw(seed, what)
    order = stream.child("order").permutation(what.rows)
    second = other(executor, 1 + int(stream.child("schedule").below(SCHEDULES, ())))
    at, turned = data.positions, data.rows(order)
    want = plain(reference.turn_bits(data.x, data.cos[at], data.sin[at]))
    one = handed(rope.run)(executor, data.x, data.steps, data.cos, data.sin)
    two = handed(rope.run)(second, turned.x, turned.steps, turned.cos, turned.sin, True)
    wrong = sum(
        int((plain(got.out).view(np.uint32) != np.ascontiguousarray(due).view(np.uint32)).sum())
        for got, due in ((one, want), (two, want[order]))
    )
    lost, arch = int((~np.isfinite(want)).sum()), tuple(sorted({witness.arch for witness in one.witnesses}))
    return Compared(what.text(), path.name, 2 * want.size, wrong, lost, one.guards_ok and two.guards_ok, "", arch)


KIND = FuzzKind(configuration, compare)
