"""The console of every command: colours and bars are the command's own, text is text.

What is printed holds names, texts and numbers out of files. Nothing in them is markup or a code for an emoji, and what
a terminal would obey is shown as escapes; so no caller has to remember either.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from strata.shown import printable


class _Sent:
    """A stream to which coloured text is sent as it is, see `strata.output.Output`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(getattr(self._stream, "send", self._stream.write)(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Terminal(Console):
    """A rich console that takes no text for anything else. options: of `rich.console.Console`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of `renderable`. Those that steer the terminal are made by rich alone, never from text."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable(text), style)

    @property
    def file(self) -> IO[str]:
        """Where it writes."""
        return _Sent(super().file)  # type: ignore[return-value]

    @file.setter
    def file(self, new: IO[str]) -> None:
        self._file = new
