"""Rates of the engine on this machine: tokens a second of prompts and of decoding, with switches off and on in turn.

Every measurement is a process of its own. Arms are settings of switches; they take turns (A, B, A, B), so that what
drifts meets both. A row is the median of an arm's processes and their range, with the host's share: how much of the
time the card did not work because Python was between launches or copies. No rate is compared with anything: the exit
status is 0 when all processes measured, else 2.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from strata.arguments import file, whole, word
from strata.executors import NAMES as EXECUTORS
from strata.executors.base import StrataError, system_reason
from strata.kernels.pool import MODES
from strata.switches import SWITCHES
from validation.host.whole_file import replacing
from validation.run.progress import Reporter

NAME = "rates.json"
SCHEMA = "strata-rates/1"
#: The arm of no switch.
PLAIN = ""

#: Carries out a plan in a process with an environment, and returns what it measured.
Run = Callable[[Mapping[str, Any], Mapping[str, str]], Mapping[str, Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("model", type=file, metavar="FILE", help="a GGUF file that the engine runs")
    parser.add_argument("--kv", default="fp16,q4_0", type=word, metavar="MODES", help="KV modes (default: %(default)s)")
    parser.add_argument(
        "--prompts", default="8192,16384,32000", type=word, metavar="N,N", help="tokens (default: %(default)s)"
    )
    parser.add_argument("--decode", default=128, type=whole(), metavar="N", help="tokens decoded (default: 128)")
    parser.add_argument("--processes", default=5, type=whole(), metavar="N", help="of each arm (default: 5)")
    parser.add_argument(
        "--arm",
        action="append",
        type=word,
        metavar="NAME=VALUE[,NAME=VALUE]",
        help="an arm of switches beside the one without (may be repeated)",
    )
    parser.add_argument("--executor", choices=EXECUTORS, default="cuda", help="where it runs (default: cuda)")
    parser.add_argument("--out", type=file, metavar="DIR", help=f"keep {NAME} there")


@dataclass(frozen=True)
class Arm:
    """What takes turns. name: as it was typed; kv: the mode; switches: values by name."""

    name: str
    kv: str
    switches: Mapping[str, str]


def arms(modes: str, asked: Sequence[str]) -> list[Arm]:
    """Every mode with every setting of switches, the one without first.

    Parameters
    ----------
    modes
        Modes with commas between them.
    asked
        Settings `NAME=VALUE`, with commas between several.

    Raises
    ------
    StrataError
        For a mode, a switch or a value that does not exist, and for one that is named twice.
    """
    chosen = modes.split(",")
    for mode in chosen:
        if mode not in MODES or chosen.count(mode) > 1:
            raise StrataError(f"--kv {mode!r}: expected some of {', '.join(MODES)}, each once")
    settings: dict[str, dict[str, str]] = {PLAIN: {}}
    for text in asked:
        values: dict[str, str] = {}
        for part in text.split(","):
            name, _, value = part.partition("=")
            if name not in SWITCHES or not SWITCHES[name].takes(value) or name in values:
                known = SWITCHES[name].expected if name in SWITCHES else "a switch of `strata switches`, once"
                raise StrataError(f"--arm {part!r}: expected NAME=VALUE, {known}")
            values[name] = value
        if text in settings:
            raise StrataError(f"--arm {text!r}: named twice, expected each once")
        settings[text] = values
    return [Arm(name, mode, values) for mode in chosen for name, values in settings.items()]


def lengths(text: str) -> list[int]:
    """The lengths of prompts, at least 2 tokens each. Raises StrataError for anything else."""
    return [whole(2)(part) for part in text.split(",")]


def run(arguments: argparse.Namespace, console: Console, process: Run | None = None) -> int:
    """Measure and print the table; 0.

    Raises
    ------
    StrataError
        When a process did not measure.
    """
    turns = arms(arguments.kv, arguments.arm or [])
    prompts = lengths(arguments.prompts)
    if not arguments.model.is_file():
        raise StrataError(f"{str(arguments.model)!r} is no file, expected a GGUF file")
    measured: dict[int, list[Mapping[str, Any]]] = {index: [] for index in range(len(turns))}
    with Reporter(console, arguments.processes * len(turns), "processes") as reporter:
        for _ in range(arguments.processes):
            for index, arm in enumerate(turns):
                reporter.starts(f"{arm.kv} {arm.name}")
                plan = {
                    "model": str(arguments.model),
                    "executor": arguments.executor,
                    "prompts": prompts,
                    "decode": arguments.decode,
                    "options": {"kv": arm.kv},
                }
                measured[index].append((process or in_a_process)(plan, arm.switches))
                if arguments.out is not None:
                    keep(arguments.out, turns, measured)
                reporter.note(line(arm, prompts, measured[index][-1]))
    console.print(table(turns, prompts, measured))
    for arm, results in zip(turns, measured.values(), strict=True):
        for said in results[-1]["facts"].get("paths", ()):
            console.print(f"{arm.kv} {arm.name}: {said}")
    if arguments.executor == "lanes":
        console.print("lanes: no speed of any card")
    return 0


def in_a_process(plan: Mapping[str, Any], switches: Mapping[str, str]) -> Mapping[str, Any]:
    """A measurement in a fresh process. Raises StrataError with its last line where it does not measure."""
    environment = {name: value for name, value in os.environ.items() if name not in SWITCHES} | dict(switches)
    done = subprocess.run(
        [sys.executable, "-m", "validation.rates"],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise StrataError(f"a measurement ended with {done.returncode}: {said}")
    result: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def keep(directory: Path, turns: Sequence[Arm], measured: Mapping[int, Sequence[Mapping[str, Any]]]) -> None:
    """Write all that is measured so far."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StrataError(f"--out {str(directory)!r} cannot be made: {system_reason(error)}") from error
    rows = [
        {"kv": arm.kv, "arm": arm.name, "switches": dict(arm.switches), "processes": list(measured[index])}
        for index, arm in enumerate(turns)
    ]
    with replacing(directory / NAME) as opened:
        opened.write(f"{json.dumps({'schema': SCHEMA, 'rows': rows}, indent=1, default=str)}\n".encode())


