"""The command `strata`. Exit status: 0 for yes, 1 for no, 2 for could not tell, with one line why (`command`); 141
when the reader of its output left before the end (`output`)."""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import argparse
import os
import platform
import sys
from collections.abc import Sequence

import numpy as np

from strata import __version__, arguments, switches
from strata.command import command
from strata.cpus import usable
from strata.device import LANES, PINNED_ARCHS, named, this_machine
from strata.engine import generate, model_command
from strata.executors import cache, open_executor
from strata.executors.base import Executor, StrataError
from strata.executors.first_launch import first_launch
from strata.expert_engine import probes
from strata.gate_table import Table
from strata.gates.installed import InstalledGate
from strata.kernels.expert_fused import DESCRIPTOR as FUSED
from strata.kernels.expert_probe import lines
from strata.kernels.paths import PATHS
from strata.memory.loan.loan_switches import loan_switches
from strata.memory.plan import command as memory_command


@command("strata")
def main(words: Sequence[str] | None = None) -> int:
    """Run the command `strata`.

    Parameters
    ----------
    words
        The words after its name; None for those of the command line.

    Returns
    -------
    int
        The exit status.
    """
    parser = argparse.ArgumentParser(prog="strata", description="Prompt-side kernels and what they run on.")
    parser.add_argument("--version", action="version", version=f"strata {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    doctor_parser = commands.add_parser("doctor", help="what this machine is, and which executors can run here")
    doctor_parser.set_defaults(run=lambda _: doctor())
    gate_parser = commands.add_parser("gate", help="which paths are open here, which serve, and what opens the rest")
    which = gate_parser.add_mutually_exclusive_group()
    which.add_argument("--capability", metavar="N.N", help="for a card of this compute capability, e.g. 7.5")
    which.add_argument("--all", action="store_true", help="for every compute capability that the compilers know")
    how = gate_parser.add_mutually_exclusive_group()
    how.add_argument("--each", action="store_true", help="a reason for each path, not for each operation")
    how.add_argument("--json", action="store_true", help="as JSON")
    gate_parser.set_defaults(run=lambda chosen: gate(chosen.capability, chosen.all, chosen.json, chosen.each))
    switches_parser = commands.add_parser("switches", help="every STRATA_ switch, what it takes and what it asks for")
    switches_parser.set_defaults(run=lambda _: list_switches())
    memory_command.add(commands)
    model_command.add(commands)
    generate.add(commands)
    chosen = parser.parse_args(words)
    return int(chosen.run(chosen))


def doctor() -> int:
    """Print what this machine is and which executors are available, and why one is not; 2 when none is."""
    _row("strata", f"{__version__}, Python {platform.python_version()}, NumPy {np.__version__}")
    _row("machine", f"{platform.system()} {platform.release()}, {platform.machine()}, {usable()} CPUs")
    try:
        _row("cache", str(cache.probe()))
        entries, held = cache.size()
        counted = f"{entries:,} entr{'y' if entries == 1 else 'ies'}, {held / 1e6:,.0f} MB"
        _row("", f"{counted}: nothing is deleted by itself, and all of it may be")
        cached = True
    except StrataError as error:
        _row("cache", f"NOT USABLE: {error}")
        cached = False
    asked = switches.read(os.environ)
    settings = [f"{name}={value}" for name, value in asked.values.items()]
    for line in [*settings, *asked.notes, *asked.problems, *loan_switches(asked)[1]]:
        _row("switches", line)
    available = [_report(name) for name in ("lanes", "cuda")] if cached else []
    if any(available):
        return 0
    if not cached:
        _row("", "lanes and cuda are not tried: what they run is compiled into the cache")
    _row("", "no kernel can run here")
    return 2


def list_switches() -> int:
    """Print the table of switches, two lines each; 0."""
    for switch in switches.SWITCHES.values():
        only = " Acts only in the library so far." if switch.library else ""
        print(f"{switch.name}={switch.expected}\n  {switch.meaning}{only}")
    for name, meaning in switches.SETTINGS.items():
        print(f"{name}\n  {meaning}")
    return 0


def gate(capability: str | None, every: bool, as_json: bool, each: bool = False) -> int:
    """Print the gate's table for this machine, for one compute capability, or for every one.

    Parameters
    ----------
    capability
        A compute capability as people write it, `7.5`; None for this machine.
    every
        Whether all capabilities that the pinned compilers know are shown, whatever `capability` says.
    as_json
        Whether the table is JSON.
    each
        Whether each path has lines of its own.

    Returns
    -------
    int
        The exit status, 0.

    Raises
    ------
    StrataError
        For a `capability` that is no such number.
    """
    lowest = min(path.min_capability for path in PATHS.values())
    if every:
        known = sorted({arch for archs in PINNED_ARCHS.values() for arch in archs if arch >= lowest})
        devices, note = [named(arch) for arch in known], ""
    elif capability is not None:
        devices, note = [named(arguments.of("--capability", arguments.capability, capability))], ""
    else:
        try:
            devices, note = [this_machine()], ""
        except StrataError as error:
            devices, note = [LANES], f"no card: {error}"
    table = Table.of(devices, switches.read(os.environ), InstalledGate(os.environ))
    print(table.json() if as_json else "\n".join([*([note] if note else []), table.text(each)]))
    return 0


def _report(name: str) -> bool:
    """Print what the executor `name` is, or why it cannot run; True when a kernel ran there just now."""
    try:
        executor = open_executor(name)
        facts = executor.describe()
        first_launch(executor)
    except StrataError as error:
        _row(name, f"not available: {error}")
        if name == "cuda":
            _row("", _compile_only())
        return False
    _row(name, "available: a kernel was built, loaded and launched")
    for key, value in facts.items():
        if key != "executor":
            text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            _row("", f"{key.replace('_', ' ')}: {text}")
    if name == "cuda":
        _experts(executor)
    return True


def _experts(executor: Executor) -> None:
    """Print what the probe of expert kernels says on a card, a line as each is tried; the first time compiles them."""
    if (executor.capability or 0) < min(path.min_capability for path in PATHS.values() if path.operation == FUSED.name):
        _row("experts", "this card has no fused path to probe")
        return
    for line in lines(probes(executor)):
        _row("experts", line)


def _compile_only() -> str:
    """Without a card a kernel author can still compile for every architecture."""
    from strata.executors.cuda.nvrtc import load_nvrtc

    try:
        nvrtc = load_nvrtc()
    except StrataError:
        return "no NVRTC either, so images cannot be compiled"
    return f"NVRTC {nvrtc.version} compiles images for sm_{', sm_'.join(map(str, nvrtc.archs))}"


def _row(title: str, text: str) -> None:
    print(f"{title:<9}{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
