"""Runs mutants and prints what killed each: `python -m validation.mutants [NAME ...]`."""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import nullcontext
from pathlib import Path as FilePath

from rich.console import Console
from rich.text import Text

from strata.arguments import MOST_JOBS, file, shown, whole
from strata.command import command
from strata.cpus import usable
from strata.executors import NAMES
from strata.executors.base import StrataError
from strata.nearest import hint
from strata.terminal import Terminal
from validation.host import whole_file
from validation.host.checkout import need_checkout
from validation.host.turns import sample, today
from validation.mutants import matrix, published
from validation.mutants.faults import table
from validation.mutants.mutant import Mutant
from validation.mutants.store import Store
from validation.mutants.trial import Outcome, outcome, trial_workers
from validation.run import unfinished
from validation.run.claim import Claim
from validation.run.progress import Reporter

PASSED, FAILED, COULD_NOT_RUN = 0, 1, 2
_WIDTH = 140
_STYLES = {"killed": "green", "survived": "bold red", "error": "bold red", "device": "yellow"}


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m validation.mutants", description=__doc__)
    top.add_argument("names", nargs="*", metavar="NAME", help="only these mutants")
    top.add_argument("--list", action="store_true", help="print the table and run nothing")
    top.add_argument("--missing", action="store_true", help="only those of which the matrix has no row")
    top.add_argument(
        "--sample", type=whole(1), metavar="N", help="only about N mutants of the matrix, others every day"
    )
    top.add_argument("--turn", type=whole(), metavar="K", help="which sample (default: the day)")
    top.add_argument("--jobs", type=whole(1, MOST_JOBS), default=usable(), metavar="N", help="at once (default: cores)")
    top.add_argument("--executor", choices=NAMES, default="lanes", help="where kernels run (default: %(default)s)")
    top.add_argument(
        "--out", type=file, metavar="DIR", help="keep mutants.json and mutants.md there, and go on from it"
    )
    top.add_argument(
        "--publish", action="store_true", help="write their rows into docs/mutants.md, beside those of the others"
    )
    return top


@command()
def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 when every mutant was killed, 1 when one survived, 2 when one could not be judged."""
    options = parser().parse_args(arguments)
    need_checkout("python -m validation.mutants")
    console = Terminal(width=None if sys.stdout.isatty() else _WIDTH)
    known = table()
    names = _chosen(options, list(known))
    if options.list:
        for name in names:
            console.print(f"{name}: {known[name].why}", markup=False, soft_wrap=True)
        return PASSED
    chosen = [known[name] for name in names]
    done: dict[str, Outcome] = {}
    try:
        with _claimed(options.out):
            store = Store(options.out, options.executor)
            for one in _run(chosen, options, store, console):
                done[one.name] = one
        if options.publish:
            published.publish([done[name] for name in names], known)
    except BaseException as error:
        _report([done[name] for name in names if name in done], known, console)
        count = f"{len(done)} of {len(names)} mutants"
        kept = f"{count} are finished"
        if options.out and done:  # each of them is written before it is here
            kept = f"what is finished is kept, {count} in {options.out}"
        rest = "the same command goes on" if options.out else "with --out DIR the same command would go on"
        unfinished.say(console, error, kept, rest)
        if not isinstance(error, KeyboardInterrupt):
            raise
        return FAILED
    outcomes = [done[name] for name in names]
    _report(outcomes, known, console)
    if options.out:
        whole_file.write(options.out / "mutants.md", matrix.markdown(outcomes, known))
    if any(one.status == "error" for one in outcomes):
        return COULD_NOT_RUN
    return FAILED if any(one.status == "survived" for one in outcomes) else PASSED


def _claimed(directory: FilePath | None) -> Claim | nullcontext[None]:
    """The directory that outcomes are kept in, for this run alone. Raises StrataError when it cannot be had."""
    if directory is None:
        return nullcontext()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return Claim(directory)
    except OSError as error:
        raise StrataError(f"cannot write to the directory {str(directory)!r}: {error.strerror}") from error


def _chosen(options: argparse.Namespace, known: Sequence[str]) -> list[str]:
    """The names asked for. Raises StrataError for one that does not exist."""
    unknown = [name for name in options.names if name not in known]
    if unknown:
        said = hint(unknown[0], known, "see `python -m validation.mutants --list`")
        raise StrataError(f"no mutant is called {shown(unknown[0])}; {said}")
    names = list(dict.fromkeys(options.names)) or list(known)
    if options.missing:
        rows = published.with_row()
        names = [name for name in names if name not in rows]
    if options.sample is None:
        return names
    pool = names if options.names or options.missing else published.judged(names)
    return sample(pool, options.sample, today() if options.turn is None else options.turn)


def _run(mutants: Sequence[Mutant], options: argparse.Namespace, store: Store, console: Console) -> Iterator[Outcome]:
    """Outcomes as they come, kept ones first; several trials at once."""
    with Reporter(console, len(mutants)) as reporter:
        fresh = []
        for mutant in mutants:
            kept = store.find(mutant)
            if kept is None:
                fresh.append(mutant)
                continue
            reporter.finished(f"{kept.name} (kept)", "")
            yield kept
        with trial_workers(options.jobs) as workers:
            waiting = [workers.submit(outcome, mutant, options.executor) for mutant in fresh]
            try:
                for future in as_completed(waiting):
                    one = future.result()
                    store.add(one)
                    reporter.finished(one.name, line(one) if one.status in ("survived", "error") else "")
                    yield one
            except BaseException:
                workers.shutdown(wait=False, cancel_futures=True)
                raise


def line(one: Outcome) -> str:
    """One line on a mutant."""
    if one.kill:
        return f"killed    {one.name}: {', '.join(one.kill.checks)} on {one.kill.where}: {one.kill.reason}"
    return f"{one.status:9} {one.name}: {one.note}"


def _report(outcomes: Sequence[Outcome], known: dict[str, Mutant], console: Console) -> None:
    from rich.table import Table

    names = matrix.columns(outcomes)
    grid = Table(box=None, pad_edge=False, show_edge=False)
    grid.add_column("mutant", no_wrap=True)
    grid.add_column("killed by", overflow="fold")
    grid.add_column("NMSE", no_wrap=True)
    grid.add_column("allclose", no_wrap=True)
    grid.add_column("rows", no_wrap=True)
    for one in outcomes:
        checks = list(dict.fromkeys(matrix.column(check) for check in one.kill.checks)) if one.kill else []
        said = ", ".join(checks) or f"{one.status.upper()}: {one.note or known[one.name].why}"
        grid.add_row(one.name, Text(said, _STYLES[one.status]), *matrix.usual_words(one))
    console.print(grid)
    console.print()
    for name in names:
        count = sum(name in {matrix.column(check) for check in one.kill.checks} for one in outcomes if one.kill)
        console.print(f"{count:4} killed by {name}", markup=False)
    for text in matrix.summary(outcomes):
        console.print(text, markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
