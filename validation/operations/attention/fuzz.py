"""Fuzzed attention: random configurations, run twice, and every output bit compared.

On a card each path runs there and on lanes under the card's tensor-core rule. Without a card lanes are compared with
lanes: the fast build in order against the checked build under a permuted schedule.

Nothing is judged by size here, so anything goes: scales of any sign and exponent, subnormals, zeros, infinities and
NaN, cells listed twice and out of order, absent pages, any width. What is compared is what the machine does, and that
is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from strata.executors.base import Executor, StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import decode_attention, prompt_attention
from strata.kernels.attention import Result
from strata.kernels.paths import Path
from strata.kernels.pool import GROUPS, HEAD_DIM, MODE_FORMATS, MODES, Pool
from validation.core.arrays import frozen
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.core.fuzz_numbers import NUMBERS, floats, halves
from validation.core.handed import handed
from validation.core.random_streams import Stream
from validation.core.unknown_operation import UnknownOperationError
from validation.numerics.tensorcore_rules import rule_for
from validation.operations.kv_pack.case import TOP

OPERATIONS = ("prompt_attention", "decode_attention")
PAGE_SIZES = (1, 4, 16, 64, 512)
CONTEXTS = (33, 70, 257, 1000, TOP, 2600, 4100)
#: Cells of the largest context when lanes are compared with the checked build, which is slow.
LARGEST_CHECKED = 257
EDGES = (0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 2047, 2048, 2050, TOP)


@dataclass(frozen=True)
class Configuration:
    """Sizes of one draw; numbers: of `fuzz_numbers`."""

    index: int
    mode: str
    numbers: str
    context: int
    queries: int
    page_size: int
    n_head_kv: int
    group: int
    absent: int  # pages in 8 that are not resident

    def text(self) -> str:
        return (
            f"#{self.index} {self.mode} {self.numbers}: {self.queries} queries x {self.n_head_kv} KV heads x "
            f"{self.group}, {self.context} cells, page {self.page_size}, {self.absent}/8 absent"
        )


def configuration(seed: int, index: int, modes: Sequence[str] = MODES, checked: bool = False) -> Configuration:
    """Configuration `index` of a seed, in one of `modes`; checked: whether it is run in the checked build. A pure
    function of them."""
    draw = Stream.of(seed, "fuzz", index).words(8)

    def choose(word: int, values: tuple[Any, ...]) -> Any:
        return values[int(draw[word]) % len(values)]

    largest = LARGEST_CHECKED if checked else CONTEXTS[-1]
    context = choose(0, tuple(cells for cells in CONTEXTS if cells <= largest))
    return Configuration(
        index,
        modes[index % len(modes)],
        choose(1, NUMBERS),
        context,
        choose(2, (1, 2, 3, 5)),
        choose(3, PAGE_SIZES),
        choose(4, (1, 2, 3)),
        choose(5, GROUPS),
        choose(6, (0, 0, 1, 4, 8)),
    )


def _plane(
    stream: Stream, form: str, shape: tuple[int, int, int], numbers: str
) -> tuple[np.ndarray, np.ndarray | None]:
    if form == "fp16":
        return halves(stream, (*shape, HEAD_DIM), numbers), None
    if form == "int8":
        codes = stream.child("codes").octets((*shape, HEAD_DIM)).view(np.int8)
        return codes, halves(stream.child("scales"), (*shape, 4), numbers)
    blocks = stream.child("codes").octets((*shape, 8, 18)).copy()
    blocks[..., :2] = halves(stream.child("scales"), (*shape, 8, 1), numbers).view(np.uint8)
    return blocks.reshape(*shape, 144), None


@lru_cache(1)
def draw(seed: int, what: Configuration) -> tuple[np.ndarray, Pool, np.ndarray, np.ndarray]:
    """q, pool, ids and steps of a configuration, as `attention.prepare` takes them."""
    stream = Stream.of(seed, "fuzz", what.index)
    logical = -(-what.context // what.page_size)
    pages = logical + 2
    shape = (pages, what.n_head_kv, what.page_size)
    planes = [
        _plane(stream.child(name), form, shape, what.numbers)
        for name, form in zip("kv", MODE_FORMATS[what.mode], strict=True)
    ]
    table = stream.child("table").permutation(pages)[:logical].astype(np.int32)
    table[stream.child("absent").below(8, logical) < what.absent] = -1
    pool = Pool(
        what.mode, what.page_size, what.n_head_kv, planes[0][0], planes[1][0], planes[0][1], planes[1][1], table
    )
    cap = min(what.context, TOP)
    ids = stream.child("ids").below(what.context, (what.queries, cap)).astype(np.int32)
    widths = stream.child("widths").below(cap + 1, what.queries)
    for query, pick in enumerate(stream.child("edges").below(2 * len(EDGES), what.queries).tolist()):
        if pick < len(EDGES):
            widths[query] = min(EDGES[pick], cap)
    for query, width in enumerate(widths.tolist()):
        ids[query, width:] = np.iinfo(np.int32).max  # never read
    steps = np.zeros((what.queries, 4), np.int32)
    steps[:, 3] = widths
    q = floats(stream.child("q"), (what.queries, what.n_head_kv * what.group, HEAD_DIM), what.numbers)
    return frozen((q, pool, ids, steps))


@handed
def _run(executor: Executor, path: Path, inputs: tuple[np.ndarray, Pool, np.ndarray, np.ndarray]) -> Result:
    if path.operation == "prompt_attention":
        return prompt_attention.run(executor, path, *inputs)
    if path.operation == "decode_attention":
        return decode_attention.run(executor, path, *inputs)
    raise UnknownOperationError(path, "configuration", OPERATIONS)


def _other(executor: Executor, path: Path) -> LanesExecutor:
    """What the executor's bits are compared with."""
    if executor.name == "lanes":
        assert isinstance(executor, LanesExecutor)
        return LanesExecutor(rule=executor.rule, flavor="checked", seed=7)
    rule = rule_for(path, executor)
    if rule is None:
        raise StrataError(f"no tensor-core rule is established for compute capability {executor.capability}")
    return LanesExecutor(rule=rule)


def compare(executor: Executor, seed: int, what: Configuration, path: Path) -> Compared:
    """A path of the configuration's mode, on the executor and on the other one."""
    inputs = draw(seed, what)
    ours, theirs = _run(executor, path, inputs), _run(_other(executor, path), path, inputs)
    mine, other = ours.out.view(np.uint32), theirs.out.view(np.uint32)
    return Compared(
        what.text(),
        path.name,
        int(mine.size),
        int((mine != other).sum()),
        int((~np.isfinite(ours.out)).sum()),
        ours.guards_ok and theirs.guards_ok,
        arch=tuple(sorted({witness.arch for witness in ours.witnesses})),
    )


KIND = FuzzKind(configuration, compare)
