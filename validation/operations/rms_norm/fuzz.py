"""Fuzzed RMSNorm: random configurations, each run twice, and every bit compared with NumPy.

The second run has its rows in another order, and writes over one of its inputs; on lanes it is in the checked build
under a permuted schedule. Rows, weights and residuals may be any bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strata.executors.base import Executor
from strata.kernels import rms_norm
from strata.kernels.paths import Path
from strata.kernels.rms_norm import Normed
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.core.fuzz_numbers import NUMBERS, floats
from validation.core.handed import handed
from validation.core.random_streams import Stream
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.experts.fuzz import SCHEDULES, other
from validation.operations.rms_norm import reference
from validation.operations.rms_norm.inputs import Inputs
from validation.operations.rms_norm.random_cases import COLUMNS, EPSILONS, MOST_ROWS


@dataclass(frozen=True)
class Configuration:
    """Sizes of one draw. numbers: `fuzz_numbers`; over: the input that the second run writes over, "" for none."""

    index: int
    mode: str
    numbers: str
    rows: int
    n: int
    eps: str
    over: str

    def text(self) -> str:
        return f"#{self.index} {self.numbers}: {self.rows} rows of {self.n}, eps {self.eps}, over {self.over or 'none'}"


def configuration(seed: int, index: int, modes: Sequence[str], checked: bool = False) -> Configuration:
    """Configuration `index` of a seed, the same in every build."""
    words, mode = Stream.of(seed, "fuzz rms_norm", index).words(5).tolist(), modes[index % len(modes)]
    places = ("", "x", "residual") if mode == "residual" else ("", "x")
    return Configuration(
        index,
        mode,
        NUMBERS[words[0] % len(NUMBERS)],
        1 + words[1] % MOST_ROWS,
        COLUMNS[words[2] % len(COLUMNS)],
        EPSILONS[words[3] % len(EPSILONS)],
        places[words[4] % len(places)],
    )


def inputs(seed: int, what: Configuration) -> Inputs:
    """What is normed."""
    stream = Stream.of(seed, "fuzz normed", what.index)
    x = floats(stream.child("x"), (what.rows, what.n), what.numbers)
    weight = floats(stream.child("weight"), (what.n,), what.numbers)
    residual = floats(stream.child("residual"), x.shape, what.numbers) if what.mode == "residual" else None
    return Inputs(x, weight, residual, float(np.float32(what.eps)))


def compare(executor: Executor, seed: int, what: Configuration, path: Path) -> Compared:
    """The norm, run twice and held against NumPy. Raises UnknownOperationError for another operation's path."""
    if path.operation != "rms_norm":
        raise UnknownOperationError(path, "configuration", ("rms_norm",))
    stream = Stream.of(seed, "fuzz runs of rms_norm", what.index)
    second = other(executor, 1 + int(stream.child("schedule").below(SCHEDULES, ())))
    order = stream.child("order").permutation(what.rows)
    data = inputs(seed, what)

    def run(where: Executor, of: Inputs, over: str | None) -> Normed:
        return handed(rms_norm.run)(where, path, of.x, of.weight, of.eps, of.residual, over)

    one, two = run(executor, data, None), run(second, data.rows(order), what.over or None)
    want, lost = reference.norm_bits(data.x, data.weight, data.residual, data.eps), reference.lost(data.x)
    said = [f"{got.lost} rows lost, expected {lost}" for got in (one, two) if got.lost != lost]
    wrong = sum(
        int((got.out.view(np.uint32) != due.view(np.uint32)).sum())
        for got, due in ((one, want), (two, np.ascontiguousarray(want[order])))
    )
    arch = tuple(sorted({witness.arch for witness in one.witnesses}))
    intact, not_finite = one.guards_ok and two.guards_ok, int((~np.isfinite(want)).sum())
    return Compared(what.text(), path.name, 2 * want.size, wrong, not_finite, intact, "; ".join(said), arch)


KIND = FuzzKind(configuration, compare)
