"""Progress is plain lines where there is no terminal."""

from __future__ import annotations

import io

from rich.console import Console

from validation.run.progress import PLAIN_LINES, Reporter


def shown(total: int, failing: int | None = None, terminal: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=terminal)
    with Reporter(console, total) as reporter:
        for number in range(total):
            reporter.starts(f"case {number}")
            reporter.finished(f"case {number}", "EXCEEDS [x]" if number == failing else "")
    return out.getvalue()


def test_a_log_gets_a_few_plain_lines() -> None:
    lines = shown(200).splitlines()
    assert len(lines) == PLAIN_LINES
    assert lines[-1] == "200 of 200 cases, last case 199"
    assert len(shown(3).splitlines()) == 3
    assert "\x1b" not in shown(200)


def test_failures_are_told_when_they_happen() -> None:
    lines = shown(200, failing=30).splitlines()
    assert lines[2] == "40 of 200 cases, last case 39" or lines[1].startswith("EXCEEDS [x]")
    assert "EXCEEDS [x]" in lines


def test_a_terminal_gets_a_bar() -> None:
    assert "case" in shown(5, terminal=True)
    assert "EXCEEDS [x]" in shown(5, failing=2, terminal=True)
