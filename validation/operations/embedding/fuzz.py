"""Fuzzed embeddings: random configurations, each run twice, and every bit compared with NumPy.

The second run has its rows in another order; on lanes it is in the checked build under a permuted schedule. Blocks and
factors may be any bits, and ids be outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strata.executors.base import Executor
from strata.kernels import embedding
from strata.kernels.embedding import FORMATS, Embedded
from strata.kernels.paths import Path
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.core.fuzz_numbers import NUMBERS, floats
from validation.core.handed import handed
from validation.core.random_streams import Stream
from validation.core.unknown_operation import UnknownOperationError
from validation.numerics.fma import plain
from validation.operations.embedding import inputs, reference
from validation.operations.embedding.inputs import Inputs
from validation.operations.embedding.random_cases import ROWS, VOCABS, WIDTHS
from validation.operations.experts.fuzz import SCHEDULES, other


@dataclass(frozen=True)
class Configuration:
    """Sizes of one draw. numbers: of `fuzz_numbers`, for the factor; raw: whether blocks are any bits; outside: whether
    ids may be outside of the matrix."""

    index: int
    mode: str
    numbers: str
    rows: int
    width: int
    vocab: int
    raw: bool
    outside: bool

    def text(self) -> str:
        return (
            f"#{self.index} {self.mode}, {self.numbers}: {self.rows} rows of {self.width} from {self.vocab}"
            f"{', any bits' if self.raw else ''}{', ids outside' if self.outside else ''}"
        )


def configuration(seed: int, index: int, modes: Sequence[str] = FORMATS, checked: bool = False) -> Configuration:
    """Configuration `index` of a seed, the same in every build."""
    words = Stream.of(seed, "fuzz embedding", index).words(6).tolist()
    return Configuration(
        index,
        modes[index % len(modes)],
        NUMBERS[words[0] % len(NUMBERS)],
        ROWS[words[1] % len(ROWS)],
        WIDTHS[words[2] % len(WIDTHS)],
        VOCABS[words[3] % len(VOCABS)],
        words[4] % 2 == 0,
        words[5] % 2 == 0,
    )


def draw(seed: int, what: Configuration) -> Inputs:
    """What is embedded."""
    stream = Stream.of(seed, "fuzz embedding data", what.index)
    matrix = inputs.matrix(stream.child("matrix"), "raw" if what.raw else "bell", what.mode, what.vocab, what.width)
    ids = inputs.ids(stream.child("ids"), "outside" if what.outside else "bell", what.rows, what.vocab)
    factor = floats(stream.child("factor"), 1, what.numbers)[0]
    return Inputs(what.mode, matrix, ids, what.width, factor)


def compare(executor: Executor, seed: int, what: Configuration, path: Path) -> Compared:
    """Embeddings, run twice and held against NumPy. Raises UnknownOperationError for another operation's path."""
    if path.operation != "embedding":
        raise UnknownOperationError(path, "configuration", ("embedding",))
    stream, data = Stream.of(seed, "fuzz embedding runs", what.index), draw(seed, what)
    order = stream.child("order").permutation(what.rows)
    second = other(executor, 1 + int(stream.child("schedule").below(SCHEDULES, ())))
    want = plain(reference.embed_bits(data.mode, data.matrix, data.ids, data.factor))

    def run(where: Executor, of: Inputs) -> Embedded:
        return handed(embedding.run)(where, of.mode, of.matrix, of.ids, of.width, float(of.factor))

    runs, outside = (run(executor, data), run(second, data.rows(order))), int(data.outside.sum())
    wrong = sum(
        int((plain(got.out).view(np.uint32) != np.ascontiguousarray(due).view(np.uint32)).sum())
        for got, due in zip(runs, (want, want[order]), strict=True)
    )
    said = [f"{got.lost} ids outside, expected {outside}" for got in runs if got.lost != outside]
    lost, arch = int((~np.isfinite(want)).sum()), tuple(sorted({one.arch for one in runs[0].witnesses}))
    intact = all(got.guards_ok for got in runs)
    return Compared(what.text(), path.name, 2 * want.size, wrong, lost, intact, "; ".join(said), arch)


KIND = FuzzKind(configuration, compare)
