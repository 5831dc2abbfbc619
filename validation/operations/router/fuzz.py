"""Fuzzed routers: random configurations, each run twice, and every bit compared with NumPy.

The second run has its tokens in another order and, of the router, another number of blocks; on lanes it is in the
checked build under a permuted schedule. Logits, rows, weights and gates may be any bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strata.executors.base import Executor, Witness
from strata.kernels import router
from strata.kernels.combine import Combined
from strata.kernels.paths import Path
from strata.kernels.router import Routing
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.core.fuzz_numbers import NUMBERS, floats
from validation.core.handed import handed
from validation.core.random_streams import Stream
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.experts.fuzz import SCHEDULES, other
from validation.operations.experts.random_cases import SUMMED, TOPS, tokens
from validation.operations.router import reference
from validation.operations.router.random_cases import ROUTED

#: Columns of a sum: any multiple of 4.
COLUMNS = (4, 8, 124, 128, 132, 256, 640, 2560)
#: Levels that the logits of every third configuration are rounded to, so that many are equal.
LEVELS = 4


@dataclass(frozen=True)
class Configuration:
    """Sizes of one draw, of which either operation takes its own. numbers: `fuzz_numbers`; levels: whether logits
    have few values; shared: whether there is a shared expert."""

    index: int
    mode: str
    numbers: str
    tokens: int
    experts: int
    ranks: int
    top: int
    columns: int
    levels: bool
    shared: bool

    def text(self) -> str:
        return (
            f"#{self.index} {self.numbers}: {self.tokens} tokens, {self.ranks} of {self.experts} experts"
            f"{' by few levels' if self.levels else ''}; {self.top} rows of {self.columns}"
            f"{' and a shared one' if self.shared else ''}"
        )


def configuration(seed: int, index: int, modes: Sequence[str] = ("fp32",), checked: bool = False) -> Configuration:
    """Configuration `index` of a seed, the same in every build."""
    words = Stream.of(seed, "fuzz around", index).words(8).tolist()
    experts, top = (
        ROUTED[words[0] % len(ROUTED)],
        TOPS[words[1] % len(TOPS)],
    )
    columns = COLUMNS[words[2] % len(COLUMNS)]
    return Configuration(
        index,
        modes[index % len(modes)],
        NUMBERS[words[3] % len(NUMBERS)],
        tokens(words[4], SUMMED // (top * columns)),
        experts,
        1 + words[5] % min(experts, router.MOST_RANKS),
        top,
        columns,
        words[6] % 3 == 0,
        words[7] % 3 != 0,
    )


def logits(seed: int, what: Configuration) -> np.ndarray:
    """float32 [tokens, experts]."""
    stream = Stream.of(seed, "fuzz logits", what.index)
    x = floats(stream, (what.tokens, what.experts), what.numbers)
    if not what.levels:
        return x
    known = floats(stream.child("levels"), (LEVELS,), what.numbers)
    return np.asarray(known[stream.child("level").below(LEVELS, x.shape)])


def runs(executor: Executor, seed: int, what: Configuration) -> tuple[Executor, np.ndarray, Stream]:
    """The executor of the second run, the order of its tokens (int64), and the stream of further choices."""
    stream = Stream.of(seed, "fuzz runs around", what.index)
    second = other(executor, 1 + int(stream.child("schedule").below(SCHEDULES, ())))
    return second, stream.child("order").permutation(what.tokens), stream


def compare(executor: Executor, seed: int, what: Configuration, path: Path) -> Compared:
    """The router, run twice and held against NumPy. Raises UnknownOperationError for another operation's path."""
    if path.operation != "router":
        raise UnknownOperationError(path, "configuration", ("router",))
    second, order, stream = runs(executor, seed, what)
    blocks = 1 + int(stream.child("grid").below(9, ()))
    with np.errstate(invalid="ignore", over="ignore"):
        return _compare(executor, second, logits(seed, what), what, order, blocks)


def _compare(
    executor: Executor, second: Executor, x: np.ndarray, what: Configuration, order: np.ndarray, blocks: int
) -> Compared:
    one = handed(router.run)(executor, x, what.ranks)
    two = handed(router.run)(second, np.ascontiguousarray(x[order]), what.ranks, blocks)
    ids, weights = reference.route(x, what.ranks).ids, reference.weight_bits(x, what.ranks)
    counts = (int(np.isnan(x).sum()), int(np.isinf(x).sum()))

    def differing(got: Routing, ids: np.ndarray, weights: np.ndarray) -> int:
        return int((got.ids != ids).sum() + (got.weights.view(np.uint32) != weights.view(np.uint32)).sum())

    said = [
        f"{got.nans} NaN and {got.infinities} infinities, expected {counts[0]} and {counts[1]}"
        for got in (one, two)
        if (got.nans, got.infinities) != counts
    ]
    wrong = differing(one, ids, weights) + differing(two, ids[order], np.ascontiguousarray(weights[order]))
    return compared("router/fp32/simt", what, 4 * ids.size, wrong, weights, said, (one, two))


def compared(
    path: str,
    what: Configuration,
    outputs: int,
    wrong: int,
    want: np.ndarray,
    said: list[str],
    runs: Sequence[Routing | Combined],
) -> Compared:
    """What two runs came to: `wrong` of `outputs` bits differ, `said` is what else is wrong."""
    witnesses: list[Witness] = runs[0].witnesses
    arch = tuple(sorted({witness.arch for witness in witnesses}))
    lost = int((~np.isfinite(want)).sum())
    return Compared(what.text(), path, outputs, wrong, lost, all(one.guards_ok for one in runs), "; ".join(said), arch)


KIND = FuzzKind(configuration, compare)
