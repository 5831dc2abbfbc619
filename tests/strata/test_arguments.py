"""What people type is read as it is written, or refused in one line that names it."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.arguments import (
    LARGEST,
    BadValueError,
    file,
    numbers,
    of,
    seconds,
    share,
    shown,
    size,
    thousands,
    whole,
    whole_mib,
    word,
)
from strata.executors.base import StrataError

ROOT = Path(__file__).resolve().parents[2]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
#: What `int` or `float` reads, and nobody who types a number means.
NOT_NUMBERS = (
    "1_0",
    "\u0661\u0660",
    "\uff11",
    " 1",
    "1 ",
    "+1",
    "-1",
    "",
    "1e3",
    "0x10",
    "nan",
    "inf",
    "\u00b2",
    "1.0",
)
PARSERS: dict[str, Callable[[str], object]] = {
    "whole": whole(),
    "thousands": thousands(1, 1 << 24),
    "numbers": numbers,
    "seconds": seconds,
    "share": share,
    "size": size,
    "whole_mib": whole_mib,
    "word": word,
    "file": file,
}


@pytest.mark.parametrize("text", NOT_NUMBERS)
def test_no_other_spelling_of_a_number_is_one(text: str) -> None:
    for parse in (whole(), thousands(0, 99), numbers):
        with pytest.raises(BadValueError, match=re.escape(shown(text))):
            parse(text)


@given(st.integers(0, LARGEST), st.integers(0, 40))
def test_digits_are_the_number_that_they_say(value: int, zeros: int) -> None:
    assert whole()("0" * zeros + str(value)) == value


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 1 << 80))
def test_a_range_is_kept_at_both_ends(one: int, two: int, value: int) -> None:
    least, most = sorted((one, two))
    for asked in (value, value % 100):
        if least <= asked <= most:
            assert whole(least, most)(str(asked)) == asked
        else:
            with pytest.raises(BadValueError, match=f"expected a whole number of {least} to {most}$"):
                whole(least, most)(str(asked))


def test_a_number_of_thousands_of_digits_is_refused_like_any_other() -> None:
    """`int` raises ValueError for it, of its own."""
    for parse in (whole(), thousands(0, 9), numbers):
        with pytest.raises(BadValueError):
            parse("9" * 5000)


@given(st.sampled_from(sorted(PARSERS)), st.one_of(TEXT, st.from_regex(r"[0-9.]{0,5} ?[kKMGib]{0,3}", fullmatch=True)))
def test_any_text_is_a_value_or_one_line_that_names_it(name: str, text: str) -> None:
    try:
        PARSERS[name](text)
    except BadValueError as error:
        line = str(error)
        assert line.startswith(shown(text))
        assert ": expected " in line or ", expected " in line
        assert line.isascii()
        assert line.isprintable()
        assert len(line) < len(shown(text)) + 120


def test_sizes() -> None:
    texts = ("8GiB", "8G", "1.5 GB", "700000000", "512mib", "0", "1.5KiB", "2TiB")
    assert [size(text) for text in texts] == [
        8 << 30,
        8 << 30,
        1_500_000_000,
        700_000_000,
        512 << 20,
        0,
        1536,
        2 << 40,
    ]
    for text in (
        "",
        "GiB",
        "-1",
        "1e3",
        "8 PiB",
        "9",
        "1.5",
        "1,5GiB",
        "1..5",
        "9999999999999GiB",
        "\u0668GiB",
        "1_0GiB",
    ):
        with pytest.raises(StrataError, match=r"^x "):
            of("x", size, text)
    assert whole_mib("1GiB") == 1024
    assert thousands(12, 12)("12") == 12
    assert thousands(1, 1 << 24)("64k") == thousands(1, 1 << 24)("64K") == 65_536
    assert share("0.9") == 0.9
    assert seconds("2.5") == 2.5
    assert numbers("0,5,11") == (0, 5, 11)
    assert file("a/b") == Path("a/b")
    with pytest.raises(StrataError, match="expected 0 to 1"):
        share("1.1")


def test_argparse_names_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=whole(1))
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--count", "1_0"])
    assert ended.value.code == 2
    assert "argument --count: '1_0': expected a whole number of 1 or more" in capsys.readouterr().err


def options(source: Path) -> Iterator[ast.Call]:
    text = source.read_text(encoding="utf-8")
    if "add_argument(" not in text:  # most files, and taking them apart is slow
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            yield node


def test_every_option_of_every_command_is_read_by_these_parsers() -> None:
    """`int`, `float` and `Path` read what nobody means; a name of a file without a parser may be empty."""
    sources = [ROOT / "noxfile.py"]
    for folder in ("strata", "validation", "ci", "fixtures"):
        sources += (ROOT / folder).rglob("*.py")
    calls = [(source.relative_to(ROOT), call) for source in sources for call in options(source)]
    assert len(calls) > 100
    for where, call in calls:
        words = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        place = f"{where}:{call.lineno} {ast.unparse(call.args[0])}"
        assert words.get("type", "word") not in ("int", "float", "Path", "FilePath", "pathlib.Path", "str"), place
        if words.get("metavar", "").strip("'") in ("FILE", "DIR", "RUN.json"):
            assert words.get("type") == "file", place
