"""Proves elastic memory: `faults` and `traces` without a card, `ledger` and `card` on one."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from validation.memory import card_command, faults_command, ledger_command, traces_command

_COMMANDS: dict[str, tuple[Any, str]] = {
    "faults": (faults_command, "every driver call fails, before and after its effect, with each code"),
    "traces": (traces_command, "random traces against a model"),
    "ledger": (ledger_command, "digests of every slot before, during and after a loan"),
    "card": (card_command, "the whole of it on a card, timed"),
}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The subcommands of `python -m validation memory`."""
    commands = command.add_subparsers(dest="memory", required=True, metavar="COMMAND")
    for name, (module, said) in _COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=said, description=module.__doc__))


def run(options: argparse.Namespace, console: Console) -> int:
    """Exit status of the subcommand."""
    return int(_COMMANDS[options.memory][0].run(options, console))
