"""Records are found in both places; a file that is none is left out with a line, whatever it holds."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.gates import records
from strata.gates.evidence import plan_digest
from strata.gates.record import LARGEST, LARGEST_NUMBER, RecordProblem, of_value, parse
from tests.strata.gates import builder
from tests.strata.owners import give_away
from validation.record import canonical

SM75 = "prompt_attention/q4_0/sm75"
VALUE = builder.value([SM75])
DATA = canonical.encode(VALUE)


def put(folder: Path, data: bytes, name: str | None = None) -> str:
    """A file of these bytes, under their own name unless another is given."""
    name = name or f"{hashlib.sha256(data).hexdigest()}.json"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return name


def load(tmp_path: Path) -> records.Store:
    return records.load({records.VARIABLE: str(tmp_path / "state")}, tmp_path / "accepted")


def test_limits_are_those_of_the_verifier() -> None:
    assert (LARGEST, LARGEST_NUMBER) == (canonical.LARGEST, canonical.LARGEST_NUMBER)


def test_both_places_are_read(tmp_path: Path) -> None:
    assert load(tmp_path) == records.Store()
    other = builder.value([SM75], builder.HOPPER)
    names = [builder.write(VALUE, tmp_path / "accepted"), builder.write(other, tmp_path / "state" / "records")]
    (tmp_path / "accepted" / "README.md").write_text("Not a record.")
    store = load(tmp_path)
    assert store.problems == ()
    assert [(record.name, record.local) for record in store.records] == [(names[0], False), (names[1], True)]
    assert store.records[0] == builder.parsed(VALUE)
    assert len(store.records[0].cases) == store.records[0].planned == len(builder.SIZES)


def test_what_ships_is_sound(tmp_path: Path) -> None:
    """The accepted records of this package, none so far or many, all load."""
    assert records.ACCEPTED.is_dir()
    assert records.load({records.VARIABLE: str(tmp_path)}).problems == ()


def change(**fields: Any) -> bytes:
    return canonical.encode({**VALUE, **fields})


DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not the JSON of a record"),
    "truncated": (DATA[:-1], "not the JSON of a record"),
    "not json": (b"\x80\x02}q\x00.", "not the JSON of a record"),
    "not utf-8": (DATA.replace(b"NVIDIA", b"NVIDI\xff"), "not the JSON of a record"),
    "blank": (DATA + b"\n", "not in canonical form"),
    "duplicate key": (b'{"schema":1,' + DATA[1:], "not in canonical form"),
    "escaped": (DATA.replace(b"NVIDIA", b"\\u004eVIDIA"), "not in canonical form"),
    "look-alike": (DATA.replace(b"NVIDIA", "NVIDI\u0391".encode()), "not in canonical form"),
    "control": (DATA.replace(b"NVIDIA", b"NVIDI\\u0007"), "more than printable ASCII"),
    "delete": (DATA.replace(b"NVIDIA", b"NVIDI\x7f"), "not in canonical form"),
    "nan": (DATA.replace(b'"seed":1', b'"seed":NaN'), "NaN is not a whole number"),
    "infinity": (DATA.replace(b'"seed":1', b'"seed":-Infinity'), "-Infinity is not a whole number"),
    "float": (DATA.replace(b'"seed":1', b'"seed":1.5'), "1.5 is not a whole number"),
    "exponent": (DATA.replace(b'"seed":1', b'"seed":1e9'), "1e9 is not a whole number"),
    "huge number": (DATA.replace(b'"seed":1', b'"seed":' + b"9" * 6000), "the number 9{24} is beyond"),
    "2**53": (DATA.replace(b'"seed":1', b'"seed":9007199254740992'), "the number 9007199254740992 is beyond"),
    "deep": (b"[" * 200_000, "not the JSON of a record"),
    "deep and closed": (b"[" * 200_000 + b"]" * 200_000, "not the JSON of a record"),
    "list": (b"[]", "not shaped as a record"),
    "null": (b"null", "not shaped as a record"),
    "object": (b"{}", "a record without 'schema'"),
    "another schema": (change(schema="strata-parity-record/2"), "expected strata-parity-record/1"),
    "cases object": (change(cases={}), "dict where a list was expected"),
    "sources list": (change(sources=[]), "list where an object was expected"),
    "short digest": (change(sources={"kv_pack.cu": "00"}), "'00' where a SHA-256 was expected"),
    "planned text": (change(plan={**VALUE["plan"], "planned": "3"}), "'3' where a whole number"),
    "planned true": (change(plan={**VALUE["plan"], "planned": True}), "True where a whole number"),
    "planned below": (change(plan={**VALUE["plan"], "planned": -1}), "-1 where a whole number"),
    "no plan": (change(plan=None), "not shaped as a record"),
    "no images": (change(images=[]), r"a case launched image \d of 0"),
    "define": (change(images=[{**VALUE["images"][0], "defines": [["A"]]}]), "not shaped as a record"),
    "line end": (change(provenance={**VALUE["provenance"], "device": "a\nb"}), "more than printable ASCII"),
}


@pytest.mark.parametrize("damage", DAMAGED, ids=lambda damage: damage.replace(" ", "_"))
def test_a_damaged_file_is_left_out(damage: str, tmp_path: Path) -> None:
    data, why = DAMAGED[damage]
    assert data != DATA
    good = builder.write(VALUE, tmp_path / "state" / "records")
    name = put(tmp_path / "state" / "records", data)
    store = load(tmp_path)
    assert [record.name for record in store.records] == [good]
    (line,) = store.problems
    assert line.startswith(f"record {name} is left out: ")
    assert line.isascii()
    assert line.isprintable()
    with pytest.raises(RecordProblem, match=why):
        parse(data, name.removesuffix(".json"), True)


@pytest.mark.parametrize(
    "name", [f"{'0' * 64}.json", "record.json", ".json", f"{hashlib.sha256(DATA).hexdigest().upper()}.json"]
)
def test_a_misnamed_file_is_left_out(name: str, tmp_path: Path) -> None:
    put(tmp_path / "accepted", DATA, name)
    store = load(tmp_path)
    assert store.records == ()
    # A file that has no name but a suffix is hidden, as editors and systems leave them.
    assert len(store.problems) == (0 if name == ".json" else 1)


def test_a_file_too_large_is_not_read_through(tmp_path: Path) -> None:
    """A sparse file claims a terabyte; no more than the limit is taken in."""
    folder = tmp_path / "accepted"
    folder.mkdir()
    with (folder / f"{'0' * 64}.json").open("wb") as file:
        file.truncate(1 << 40)
    assert load(tmp_path).problems == (
        f"record {'0' * 64}.json is left out: more than {LARGEST:,} bytes, which no record has",
    )


@pytest.mark.skipif(sys.platform == "win32", reason="makes pipes and links")
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/nowhere", path)])
def test_what_is_no_plain_file_is_left_out(make: Callable[[Path], None], tmp_path: Path) -> None:
    """A pipe without a writer would be waited for without end."""
    (tmp_path / "accepted").mkdir()
    make(tmp_path / "accepted" / f"{'0' * 64}.json")
    assert load(tmp_path).problems == (f"record {'0' * 64}.json is left out: not a plain file",)


@pytest.mark.parametrize("whose", ["file", "folder", "above", "written"])
def test_what_another_user_could_have_put_there_is_not_read(
    whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "state" / "records"
    name = put(folder, DATA)
    assert len(load(tmp_path).records) == 1
    places = {"file": folder / name, "folder": folder, "above": tmp_path}
    if whose == "written":
        folder.chmod(0o777)
    else:
        give_away(monkeypatch, places[whose])
    store = load(tmp_path)
    assert store.records == ()
    (problem,) = store.problems
    assert f"{places.get(whose, folder)} {'can be written by' if whose == 'written' else 'belongs to user'} " in problem


def test_a_directory_too_full_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST", 2)
    for seed in range(4):
        put(tmp_path / "accepted", change(plan={**VALUE["plan"], "seed": seed}))
    store = load(tmp_path)
    assert len(store.records) == 2
    assert store.problems == (
        f"{tmp_path / 'accepted'}: only the first 2 records are read, at most 2 files and {records.TOTAL:,} bytes",
    )
    monkeypatch.setattr(records, "MOST", 9)
    monkeypatch.setattr(records, "TOTAL", len(DATA))
    assert len(load(tmp_path).records) == 1


def test_a_directory_that_is_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "accepted").write_text("")
    (line,) = load(tmp_path).problems
    assert line.endswith("accepted cannot be listed: Not a directory")


def test_where_this_machine_s_records_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    usual = tmp_path / ".local" / "state" / "strata" / "records"
    assert records.directory({}) == usual
    assert records.directory({"XDG_STATE_HOME": "relative"}) == usual
    assert records.directory({"XDG_STATE_HOME": str(tmp_path / "x")}) == tmp_path / "x" / "strata" / "records"
    assert records.directory({"STRATA_STATE_DIR": str(tmp_path / "s")}) == tmp_path / "s" / "records"
    assert not usual.exists()


@given(st.lists(st.tuples(*[st.text(st.characters(min_codepoint=32, max_codepoint=126))] * 2), max_size=5))
def test_a_plan_s_digest_is_that_of_its_canonical_form(pairs: list[tuple[str, str]]) -> None:
    assert plan_digest(pairs) == canonical.name_of(canonical.encode([list(pair) for pair in pairs]))


ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.floats(allow_nan=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=8,
)
KEYS = sorted(VALUE)


@settings(max_examples=200)
@given(
    st.sampled_from(KEYS),
    ANY,
    st.one_of(st.none(), st.sampled_from(["capability", "images", "planned", "device", "case"])),
)
def test_any_value_is_a_record_or_refused(key: str, other: Any, inner: str | None) -> None:
    """One field, or one below it, is anything at all."""
    value = json.loads(DATA)
    if inner is not None and isinstance(value[key], dict):
        value[key][inner] = other
    elif inner is not None and isinstance(value[key], list) and value[key] and isinstance(value[key][0], dict):
        value[key][0][inner] = other
    else:
        value[key] = other
    try:
        of_value(value, "0" * 64, True)
        message = ""
    except RecordProblem as problem:
        message = str(problem)
    assert len(message) < 300
    assert message.isascii()


@settings(max_examples=200)
@given(st.binary(max_size=200), st.integers(0, len(DATA)), st.integers(0, 40))
def test_any_bytes_are_a_record_or_refused(data: bytes, at: int, cut: int) -> None:
    spliced = DATA[:at] + data + DATA[at + cut :]
    try:
        parsed = parse(spliced, hashlib.sha256(spliced).hexdigest(), False)
    except RecordProblem:
        assert spliced != DATA
    else:
        assert canonical.decode(spliced)["plan"]["planned"] == parsed.planned
