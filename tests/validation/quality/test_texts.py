"""Prompts out of a text: where they begin, that none is there twice, and what a file must be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from strata.executors.base import StrataError
from validation.quality.texts import digest, prompts, text_of, tokens


class Letters:
    """A token for each letter, behind a first one."""

    def encode(self, text: str) -> Iterator[int]:
        yield 2
        yield from map(ord, text)


TEXT = "".join(f"line {number} has its own words\n" for number in range(200))


def words(one: np.ndarray) -> str:
    return "".join(map(chr, one[1:]))


def test_prompts_begin_with_lines_from_all_over_the_text() -> None:
    found = prompts(Letters(), TEXT, 14, 60)
    assert all(len(one) == 60 and one[0] == 2 for one in found)
    starts = [TEXT.index(words(one)) for one in found]
    assert starts == sorted(set(starts))
    assert all(TEXT[start - 1] == "\n" for start in starts[1:])
    assert all(after - before >= 60 for before, after in pairwise(starts))
    assert starts[-1] > len(TEXT) * 12 // 14


def test_the_first_tokens() -> None:
    assert tokens(Letters(), TEXT, 4).tolist() == [2, *map(ord, TEXT[:3])]
    with pytest.raises(StrataError, match="tokens: 10, expected at most 3, the length of the text"):
        tokens(Letters(), "ab", 10)


def test_parts_that_are_too_short() -> None:
    with pytest.raises(StrataError, match=r"prompts: 20 of 800 tokens, expected at most [0-9]+ in part 0"):
        prompts(Letters(), TEXT, 20, 800)


def test_texts(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("größer", encoding="utf-8")
    assert text_of(file) == "größer"
    assert len(text_of(None)) > 100_000
    file.write_bytes(b"\xff")
    with pytest.raises(StrataError, match=r"--text .* cannot be read: it is not UTF-8"):
        text_of(file)
    with pytest.raises(StrataError, match=r"--text .* cannot be read: No such file"):
        text_of(tmp_path / "none")


def test_digests_tell_where_one_list_ends() -> None:
    one, two, both = np.array([1]), np.array([2]), np.array([1, 2])
    assert len({digest([one, two]), digest([both]), digest([two, one]), digest([one])}) == 4
