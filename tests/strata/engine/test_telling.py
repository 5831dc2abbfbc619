"""How far something is: lines now and then, and on a terminal a bar."""

from __future__ import annotations

import io
from collections.abc import Iterator

from strata.engine.telling import BETWEEN_S, telling
from strata.output import Output


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_a_line_now_and_then() -> None:
    out = io.StringIO()
    seconds: Iterator[float] = iter([0, 1, BETWEEN_S, BETWEEN_S, BETWEEN_S + 1, 2 * BETWEEN_S, 2 * BETWEEN_S])
    with telling(out, "reading", "tokens", lambda: next(seconds)) as tell:
        for done in (1, 2, 3, 4):
            tell(done, 4)
    assert out.getvalue() == "reading: 2 of 4 tokens\nreading: 4 of 4 tokens\n"


def test_a_bar_on_a_terminal() -> None:
    """Through what a command's errors go through, which shows what steers a terminal as escapes where it is text."""
    screen = Screen()
    with telling(Output(screen), "reading", "tokens") as tell:
        tell(3, 4)
    assert "3/4" in screen.getvalue()
    assert "\x1b[" in screen.getvalue()
    assert "\\u001b" not in screen.getvalue()
