"""Fuzzing by bits: random configurations of attention, run twice, and every output bit compared.

On a card each path runs there and on lanes under the card's tensor-core rule. Without a card lanes are
compared with lanes: the fast build in order against the checked build under a permuted schedule.

Nothing is judged by size here, so anything goes: scales of any sign and exponent, subnormals, zeros,
infinities and NaN, cells listed twice and out of order, absent pages, any width. What is compared is
what the machine does, and that is the same everywhere.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from rich.console import Console

from strata.executors import NAMES as EXECUTORS
from strata.executors import open_executor
from strata.executors.base import Executor, StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import decode_attention, prompt_attention
from strata.kernels.attention import Result
from strata.kernels.paths import MODES, PATHS, Path, select
from strata.kernels.pool import GROUPS, HEAD_DIM, MODE_FORMATS, Pool
from validation.draws import Stream, scaled
from validation.predict import rule_for
from validation.selection import TOP

#: One value in so many is replaced by random bits in a configuration with specials.
RARE = 512
PAGE_SIZES = (1, 4, 16, 64, 512)
CONTEXTS = (33, 70, 257, 1000, TOP, 2600, 4100)
#: Cells of the largest context when lanes are compared with the checked build, which is slow.
LARGEST_CHECKED = 257
EDGES = (0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 2047, 2048, 2050, TOP)


@dataclass(frozen=True)
class Configuration:
    """Sizes of one draw and what its numbers may be. numbers: `moderate` (finite, a few decades), `finite` (any
    finite bits), `special` (random bits among moderate ones) or `raw` (random bits throughout)."""

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


def configuration(seed: int, index: int, largest: int = CONTEXTS[-1]) -> Configuration:
    """Configuration `index` of a seed, of at most `largest` cells: a pure function of the three."""
    draw = Stream.of(seed, "fuzz", index).words(8)

    def choose(word: int, values: tuple[Any, ...]) -> Any:
        return values[int(draw[word]) % len(values)]

    context = choose(0, tuple(cells for cells in CONTEXTS if cells <= largest))
    return Configuration(
        index,
        MODES[index % len(MODES)],
        choose(1, ("moderate", "finite", "special", "raw")),
        context,
        choose(2, (1, 2, 3, 5)),
        choose(3, PAGE_SIZES),
        choose(4, (1, 2, 3)),
        choose(5, GROUPS),
        choose(6, (0, 0, 1, 4, 8)),
    )


def _halves(stream: Stream, shape: tuple[int, ...], numbers: str) -> np.ndarray:
    """float16 values of `shape`, as far out as `numbers` says."""
    bits = stream.child("bits").below(1 << 16, shape).astype(np.uint16)
    if numbers == "raw":
        return bits.view(np.float16)
    if numbers == "finite":  # an exponent of all ones loses one bit
        return np.where((bits & 0x7C00) == 0x7C00, bits & 0xBFFF, bits).astype(np.uint16).view(np.float16)
    # sign and fraction as drawn, exponents -12 to 3: four decades
    moderate = ((bits & 0x83FF) | (((bits >> 10 & 15) + 3) << 10)).astype(np.uint16)
    if numbers == "special":
        moderate = np.where(stream.child("rare").below(RARE, shape) == 0, bits, moderate)
    return moderate.view(np.float16)


def _floats(stream: Stream, shape: tuple[int, ...], numbers: str) -> np.ndarray:
    """float32 values of `shape`, six decades wide, or further out."""
    moderate = scaled(stream.child("value").normal_ints(shape), -20 - 10 + int(stream.child("size").below(21, 1)[0]))
    bits = stream.child("bits").below(1 << 31, shape).astype(np.uint32) * np.uint32(2)
    if numbers == "raw":
        bits = np.where((bits & 0x7F800000) == 0x7F800000, bits & 0x7F8FFFFF, bits)  # not only NaN
        return bits.astype(np.uint32).view(np.float32)
    if numbers == "finite":
        return np.where((bits & 0x7F800000) == 0x7F800000, bits & 0xBFFFFFFF, bits).astype(np.uint32).view(np.float32)
    if numbers == "special":
        rare = stream.child("rare").below(RARE, shape) == 0
        return np.where(rare, bits, moderate.view(np.uint32)).astype(np.uint32).view(np.float32)
    return moderate


def _plane(
    stream: Stream, form: str, shape: tuple[int, int, int], numbers: str
) -> tuple[np.ndarray, np.ndarray | None]:
    if form == "fp16":
        return _halves(stream, (*shape, HEAD_DIM), numbers), None
    if form == "int8":
        codes = stream.child("codes").octets((*shape, HEAD_DIM)).view(np.int8)
        return codes, _halves(stream.child("scales"), (*shape, 4), numbers)
    blocks = stream.child("codes").octets((*shape, 8, 18)).copy()
    blocks[..., :2] = _halves(stream.child("scales"), (*shape, 8, 1), numbers).view(np.uint8)
    return blocks.reshape(*shape, 144), None


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
    q = _floats(stream.child("q"), (what.queries, what.n_head_kv * what.group, HEAD_DIM), what.numbers)
    return q, pool, ids, steps


def _run(executor: Executor, path: Path, inputs: tuple[np.ndarray, Pool, np.ndarray, np.ndarray]) -> Result:
    if path.operation == "prompt_attention":
        return prompt_attention.run(executor, path, *inputs)
    return decode_attention.run(executor, path, *inputs)


def _other(executor: Executor, path: Path) -> LanesExecutor:
    """What the executor's bits are compared with."""
    if executor.name == "lanes":
        assert isinstance(executor, LanesExecutor)
        return LanesExecutor(rule=executor.rule, flavor="checked", seed=7)
    rule = rule_for(path, executor)
    if rule is None:
        raise StrataError(f"no tensor-core rule is established for compute capability {executor.capability}")
    return LanesExecutor(rule=rule)


