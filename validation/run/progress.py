"""Progress of a run: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

#: Lines printed over a run when there is no terminal; failures are printed besides.
PLAIN_LINES = 10


class Reporter:
    """Shows how far a run is. Use as a context manager."""

    def __init__(self, console: Console, total: int, noun: str = "cases") -> None:
        """noun: what is counted."""
        self._console = console
        self._total = total
        self._noun = noun
        self._done = 0
        self._noted: set[str] = set()
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Reporter:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def starts(self, what: str) -> None:
        """A case begins."""
        if self._bar:
            self._bar.update(self._task, description=what)

    def note(self, line: str) -> None:
        """One line above the bar."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def once(self, line: str) -> None:
        """A note, unless it was made before."""
        if line not in self._noted:
            self._noted.add(line)
            self.note(line)

    def finished(self, what: str, explain: str) -> None:
        """A case ended; explain: why it did not pass, or empty."""
        self._done += 1
        if explain:
            self.note(explain)
        if self._bar:
            self._bar.advance(self._task)
        elif self._done * PLAIN_LINES // self._total > (self._done - 1) * PLAIN_LINES // self._total:
            self.note(f"{self._done} of {self._total} {self._noun}, last {what}")
