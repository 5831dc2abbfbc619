"""Fuzzed combining: random configurations, each run twice, and every bit compared with NumPy.

The second run has its tokens in another order; on lanes it is in the checked build under a permuted schedule. Rows,
weights and gates may be any bits.
"""

from __future__ import annotations

import numpy as np

from strata.executors.base import Executor
from strata.kernels import combine
from strata.kernels.combine import Combined
from strata.kernels.paths import Path
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.core.fuzz_numbers import floats
from validation.core.handed import handed
from validation.core.random_streams import Stream
from validation.core.unknown_operation import UnknownOperationError
from validation.numerics.fma import plain
from validation.operations.combine import reference
from validation.operations.combine.inputs import Sums
from validation.operations.router.fuzz import Configuration, compared, configuration, runs


def sums(seed: int, what: Configuration) -> Sums:
    """What is combined."""
    stream = Stream.of(seed, "fuzz sums", what.index)

    def draw(name: str, *shape: int) -> np.ndarray:
        return floats(stream.child(name), shape, what.numbers)

    rows, weights = draw("rows", what.tokens, what.top, what.columns), draw("weights", what.tokens, what.top)
    if not what.shared:
        return Sums(rows, weights, None, None)
    return Sums(rows, weights, draw("shared", what.tokens, what.columns), draw("gate", what.tokens))


def compare(executor: Executor, seed: int, what: Configuration, path: Path) -> Compared:
    """Combining, run twice and held against NumPy. Raises UnknownOperationError for another operation's path."""
    if path.operation != "combine":
        raise UnknownOperationError(path, "configuration", ("combine",))
    second, order, _ = runs(executor, seed, what)
    with np.errstate(invalid="ignore", over="ignore"):
        return _compare(executor, second, sums(seed, what), what, order)


def _compare(executor: Executor, second: Executor, data: Sums, what: Configuration, order: np.ndarray) -> Compared:
    def run(where: Executor, of: Sums) -> Combined:
        return handed(combine.run)(where, of.rows, of.weights, of.shared, of.gate)

    one, two = run(executor, data), run(second, data.tokens(order))
    want = plain(reference.combine_bits(data.rows, data.weights, data.shared, data.gate))
    lost = int((~np.isfinite(want)).sum())
    said = [f"{got.lost} outputs lost, expected {lost}" for got in (one, two) if got.lost != lost]
    wrong = sum(
        int((plain(got.out).view(np.uint32) != due.view(np.uint32)).sum())
        for got, due in ((one, want), (two, np.ascontiguousarray(want[order])))
    )
    return compared("combine/fp32/simt", what, 2 * want.size, wrong, want, said, (one, two))


KIND = FuzzKind(configuration, compare)
