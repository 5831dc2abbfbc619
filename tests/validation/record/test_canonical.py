"""Canonical bytes, and bytes that are refused before anything is made of them."""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.core.float_bits import bits_of, float_of
from validation.record import canonical
from validation.record.canonical import DEEPEST, LARGEST, LARGEST_NUMBER, MOST_VALUES, RecordError, decode, encode

TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST_NUMBER, LARGEST_NUMBER) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_what_is_written_is_read_again(value: dict[str, Any]) -> None:
    assert decode(encode(value)) == value


@given(st.dictionaries(TEXT, VALUES, min_size=1, max_size=5), st.sampled_from([" ", "\n", "\t"]))
def test_one_value_has_one_spelling(value: dict[str, Any], space: str) -> None:
    data = encode(value)
    for other in (data + space.encode(), space.encode() + data, json.dumps(value, indent=1).encode()):
        with pytest.raises(RecordError) as caught:
            decode(other)
        assert caught.value.rule == "canonical"


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    rule = "read"
    try:
        value = decode(data)
    except RecordError as error:
        rule = error.rule
    assert rule in ("read", "size", "json", "text", "canonical")
    assert rule != "read" or encode(value) == data


@pytest.mark.parametrize(
    ("data", "rule", "said"),
    [
        (b'{"a":1,"a":2}', "json", "the key 'a' occurs twice"),
        (b'{"a":{"b":1,"b":1}}', "json", "the key 'b' occurs twice"),
        (b'{"a":1.0}', "json", "1.0 is not a whole number"),
        (b'{"a":1e400}', "json", "1e400 is not a whole number"),
        (b'{"a":NaN}', "json", "NaN is not a whole number"),
        (b'{"a":-Infinity}', "json", "-Infinity is not a whole number"),
        (b'{"a":9007199254740992}', "json", "is beyond 2"),
        (b'{"a":' + b"9" * 5000 + b"}", "json", "is beyond 2"),
        (b'{"b":1,"a":2}', "canonical", "not the canonical form"),
        (b'{"a":-0}', "canonical", "not the canonical form"),
        (b'{"a":"\\u0041"}', "canonical", "not the canonical form"),
        (b'{"a":"\xc3\xa9"}', "text", "more than printable ASCII"),
        (b'{"a\\n":1}', "text", "more than printable ASCII"),
        (b'{"a":"\\ud800"}', "text", "more than printable ASCII"),
        (b"\xef\xbb\xbf{}", "json", "not JSON"),
        (b"\xff\xfe{}", "json", "not UTF-8"),
        (b"[]", "json", "the top is list, expected an object"),
        (b"", "json", "not JSON"),
        (b'{"a":1', "json", "not JSON"),
    ],
)
def test_each_trick_is_refused_by_its_rule(data: bytes, rule: str, said: str) -> None:
    with pytest.raises(RecordError, match=said) as caught:
        decode(data)
    assert caught.value.rule == rule


def test_nesting_is_counted_outside_of_strings() -> None:
    assert decode(encode({"a": deep(DEEPEST - 1)})) == {"a": deep(DEEPEST - 1)}
    with pytest.raises(RecordError, match=f"nested deeper than {DEEPEST}"):
        decode(encode({"a": deep(DEEPEST)}))
    with pytest.raises(RecordError, match="nested deeper"):
        decode(b'{"a":' + b"[" * 100_000)
    assert decode(encode({"a": "[{" * 100 + '\\"['})) == {"a": "[{" * 100 + '\\"['}


def test_large_files_are_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    with file.open("wb") as opened:
        opened.truncate(1 << 30)  # a claim of 1 GiB, sparse on disk
    with pytest.raises(RecordError, match="which no record has") as caught:
        canonical.read(file)
    assert caught.value.rule == "size"
    with pytest.raises(RecordError, match="expected at most"):
        decode(b" " * (LARGEST + 1))


@pytest.mark.parametrize("data", [b'{"a":[' + b"1," * MOST_VALUES, b"}" * (MOST_VALUES + 1), b'"' * 4 * MOST_VALUES])
def test_more_values_than_a_record_has_are_not_parsed(data: bytes) -> None:
    with pytest.raises(RecordError, match="more than 400,000 values") as caught:
        decode(data + b'"')
    assert caught.value.rule == "size"


@pytest.mark.parametrize("tail", [b"", b"\\"])
def test_a_text_that_never_ends_is_read_once(tail: bytes) -> None:
    """A search for its end that begins anew at each quote in it would take 2**40 steps here, that is, never end."""
    with pytest.raises(RecordError, match="not JSON: Unterminated string"):
        decode(b'{"a":"' + b'\\"' * (1 << 20) + tail)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither pipes nor plain links among its files")
def test_only_plain_files_are_read(tmp_path: Path) -> None:
    plain, link, pipe = (tmp_path / name for name in ("plain.json", "link.json", "pipe.json"))
    plain.write_bytes(b"{}")
    assert canonical.read(plain) == b"{}"
    link.symlink_to(plain)
    os.mkfifo(pipe)  # opening it to read would wait for a writer
    for file in (link, pipe, tmp_path):
        with pytest.raises(RecordError) as caught:
            canonical.read(file)
        assert caught.value.rule == "file"


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none\.json cannot be read: No such file"):
        canonical.read(tmp_path / "none.json")


@pytest.mark.parametrize("value", [{"a": 1.5}, {"a": [float("nan")]}, {"a": 1 << 53}, {"a": {1, 2}}])
def test_what_has_no_canonical_form_is_not_written(value: dict[str, Any]) -> None:
    with pytest.raises(RecordError) as caught:
        encode(value)
    assert caught.value.rule == "canonical"


@given(st.binary(min_size=8, max_size=8))
def test_floats_keep_every_bit(data: bytes) -> None:
    number = struct.unpack(">d", data)[0]
    if number == number:  # a NaN's payload need not survive a float
        assert bits_of(float_of(data.hex())) == data.hex()
