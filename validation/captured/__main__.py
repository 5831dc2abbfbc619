"""Capture q, K and V of Gemma 3 270M: `python -m validation.captured --out FILE`, or show what a file holds."""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table

from strata.arguments import file, numbers, whole
from strata.command import command
from strata.shown import shown
from strata.terminal import Terminal
from strata.unforeseen import INTERRUPTED
from validation.captured.archive import Capture, load
from validation.captured.capture import DEFAULT_LAYERS, DEFAULT_TOKENS, capture
from validation.captured.forward import Progress


@command()
def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 2 could not, 130 interrupted."""
    options = _parser().parse_args(arguments)
    console = Terminal(soft_wrap=True)
    if options.show:
        _describe(console, load(options.show), options.show)
        return 0
    try:
        with _reporting(console) as progress:
            result = capture(options.tokens, options.layers, options.out, progress)
    except KeyboardInterrupt:
        print("interrupted: a capture is written whole or not at all", file=sys.stderr)
        return INTERRUPTED
    _describe(console, result, options.out)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m validation.captured", description=__doc__)
    parser.add_argument("--tokens", type=whole(1), default=DEFAULT_TOKENS, help="tokens to run (default %(default)s)")
    parser.add_argument(
        "--layers",
        type=numbers,
        default=DEFAULT_LAYERS,
        metavar="L,L,...",
        help=f"layers to keep (default {','.join(map(str, DEFAULT_LAYERS))})",
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--out", type=file, metavar="FILE", help="where to write the capture (.npz)")
    target.add_argument("--show", type=file, metavar="FILE", help="check a capture and show it, running nothing")
    return parser


@contextmanager
def _reporting(console: Console) -> Iterator[Progress]:
    """Bars on a terminal; elsewhere a plain line as each stage ends."""
    if not console.is_terminal:
        yield _plain_lines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console) as bars:
        tasks = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done)

        yield report


def _plain_lines(console: Console) -> Callable[[str, int, int], None]:
    started: dict[str, float] = {}

    def report(stage: str, done: int, total: int) -> None:
        started.setdefault(stage, time.monotonic())
        if done == total:
            console.print(f"{stage}: {total} of {total}, {time.monotonic() - started[stage]:.1f} s")

    return report


def _describe(console: Console, result: Capture, path: Path) -> None:
    data = result.metadata
    console.print(f"model   SHA-256 {shown(data.model_sha256)}")
    console.print(f"text    SHA-256 {shown(data.text_sha256)}  {data.tokens} tokens of {shown(data.text_source)}")
    console.print(f"loss    {data.loss:.4f} per token (limit: unigram entropy {data.loss_limit:.4f})")
    table = Table("layer", "part", "shape", "largest", "median", "largest / median by channel")
    for layer, inputs in result.layers.items():
        for part, array in (("q", inputs.q), ("k", inputs.k), ("v", inputs.v)):
            magnitude = np.abs(array)
            channels = np.sqrt(np.mean(np.square(array, dtype=np.float64), axis=(0, 1)))
            table.add_row(
                str(layer),
                part,
                " x ".join(map(str, array.shape)),
                f"{magnitude.max():.4g}",
                f"{np.median(magnitude):.4g}",
                f"{channels.max() / np.median(channels):.3g}",
            )
    console.print(table)
    console.print(f"file    {path}  {path.stat().st_size / 2**20:.1f} MiB", markup=False)


if __name__ == "__main__":
    sys.exit(main())
