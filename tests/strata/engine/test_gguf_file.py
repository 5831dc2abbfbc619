"""A file that is whole reads as the `gguf` package's own reader has it; any other ends in one line."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata import imports
from strata.engine import gguf_scan
from strata.engine.gguf_file import GgufFile, ModelError, open_gguf
from strata.engine.gguf_scan import Head, scan

UINT32, BOOL, STRING, ARRAY = 4, 7, 8, 9
F32, Q8_0 = 0, 8

Entry = tuple[bytes, tuple[int, ...], int, int]


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def number(key: bytes, value: int) -> bytes:
    return text(key) + struct.pack("<II", UINT32, value)


def tensor(name: bytes, lengths: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(lengths)}QIQ", len(lengths), *lengths, kind, offset)


def file(
    keys: tuple[bytes, ...] = (),
    tensors: tuple[bytes, ...] = (),
    data: int = 0,
    *,
    head: bytes = b"GGUF\x03\0\0\0",
    counts: tuple[int, int] | None = None,
) -> bytes:
    """The bytes of a file, of which any part can be wrong."""
    found = head + struct.pack("<QQ", *(counts or (len(tensors), len(keys)))) + b"".join((*keys, *tensors))
    return found + bytes(-len(found) % 32) + bytes(data)


GOOD = (tensor(b"a", (32, 2), Q8_0, 0), tensor(b"b", (8,), F32, 96))


def refusal(content: bytes) -> str:
    with pytest.raises(ModelError) as caught:
        scan(content)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    return str(caught.value)


@cache
def small() -> bytes:
    """A whole file of every type of value, with two tensors."""
    keys = [
        text(b"k%d" % kind) + struct.pack("<I", kind) + struct.pack(f"<{letter}", 1)
        for kind, letter in enumerate("BbHhIif?")
    ]
    keys += [
        text(b"s") + struct.pack("<I", STRING) + text("größe".encode()),
        text(b"words") + struct.pack("<IIQ", ARRAY, STRING, 3) + text(b"one") + text(b"") + text(b"three"),
        text(b"numbers") + struct.pack("<IIQ3f", ARRAY, 6, 3, 1, 2, 3),
        text(b"flags") + struct.pack("<IIQ", ARRAY, BOOL, 3) + b"\1\0\1",
        text(b"empty") + struct.pack("<IIQ", ARRAY, STRING, 0),
        number(b"general.alignment", 32),
    ]
    return file(tuple(keys), GOOD, 128)


def same(one: Head, other: Head) -> bool:
    return repr(one) == repr(other)


def test_a_whole_file_is_what_the_package_s_reader_has(tiny_path: Path) -> None:
    ours, theirs = open_gguf(tiny_path), gguf.GGUFReader(tiny_path)
    assert list(ours.tensors) == [entry.name for entry in theirs.tensors]
    for entry in theirs.tensors:
        found = ours.tensor(entry.name)
        assert found.format == entry.tensor_type.name.lower()
        assert found.shape == tuple(int(length) for length in entry.shape[::-1])
        assert found.blocks.tobytes() == entry.data.tobytes()
        assert not found.blocks.flags.writeable
        if found.format == "f32":
            assert np.array_equal(found.floats(), entry.data)
    for key, value in theirs.fields.items():
        if not key.startswith("GGUF."):
            read = ours.metadata(key)
            assert (read.tolist() if isinstance(read, np.ndarray) else read) == value.contents()
    assert ours.nbytes == tiny_path.stat().st_size


def test_every_type_of_value_reads() -> None:
    found = scan(small()).metadata
    assert [found[f"k{kind}"] for kind in range(8)] == [1, 1, 1, 1, 1, 1, 1.0, True]
    assert found["s"] == "größe"
    assert found["words"] == ["one", "", "three"]
    assert found["numbers"].tolist() == [1, 2, 3]
    assert found["flags"].tolist() == [True, False, True]
    assert found["empty"] == []


@given(st.integers(0, len(small()) - 1))
def test_a_file_cut_at_any_byte_is_refused_or_the_same(length: int) -> None:
    # Nothing but the padding behind the last tensor may be missing.
    whole = scan(small())
    if length < whole.entries[-1].offset + whole.entries[-1].nbytes:
        refusal(small()[:length])
    else:
        assert same(scan(small()[:length]), whole)


@example([(287, 62)])  # a length that makes a name of what follows it, most of which does not print
@given(st.lists(st.tuples(st.integers(0, len(small()) - 1), st.integers(1, 255)), min_size=1, max_size=4))
def test_flipped_bytes_are_refused_or_leave_a_file_that_holds_what_it_says(flips: list[tuple[int, int]]) -> None:
    content = bytearray(small())
    for place, mask in flips:
        content[place] ^= mask
    try:
        found = scan(bytes(content))
    except ModelError:
        refusal(bytes(content))
        return
    inorder = sorted((entry.offset, entry.offset + entry.nbytes) for entry in found.entries)
    assert all(0 < first < last <= len(content) for first, last in inorder)
    assert all(one[1] <= other[0] for one, other in pairwise(inorder))
    assert len({entry.name for entry in found.entries}) == len(found.entries)


@given(st.binary(max_size=200))
def test_bytes_of_no_meaning_are_refused(noise: bytes) -> None:
    refusal(noise)
    refusal(b"GGUF\x03\0\0\0" + struct.pack("<QQ", 1, 1) + noise[:20])


HUGE = (1 << 64) - 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "an empty file"),
        (b"PK\3\4" + bytes(60), "no GGUF file: it begins with b'PK"),
        (file(head=b"GGUF\0\0\0\3"), "high byte first"),
        (file(head=b"GGUF\x01\0\0\0"), "GGUF version 1; expected 2 or 3"),
        (file(head=b"GGUF\x04\0\0\0"), "GGUF version 4; expected 2 or 3"),
        (file(counts=(HUGE, 0)), f"{HUGE} tensors; expected at most"),
        (file(counts=(0, HUGE)), f"{HUGE} keys; expected at most"),
        (
            file((number(b"x", 1),), counts=(0, 5))[:41],
            "ends at byte 41, within the length of a key; expected",
        ),
        (
            file((struct.pack("<Q", HUGE) + bytes(70_000),)),
            f"a key has {HUGE} bytes; expected at most 65535",
        ),
        (file((text(b"x") + struct.pack("<IQ", STRING, 1 << 40),)), "within key x; expected a whole"),
        (file((text(b"x") + struct.pack("<IIQ", ARRAY, STRING, 1 << 60),)), "within key x"),
        (file((text(b"x") + struct.pack("<IIQ", ARRAY, 10, 1 << 61),)), "within key x"),
        (file((text(b"x") + struct.pack("<IIQQ", ARRAY, ARRAY, 1, 1),)), "array of arrays"),
        (file((text(b"x") + struct.pack("<II", 13, 1),)), "unknown type 13"),
        (file((text(b"x") + struct.pack("<IB", BOOL, 2),)), "truth value 2"),
        (file((text(b"x") + struct.pack("<IIQB", ARRAY, BOOL, 1, 7),)), "truth value 7"),
        (file((number(b"x", 1), number(b"x", 1))), "key x occurs twice"),
        (file((text(b"\xff") + struct.pack("<II", UINT32, 1),)), "a key is no UTF-8"),
        (file((text(b"x") + struct.pack("<I", STRING) + text(b"\xff"),)), "key x is no UTF-8"),
        (file((text(b"x") + struct.pack("<IIQ", ARRAY, STRING, 1) + text(b"\xff"),)), "string that is no UTF-8"),
        (file((text(b"") + struct.pack("<II", UINT32, 1),)), "a key is empty"),
        (file((number(b"general.alignment", 24),)), "alignment is 24; expected a power of two"),
        (file((number(b"general.alignment", 0),)), "alignment is 0"),
        (file((text(b"general.alignment") + struct.pack("<I", STRING) + text(b"32"),)), "alignment is 32; expected"),
        (file((), (tensor(b"a" * 65, (8,), F32, 0),), 64), "tensor's name has 65 bytes; expected at most 64"),
        (file((), (tensor(b"\xff", (8,), F32, 0),), 64), "tensor's name is no UTF-8"),
        (file((), (tensor(b"a", (8,), F32, 0),) * 2, 64), "tensor a occurs twice"),
        (file((), (tensor(b"a", (), F32, 0),), 64), "tensor a has 0 dimensions; expected 1 to 4"),
        (file((), (tensor(b"a", (1,) * 5, F32, 0),), 64), "tensor a has 5 dimensions"),
        (file((), (tensor(b"a", (8, 0), F32, 0),), 64), "lengths 8, 0; expected some above 0"),
        (file((), (tensor(b"a", (1 << 32, 1 << 32), F32, 0),), 64), "tensor a has the lengths 4294967296, 4294967296"),
        (file((), (tensor(b"a", (HUGE,), F32, 0),), 64), "that fit a file"),
        (file((), (tensor(b"a", (32,), 99, 0),), 64), "unknown format 99"),
        (file((), (tensor(b"a", (33,), Q8_0, 0),), 64), "rows of 33 in q8_0; expected a multiple of 32"),
        (file((), (tensor(b"a", (8,), F32, 8),), 64), "lies at 8; expected a multiple of 32"),
        (file((), (tensor(b"a", (8,), F32, HUGE - 31),), 64), "and the file at"),
        (file((), (tensor(b"a", (17,), F32, 0),), 64), "tensor a ends at byte"),
        (file((), (tensor(b"a", (16,), F32, 0), tensor(b"b", (8,), F32, 32)), 64), "tensors a and b overlap"),
        (file((), (tensor(b"a", (8,), F32, 32), tensor(b"b", (8,), F32, 32)), 64), "tensors a and b overlap"),
        (file((), (tensor(b"a", (9,), F32, 0), tensor(b"b", (8,), F32, 32)), 64), "tensors a and b overlap"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_file_cannot_say(content: bytes, why: str) -> None:
    assert why in refusal(content)


def test_a_file_of_strings_without_end_is_refused_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_scan, "MOST_STRINGS", 100)
    words = text(b"x") + struct.pack("<IIQ", ARRAY, STRING, 60) + text(b"") * 60
    scan(file((words,)))
    assert "string 120 of the file" in refusal(file((words, words.replace(b"x", b"y"))))


def test_names_that_a_terminal_would_obey_are_escaped() -> None:
    assert r"key \u001b[2J" in refusal(file((number(b"\x1b[2J", 1), number(b"\x1b[2J", 1))))


def test_a_format_newer_than_the_package_is_known_here() -> None:
    found = scan(file((), (tensor(b"a", (64, 2), 42, 0),), 64)).entries[0]
    assert (found.format, found.shape, found.row_bytes, found.rows) == ("q2_0", (2, 64), 18, 2)


def test_what_cannot_be_opened_says_so(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    # Else whoever opens the pipe waits for a writer for ever.
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    request.addfinalizer(lambda: os.close(writer))
    for name, why in (
        ("absent", "No such file"),
        ("", "Is a directory"),
        ("pipe", "no plain file"),
        ("empty", "an empty file"),
        ("e" * 300, "name too long"),
    ):
        with pytest.raises(ModelError, match=why) as caught:
            open_gguf(tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path / name}: ")


def test_a_file_without_a_right_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").write_bytes(small())

    def refused(*args: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(ModelError, match="closed: Permission denied; expected"):
        open_gguf(tmp_path / "closed")


def test_what_is_asked_for_and_absent(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(small())
    found: GgufFile = open_gguf(tmp_path / "m")
    assert found.metadata("absent", 3) == 3
    asked: list[Callable[[], object]] = [
        lambda: found.metadata("absent"),
        lambda: found.tensor("absent"),
        found.tensor("a").floats,
    ]
    for ask, why in zip(asked, ("no key absent", "no tensor absent", "a is q8_0; expected f32 or f16"), strict=True):
        with pytest.raises(ModelError, match=why):
            ask()


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise imports.NotImportedError("no module", absent=True)

    monkeypatch.setattr(gguf_scan, "optional", absent)
    assert "package gguf is not installed" in refusal(small())