def line(arm: Arm, prompts: Sequence[int], result: Mapping[str, Any]) -> str:
    """One process in a line."""
    parts = [
        f"{tokens:,}: {rate(read):,.0f} and {rate(written):,.0f}"
        for tokens, read, written in zip(prompts, result["prompts"], result["decodes"], strict=True)
    ]
    return f"{arm.kv} {arm.name or 'no switch'}: prompt and decoded tokens a second at " + "; ".join(parts)


def rate(phase: Mapping[str, Any]) -> float:
    """Tokens a second of a phase."""
    return float(phase["tokens"]) / float(phase["seconds"])


def table(turns: Sequence[Arm], prompts: Sequence[int], measured: Mapping[int, Sequence[Mapping[str, Any]]]) -> Table:
    """A row for each arm and length: medians over its processes, and their range."""
    made = Table(box=None, pad_edge=False)
    for heading in ("kv", "switches", "prompt", "PP tokens/s", "range", "host", "TG tokens/s", "range", "host"):
        made.add_column(heading, justify="right" if heading not in ("kv", "switches") else "left")
    for index, arm in enumerate(turns):
        for at, tokens in enumerate(prompts):
            cells = []
            for phases in ("prompts", "decodes"):
                held = [result[phases][at] for result in measured[index]]
                rates = [rate(phase) for phase in held]
                host = median(float(phase["host"]) for phase in held)
                cells += [f"{median(rates):,.0f}", f"{min(rates):,.0f} to {max(rates):,.0f}", f"{host:.0%}"]
            made.add_row(arm.kv, arm.name or "none", f"{tokens:,}", *cells)
    return made