def compare(executor: Executor, seed: int, what: Configuration, pattern: str) -> Iterator[dict[str, Any]]:
    """One result for each path of the configuration's mode that matches the pattern."""
    inputs = draw(seed, what)
    for path in PATHS.values():
        if path.mode != what.mode or path.operation == "kv_pack" or path not in select(pattern):
            continue
        ours, theirs = _run(executor, path, inputs), _run(_other(executor, path), path, inputs)
        mine, other = ours.out.view(np.uint32), theirs.out.view(np.uint32)
        yield {
            "configuration": what.text(),
            "path": path.name,
            "outputs": int(mine.size),
            "differing": int((mine != other).sum()),
            "not_finite": int((~np.isfinite(ours.out)).sum()),
            "guards": ours.guards_ok and theirs.guards_ok,
            "arch": sorted({witness.arch for witness in ours.witnesses}),
        }


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `python -m validation fuzz`."""
    command.add_argument("--count", type=int, default=64, metavar="N", help="configurations (default: %(default)s)")
    command.add_argument("--first", type=int, default=0, metavar="I", help="index of the first (default: %(default)s)")
    command.add_argument("--seed", type=int, default=1, metavar="N", help="seed (default: %(default)s)")
    command.add_argument("--paths", default="*_attention/*", metavar="GLOB", help="paths (default: %(default)s)")
    command.add_argument("--executor", choices=EXECUTORS, default="auto", help="where (default: %(default)s)")
    command.add_argument("--target", metavar="ARCH", help="cuda: image to build, e.g. compute_75")
    command.add_argument("--rule", default="sm_90", help="lanes: tensor-core rule (default: %(default)s)")
    command.add_argument("--out", type=FilePath, metavar="DIR", help="write fuzz.json there")


def run(options: argparse.Namespace, console: Console) -> int:
    """Exit status 0 when no bit differed and no guard was hit, 1 otherwise. Raises StrataError when it cannot run."""
    if options.count < 1 or options.first < 0:
        raise StrataError(f"--count {options.count} and --first {options.first}: expected at least 1 and at least 0")
    try:
        select(options.paths)
    except ValueError as error:
        raise StrataError(str(error)) from error
    executor = open_executor(options.executor, rule=options.rule, target=options.target)
    largest = LARGEST_CHECKED if executor.name == "lanes" else CONTEXTS[-1]
    results: list[dict[str, Any]] = []
    outputs = differing = 0
    bad: list[dict[str, Any]] = []
    for index in range(options.first, options.first + options.count):
        for result in compare(executor, options.seed, configuration(options.seed, index, largest), options.paths):
            results.append(result)
            outputs += result["outputs"]
            differing += result["differing"]
            if result["differing"] or not result["guards"]:
                bad.append(result)
                console.print(_explain(result, options.seed, index, executor.name), markup=False)
        done = index - options.first + 1
        if done % 16 == 0 or done == options.count:
            console.print(f"{done} of {options.count} configurations: {differing} of {outputs:,} outputs differ")
        if options.out is not None:
            _write(options.out, executor, results)
    return 0 if results and not bad else 1


def _explain(result: dict[str, Any], seed: int, index: int, executor: str) -> str:
    """One line: what differed where, and the command that runs just that."""
    again = f"--seed {seed} --first {index} --count 1 --paths '{result['path']}' --executor {executor}"
    return (
        f"{result['differing']} of {result['outputs']} outputs differ, guards {result['guards']}: "
        f"{result['path']} {result['configuration']} | python -m validation fuzz {again}"
    )


def _write(directory: FilePath, executor: Executor, results: list[dict[str, Any]]) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"executor": executor.describe(), "results": results}, indent=1, allow_nan=False)
        (directory / "fuzz.json").write_text(text)
    except OSError as error:
        raise StrataError(f"cannot write {directory}: {error.strerror}") from error
