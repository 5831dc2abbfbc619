"""Fuzzed block selection: random configurations, each run twice, and every bit compared with the model.

The second run has its queries in another order, a reach of all that there is room for, and another top-k kernel; on
lanes it is in the checked build under a permuted schedule. Queries and keys may be any bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from strata.executors.base import Executor, StrataError
from strata.executors.lanes import RULES, LanesExecutor
from strata.kernels.paths import Path
from strata.kernels.selection import BLOCK, DIMS, HEADS, Result
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.core.fuzz_numbers import NUMBERS, floats
from validation.core.handed import handed
from validation.core.random_streams import Stream
from validation.numerics.fma import plain
from validation.numerics.tensorcore_rules import rule_for
from validation.operations.block_select import inputs, lengths, model, written
from validation.operations.block_select.choice import choose
from validation.operations.block_select.random_cases import CONTEXTS, QUERIES
from validation.operations.block_select.scorers import SCORERS
from validation.operations.experts.fuzz import SCHEDULES, other

#: Levels that scores and keys of every third configuration are of, so that many are equal.
LEVELS = 4


@dataclass(frozen=True)
class Configuration:
    """Sizes of one draw; numbers: of `fuzz_numbers`; levels: whether many scores are equal; spare: blocks that there is
    room for beyond the longest query's."""

    index: int
    mode: str
    numbers: str
    context: int
    queries: int
    top: int
    spare: int
    levels: bool

    def text(self) -> str:
        return (
            f"#{self.index} {self.numbers}: {self.top} of up to {self.context} cells for {self.queries} queries, room "
            f"for {self.spare} blocks more{', by few levels' if self.levels else ''}"
        )

    @property
    def blocks(self) -> int:
        """Blocks that there is room for."""
        return max(self.context // BLOCK, 1) + self.spare


def configuration(seed: int, index: int, modes: Sequence[str] = ("fp32",), checked: bool = False) -> Configuration:
    """Configuration `index` of a seed, the same in every build."""
    words = Stream.of(seed, "fuzz block select", index).words(6).tolist()
    context = CONTEXTS[words[0] % len(CONTEXTS)]
    return Configuration(
        index,
        modes[index % len(modes)],
        NUMBERS[words[1] % len(NUMBERS)],
        context,
        QUERIES[words[2] % len(QUERIES)],
        words[3] % (context + 2 * BLOCK),
        words[4] % 70,
        words[5] % 3 == 0,
    )


def steps_of(stream: Stream, what: Configuration) -> np.ndarray:
    """int32 [queries, 4] of queries of any length, and of any width up to the usual one."""
    n_kv = stream.child("cells").below(what.context + 1, what.queries)
    n_kv[int(stream.child("longest").below(what.queries, ()))] = what.context
    usual = np.minimum(n_kv, what.top)
    part = (stream.child("width").words(what.queries) % (usual + 1).astype(np.uint64)).astype(np.int64)
    return lengths.steps(n_kv, np.where(stream.child("cut").below(2, what.queries) == 0, usual, part))


def levelled(stream: Stream, x: np.ndarray) -> np.ndarray:
    """Rows of x, few of them each many times."""
    return np.asarray(x[stream.below(min(LEVELS, len(x)), len(x))])


def draw(seed: int, what: Configuration) -> inputs.Inputs:
    """Queries, keys and steps of a configuration."""
    stream = Stream.of(seed, "fuzz block select", what.index)
    q = floats(stream.child("q"), (what.queries, HEADS, DIMS), what.numbers)
    keys = floats(stream.child("keys"), (what.blocks, DIMS), what.numbers)
    keys = levelled(stream.child("levels"), keys) if what.levels else keys
    return inputs.Inputs(q, keys, steps_of(stream, what), max(what.context, 1))


#: A run of the first or the second kind on an executor: reach and top-k kernel.
Again = Callable[[Executor, np.ndarray, int | None, str | None], Result]


def compared(
    executor: Executor, seed: int, what: Configuration, path: Path, run: Again, due: Sequence[np.ndarray], scored: bool
) -> Compared:
    """What two runs of a configuration come to.

    Parameters
    ----------
    run
        With its queries in some order.
    due
        ids and scores, with one NaN for all.
    scored
        Whether scores are an output.
    """
    stream = Stream.of(seed, "fuzz block select runs", what.index)
    order = stream.child("order").permutation(what.queries)
    second = other(executor, 1 + int(stream.child("schedule").below(SCHEDULES, ())))
    one = run(executor, np.arange(what.queries), None, None)
    two = run(second, order, what.blocks, "long")
    steps = steps_of(Stream.of(seed, "fuzz block select", what.index), what)
    wrong, said = 0, list[str]()
    for got, rows in ((one, np.arange(what.queries)), (two, order)):
        own = steps[rows]
        wrong += int((written.ids_of(got, own) != due[0][rows]).sum())
        if scored:
            scores = plain(written.scores_of(got, own))
            wrong += int((scores.view(np.uint32) != np.ascontiguousarray(due[1][rows]).view(np.uint32)).sum())
        strays = written.strays(got, own, scored)
        said += [f"{strays} places behind rows were written to"] if strays else []
    outputs = 2 * (due[0].size + (due[1].size if scored else 0))
    arch = tuple(sorted({witness.arch for witness in one.witnesses}))
    lost = int((~np.isfinite(due[1])).sum())
    return Compared(
        what.text(), path.name, outputs, wrong, lost, one.guards_ok and two.guards_ok, "; ".join(said), arch
    )


def compare(executor: Executor, seed: int, what: Configuration, path: Path) -> Compared:
    """A scorer and its selection, run twice and held against the model. Raises StrataError where no rule is known."""
    given = draw(seed, what)
    rule = executor.rule if isinstance(executor, LanesExecutor) else RULES.get(rule_for(path, executor) or "")
    if rule is None:
        raise StrataError(f"no tensor-core rule is established for compute capability {executor.capability}")
    scores = model.scores(path, given.q, given.keys, rule)
    if scores is None:
        raise StrataError(f"{path.name} has no model of every bit under the rule {rule}, expected that of a card")
    scores[lengths.behind(what.blocks, given.steps[:, 2])] = 0
    due = choose(scores, given.steps, given.cap), plain(scores)
    call = handed(partial(_run, path))
    return compared(executor, seed, what, path, lambda on, *how: call(on, given, *how), due, True)


def _run(
    path: Path, executor: Executor, given: inputs.Inputs, rows: np.ndarray, reach: int | None, topk: str | None
) -> Result:
    part = given.rows(rows)
    return SCORERS[path.operation].run(executor, path, part.q, part.keys, part.steps, part.cap, reach=reach, topk=topk)


KIND = FuzzKind(configuration, compare)
