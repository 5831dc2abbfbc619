"""The console of the commands: colours are its own, and text is text."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from strata.output import Output, ends_unread
from strata.shown import printable
from strata.terminal import Terminal
from tests.strata.hostile import SENT, obeyed
from validation.run.progress import Reporter


def said(*what: object) -> str:
    """What a plain console writes of these, printed one by one."""
    stream = io.StringIO()
    terminal = Terminal(file=stream, width=300)
    for one in what:
        terminal.print(one)
    return stream.getvalue()


@given(st.text(max_size=20))
@example("".join(SENT))
def test_nothing_in_a_text_is_obeyed(text: str) -> None:
    table = Table(text, title=text)
    table.add_row(text)
    assert obeyed(said(text, Text(text), table), "\n") == []


@pytest.mark.parametrize("text", ["[red]x[/red]", "[/]", "[link=x]", ":bomb:", "[bold"])
def test_no_text_is_markup(text: str) -> None:
    table = Table("a")
    table.add_row(text)
    assert said(text) == f"{text}\n"
    assert text in said(table)


def test_colours_of_its_own_are_sent_and_others_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = io.StringIO()
    with redirect_stdout(Output(stream, "standard output")):
        Terminal(force_terminal=True, color_system="standard", width=80).print("a\x1b[2J", style="red")
        print("b\x1b[31m")
    assert stream.getvalue() == "\x1b[31ma\\u001b[2J\x1b[0m\nb\\u001b[31m\n"


def test_a_bar_over_a_run_shows_what_a_case_says() -> None:
    stream = io.StringIO()
    terminal = Terminal(file=stream, force_terminal=True, color_system=None, width=80)
    with Reporter(terminal, 2) as reporter:
        reporter.starts("\x1b]0;title\x07 case")
        reporter.finished("\x9b2J", "EXCEEDS [red]: \u202e")
    assert "\x1b]0;" not in stream.getvalue()
    assert "\x9b" not in stream.getvalue()
    assert "EXCEEDS [red]: \\u202e" in stream.getvalue()


def test_every_way_out_of_a_command_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    @ends_unread
    def command() -> int:
        print("out\x1b[2J")
        Terminal(width=80).print("console\x1b[2J")
        print("error\x1b[2J", file=sys.stderr)
        return 1

    assert command() == 1
    captured = capsys.readouterr()
    assert captured.out == "out\\u001b[2J\nconsole\\u001b[2J\n"
    assert captured.err == "error\\u001b[2J\n"
    assert printable(captured.out) == captured.out
