"""Proves Strata's kernels: `python -m validation parity`, what proves the proof, and the lists of paths and recipes."""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

import validation.host.blas_threads  # noqa: F401  before anything imports NumPy
from strata.arguments import file, whole, word
from strata.command import command
from strata.executors import NAMES as EXECUTORS
from strata.executors.lanes import FLAVORS
from strata.kernels.paths import PATHS
from strata.terminal import Terminal
from validation.check import command as check_command
from validation.controls import floor_command, self_test
from validation.core.settings import PREDICT
from validation.engine_laws import command as engine_laws
from validation.fuzz import command as fuzz
from validation.ledger import command as ledger_command
from validation.memory import command as memory_command
from validation.numerics.tensorcore_rules import DEFAULT_RULE
from validation.operations import registry
from validation.operations.experts import fault_survey
from validation.parity import command as parity
from validation.quality import command as quality_command
from validation.rates import command as rates
from validation.record import recording, verify_command
from validation.report import command as report_command
from validation.run import plan as profiles
from validation.run.plan import PROFILES
from validation.soak import command as soak
from validation.static import command as static

FAILED, COULD_NOT_RUN = 1, 2
#: Timings that anybody may ask for of one case: each is a pair of events of the card.
MOST_REPS = 10_000
#: The largest seed of a schedule: lanes take twice it, in 64 bits.
MOST_SCHEDULE = (1 << 62) - 1
LOG_WIDTH = 140
#: Commands that a module carries out: its `add_arguments` and `run`, its docstring for --help; and a line on each.
_COMMANDS: dict[str, tuple[Any, str]] = {
    "check": (check_command, "a kernel of your own, defined in a file outside of this repository"),
    "fuzz": (fuzz, "random configurations, infinities and NaN among them, compared bit for bit"),
    "faults": (fault_survey, "known faults of expert kernels, and which limits let them through"),
    "static": (static, "registers, shared memory, spills and instructions"),
    "soak": (soak, "many healthy runs of small cases with fresh seeds: is there a false alarm?"),
    "ledger": (ledger_command, "how much of their bounds the kernels use"),
    "floor": (floor_command, "what plans, controls and the ledger must have"),
    "verify": (verify_command, "check a record without a card"),
    "engine-laws": (engine_laws, "bits of a model do not depend on how the work was cut"),
    "rates": (rates, "tokens a second of the engine, switches off and on in turn"),
    "report": (report_command, "write a page about runs and records"),
    "quality": (quality_command, "whole models' answers: a gate between settings, losses beside FP64, needles"),
    "memory": (memory_command, "elastic memory: failing driver calls, traces, byte ledgers, a run on a card"),
}


def parser() -> argparse.ArgumentParser:
    """The command line. Exit status: 0 all planned cases passed, 1 one did not, 2 could not run."""
    top = argparse.ArgumentParser(prog="python -m validation", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "parity",
        help="compare paths with FP64, with the kernels they replace and with predicted bits",
        description="Runs planned cases and judges them. Exit status: 0 when every planned case passed, "
        "1 when one did not, 2 when nothing could be run.",
    )
    what = run.add_argument_group("what is run")
    what.add_argument("--paths", default=parity.DEFAULT_PATHS, metavar="GLOB", help="paths (default: %(default)s)")
    what.add_argument(
        "--profile", choices=PROFILES, help=f"list of cases (default: {parity.DEFAULT_PROFILE}; not with --case)"
    )
    what.add_argument("--context", type=whole(), metavar="N", help="run one size instead of a profile: cells")
    what.add_argument("--queries", type=whole(), metavar="N", help="queries of that size (default: min(512, context))")
    what.add_argument("--recipe", type=word, metavar="NAME", help="only this recipe (see `recipes`)")
    what.add_argument("--case", type=word, metavar="TEXT", help="one case, as a failing verdict prints it")
    what.add_argument("--capture", type=file, metavar="FILE", help="captured model data; adds recipe `captured`")
    what.add_argument(
        "--seed", type=whole(), metavar="N", help=f"seed of all cases (default: {profiles.SEED}; not with --case)"
    )
    where = run.add_argument_group("where it runs")
    where.add_argument("--executor", choices=EXECUTORS, default="auto", help="auto takes a card when there is one")
    where.add_argument("--target", type=word, metavar="ARCH", help="cuda: image to build (default: the card's own)")
    where.add_argument(
        "--rule",
        type=word,
        help="lanes: tensor-core rule; exact, an architecture, or block,F such as 8,24 "
        f"(default: {DEFAULT_RULE}, the one measured on a card)",
    )
    where.add_argument("--flavor", choices=FLAVORS, help="lanes: build of every case (default: by size of the case)")
    where.add_argument(
        "--schedule-seed",
        type=whole(0, MOST_SCHEDULE),
        metavar="N",
        help="lanes: permute the order of lanes and blocks",
    )
    more = run.add_argument_group("what is asked besides")
    more.add_argument(
        "--predict",
        choices=PREDICT,
        help="cuda: compare bits with lanes (default: sample in the quick profile when a compiler exists, else none)",
    )
    more.add_argument(
        "--reps", type=whole(0, MOST_REPS), default=0, metavar="N", help="cuda: time path and baseline N times"
    )
    more.add_argument("--out", type=file, metavar="DIR", help="write run.json with every figure there")
    more.add_argument(
        "--record",
        type=file,
        nargs="?",
        const=recording.DIRECTORY,
        metavar="DIR",
        help=f"make a record of the run, DIR/<sha256>.json (DIR: {recording.DIRECTORY}): the profile (default: "
        f"{recording.PROFILE}) and the required sizes, on a card with all bits predicted where a compiler exists; "
        "run.json goes there too",
    )
    for name, (module, said) in _COMMANDS.items():
        module.add_arguments(
            commands.add_parser(
                name, help=said, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
            )
        )
    commands.add_parser("controls", help="wrong numbers, kernels, data and runs that the harness must refuse")
    commands.add_parser("paths", help="list every path with its baseline")
    commands.add_parser("recipes", help="list every recipe with its motivation")
    return top


def _list(command: str, console: Console) -> int:
    table = Table(box=None, pad_edge=False)
    if command == "paths":
        for heading in ("path", "from capability", "baseline"):
            table.add_column(heading, no_wrap=True)
        for path in PATHS.values():
            capability = f"{path.min_capability // 10}.{path.min_capability % 10}"
            table.add_row(path.name, capability, path.baseline or "-")
    else:
        table.add_column("recipe", no_wrap=True)
        table.add_column("why")
        for recipe in registry.recipes_of_all().values():
            table.add_row(recipe.name, recipe.motivation)
    console.print(table)
    return 0


@command(interrupted=FAILED)  # of commands that keep nothing; those that do say so themselves
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(words)
    # Without a terminal rich assumes 80 columns; a log has room for the table.
    console = Terminal(width=None if sys.stdout.isatty() else LOG_WIDTH)
    if options.command == "parity":
        return parity.run(options, words, console)
    if options.command in _COMMANDS:
        return int(_COMMANDS[options.command][0].run(options, console))
    if options.command == "controls":
        return self_test.run(console)
    return _list(options.command, console)


if __name__ == "__main__":
    sys.exit(main())
