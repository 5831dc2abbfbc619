"""A process that lends and reclaims, or reads prompts in borrowed memory, for ever: somebody will kill it.

`python -m validation.memory.victim lend` prints `READY` once its cache is open, then a line before each step: LEND and
RECLAIM. With `alias` prompts are read with the head's memory, with `loan` with that of the head, draft layer and
verifier, which are released and restored.
"""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from strata.arguments import whole
from strata.command import command
from strata.executors.base import StrataError
from strata.memory.arena.pieces import MiB
from validation.memory.bench_world import BenchWorld, fake_world, real_world
from validation.memory.loan_engine import BRISK, SMALL, LoanEngine

WHATS = ("lend", "alias", "loan")


@command()
def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0 after `--rounds`."""
    parser = argparse.ArgumentParser(prog="python -m validation.memory.victim", description=__doc__)
    parser.add_argument("what", choices=WHATS)
    parser.add_argument("--fake", action="store_true", help="on a fake card")
    parser.add_argument("--rounds", type=whole(1), default=1 << 30, metavar="N", help="end after N (default: never)")
    options = parser.parse_args(arguments)
    world = fake_world() if options.fake else real_world()
    if options.what == "loan":
        _loan(LoanEngine(world.driver, SMALL if options.fake else BRISK), options.rounds)
        return 0
    if not options.fake:
        world.sizes = replace(world.sizes, experts=64, cache=352 * MiB, lend=128, keep=8)
    world.open()
    steps = _lend if options.what == "lend" else _alias
    steps(world, options.rounds)
    return 0


def _lend(world: BenchWorld, rounds: int) -> None:
    _say("READY")
    for _ in range(rounds):
        _say("LEND")
        world.lending.lend(world.sizes.lend)
        _say("RECLAIM")
        world.lending.reclaim()


def _alias(world: BenchWorld, rounds: int) -> None:
    alias = world.alias()
    _say("READY")
    for _ in range(rounds):
        _say("enter")
        alias.enter(world.sizes.fresh)
        _say("leave")
        alias.leave()


def _loan(engine: LoanEngine, rounds: int) -> None:
    _say("READY")
    for _ in range(rounds):
        _say("begin")
        engine.loan.begin(engine.prompt)
        if engine.loan.note:
            raise StrataError(f"the prompt took no loan: {engine.loan.note}")
        _say("end")
        engine.loan.end()


def _say(word: str) -> None:
    print(word, flush=True)


if __name__ == "__main__":
    sys.exit(main())
