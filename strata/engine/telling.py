"""How far something long is: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds between two lines.
BETWEEN_S = 10.0

Done = Callable[[int, int], None]


@contextmanager
def telling(stream: Any, stage: str, unit: str, clock: Callable[[], float] = time.monotonic) -> Iterator[Done]:
    """Inside, a function that is told what is done and what there is in all.

    Parameters
    ----------
    stream
        Where it is said: standard error, so that output stays what was asked for.
    stage
        What is done, in a word.
    unit
        What is counted.
    clock
        Seconds.
    """
    if not stream.isatty():
        yield _lines(stream, stage, unit, clock)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from strata.terminal import Terminal

    console = Terminal(file=stream)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(stage, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _lines(stream: Any, stage: str, unit: str, clock: Callable[[], float]) -> Done:
    """What takes no longer than a line's time is not worth one."""
    last = clock()

    def tell(done: int, total: int) -> None:
        nonlocal last
        if clock() - last >= BETWEEN_S:
            last = clock()
            print(f"{stage}: {done} of {total} {unit}", file=stream, flush=True)

    return tell
