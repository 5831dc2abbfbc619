"""Fuzzing by bits: random configurations of every operation that has some, and every bit compared.

Attention: on a card with lanes under the card's tensor-core rule, without one two builds of lanes with each other.
All others: every run with the exact model in NumPy. Kinds take turns, and in each kind its modes;
`--paths` chooses among them.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict

from rich.console import Console

from strata.arguments import file, whole, word
from strata.executors import NAMES as EXECUTORS
from strata.executors import open_executor
from strata.executors.base import Executor, ExecutorUnavailable, StrataError
from strata.kernels.paths import Path, select
from strata.unforeseen import unforeseen
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.numerics.tensorcore_rules import DEFAULT_RULE
from validation.operations import registry
from validation.run import owner, unfinished
from validation.run.executor_options import refuse_idle
from validation.run.run_file import RunFile

PASSED, FAILED = 0, 1
NAME = "fuzz.json"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `python -m validation fuzz`."""
    command.add_argument(
        "--count", type=whole(1), default=64, metavar="N", help="configurations (default: %(default)s)"
    )
    command.add_argument(
        "--first", type=whole(), default=0, metavar="I", help="index of the first (default: %(default)s)"
    )
    command.add_argument("--seed", type=whole(), default=1, metavar="N", help="seed (default: %(default)s)")
    command.add_argument("--paths", default="*", metavar="GLOB", help="paths (default: all but kv_pack)")
    command.add_argument("--executor", choices=EXECUTORS, default="auto", help="where (default: %(default)s)")
    command.add_argument("--target", type=word, metavar="ARCH", help="cuda: image to build, e.g. compute_75")
    command.add_argument("--rule", type=word, help=f"lanes: tensor-core rule (default: {DEFAULT_RULE})")
    command.add_argument("--out", type=file, metavar="DIR", help=f"write {NAME} there")


def run(options: argparse.Namespace, console: Console) -> int:
    """Exit status 0 when no bit differed and no guard was hit, 1 otherwise, also after Ctrl-C.

    Raises StrataError when it cannot run, or cannot go on; what is finished is kept all the same.
    """
    kinds = _kinds(options.paths)
    executor = open_executor(options.executor, rule=options.rule or DEFAULT_RULE, target=options.target)
    refuse_idle(options, executor.name == "lanes")
    with closing(RunFile(options.out, NAME)) if options.out else nullcontext() as file:
        if file is not None and file.replaces:
            console.print(file.replaces, markup=False, soft_wrap=True)
        return _run(options, kinds, executor, file, console)


def _run(
    options: argparse.Namespace,
    kinds: Sequence[tuple[FuzzKind, list[Path]]],
    executor: Executor,
    file: RunFile | None,
    console: Console,
) -> int:
    where = _where(options, executor)
    results: list[Compared] = []
    done = 0
    try:
        for index in range(options.first, options.first + options.count):
            turn, slot = divmod(index, len(kinds))
            for result in _compare(*kinds[slot], executor, options.seed, turn):
                results.append(result)
                if not result.sound:
                    console.print(_explain(result, options.seed, turn, where), markup=False, soft_wrap=True)
            done += 1
            if done % 16 == 0 or done == options.count:
                console.print(f"{done} of {options.count} configurations: {_differ(results)}")
            _write(file, unfinished.COMPLETE if done == options.count else unfinished.RUNNING, executor, results)
    except BaseException as error:
        try:
            _write(file, unfinished.status(error), executor, results)
        finally:
            _say(error, options, done, f"{_differ(results)}{unfinished.where(file)}", console)
        if not isinstance(error, KeyboardInterrupt):
            raise
        return FAILED
    return PASSED if results and all(result.sound for result in results) else FAILED


def _say(error: BaseException, options: argparse.Namespace, done: int, found: str, console: Console) -> None:
    """How much is finished, what was found, and how to go on if something is left."""
    first, left = options.first + done, options.count - done
    rest = {"first": first, "count": left, "seed": options.seed, "paths": options.paths}
    rest |= {"executor": options.executor, "target": options.target, "rule": options.rule}
    rest |= {"out": unfinished.beside(options.out, first)}
    command = f"the rest: {unfinished.command('validation fuzz', rest)}" if left else ""
    unfinished.say(console, error, f"{done} of {options.count} configurations are finished, {found}", command)


def _differ(results: Sequence[Compared]) -> str:
    differing, outputs = (sum(getattr(one, name) for one in results) for name in ("differing", "outputs"))
    return f"{differing} of {outputs:,} outputs differ"


def _kinds(pattern: str) -> list[tuple[FuzzKind, list[Path]]]:
    """The kinds that a pattern's paths have, with those paths. Raises StrataError where there is none."""
    try:
        paths = select(pattern)
    except ValueError as error:
        raise StrataError(str(error)) from error
    found: dict[FuzzKind, list[Path]] = {one.fuzz: [] for one in registry.found().values() if one.fuzz is not None}
    for path in paths:
        kind = registry.of(path).fuzz
        if kind is not None:
            found[kind].append(path)
    chosen = [(kind, own) for kind, own in found.items() if own]
    if not chosen:
        known = ", ".join(one.name for one in registry.found().values() if one.fuzz is not None)
        raise StrataError(f"--paths {pattern}: {paths[0].operation} is not fuzzed, expected one of {known}")
    return chosen


def _compare(kind: FuzzKind, paths: Sequence[Path], executor: Executor, seed: int, index: int) -> Iterator[Compared]:
    """Configuration `index` of a kind on those of its paths that have its mode. A run that fails is a result."""
    what = kind.configuration(seed, index, tuple(dict.fromkeys(path.mode for path in paths)), executor.name == "lanes")
    for path in paths:
        if path.mode != what.mode:
            continue
        try:
            yield kind.compare(executor, seed, what, path)
        except ExecutorUnavailable:  # nothing can run
            raise
        except StrataError as error:
            yield Compared(what.text(), path.name, said=str(error))
        except Exception as error:  # a fault of the harness: this run is none, the others go on
            yield Compared(what.text(), path.name, said=unforeseen(error))


def _where(options: argparse.Namespace, executor: Executor) -> str:
    """The options that run a configuration again where it ran."""
    given = ("rule", "target")
    words = [word for name in given if getattr(options, name) for word in (f"--{name}", getattr(options, name))]
    return shlex.join(["--executor", executor.name, *words])


def _explain(result: Compared, seed: int, index: int, where: str) -> str:
    """One line: what differed where, and the command that runs just that. where: of `_where`."""
    again = f"--seed {seed} --first {index} --count 1 --paths '{result.path}' {where}"
    said = f", {result.said}" if result.said else ""
    return (
        f"{result.differing} of {result.outputs} outputs differ, guards {result.guards}{said}: "
        f"{result.path} {result.configuration} | python -m validation fuzz {again}"
    )


def _write(file: RunFile | None, status: str, executor: Executor, results: Sequence[Compared]) -> None:
    if file is not None:
        held = {"status": status, "process": owner.this(), "executor": executor.describe()}
        file.write(held | {"results": [asdict(result) for result in results]})
