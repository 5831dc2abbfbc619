"""Files of a report: whatever they hold, they are read or refused in words."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from tests.strata.hostile import SENT, obeyed, texts
from tests.validation.record.forging import base
from tests.validation.report.evidence import case, run
from validation.record.canonical import encode, name_of
from validation.report.from_record import of_outcome, of_record
from validation.report.from_run import of_run
from validation.report.html import page
from validation.report.read import Evidence, paired, read
from validation.report.sentence import Tone, of_evidence
from validation.run.run_file import QUALITY_SCHEMA

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a value of objects and lists."""
    found = [at] if at else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*at, key))
    return found


RUN = json.dumps(run([case()]))
PLACES = places(json.loads(RUN))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(PLACES), JSON)
def test_a_run_with_anything_anywhere_is_read_or_refused(place: tuple[Any, ...], value: Any) -> None:
    told = json.loads(RUN)
    inner = told
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    try:
        source = of_run(told, "run.json")
    except StrataError:
        return
    assert of_evidence(Evidence([source])).text


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PLACES), st.text(max_size=12) | st.sampled_from(SENT))
def test_no_text_of_a_run_is_sent_on(place: tuple[Any, ...], text: str) -> None:
    """Wherever it stands, and as a key too; whatever reads the source may print what it finds."""
    told = json.loads(RUN)
    inner = told
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = [text, {text: text}] if isinstance(inner[place[-1]], list) else text
    if isinstance(inner, dict):
        inner[text] = text
    said = []
    try:
        source = of_run(told, "run.json")
        sentence = of_evidence(Evidence([source]))
        said += [*texts(asdict(source)), sentence.text, *sentence.more]
    except StrataError as error:
        said.append(str(error))
    assert obeyed("".join(said)) == []


def test_a_run_that_is_nested_too_deep_is_refused(tmp_path: FilePath) -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(StrataError, match="nested too deep"):
        of_run(run([case()], profile=deep), "run.json")


def test_no_text_of_an_outcome_is_sent_on() -> None:
    hostile = "".join(SENT)
    told = {"name": hostile, "accepted": False, "outcome": hostile, "notes": [hostile]}
    refusals = [{"rule": hostile, "reason": hostile}]
    verified = of_outcome(json.dumps({**told, "refusals": refusals}).encode(), "verified.json")
    assert obeyed("".join([verified.name, verified.outcome, *verified.reasons, *verified.notes])) == []


@pytest.mark.parametrize("value", [True, -1, 1.5, "3", None, [], 10**400])
def test_a_count_that_is_none_is_named(value: Any) -> None:
    with pytest.raises(StrataError, match="planned is"):
        of_run(run([case()], planned=value), "run.json")


def test_numbers_that_are_none_are_not_shown_as_small() -> None:
    for slack in ("NaN", "Infinity", 10**400):
        assert of_run(run([case(slack=slack)]), "run.json").cases[0].worst == float("inf")


def test_a_record_says_what_it_says(tmp_path: FilePath) -> None:
    value = base("hopper")["record"]
    data = encode(value)
    source = of_record(data, f"{name_of(data)}.json")
    assert source.planned == value["plan"]["planned"]
    assert [case.path for case in source.cases] == [case["path"] for case in value["cases"]]
    assert source.said == []
    assert source.record is not None
    assert of_record(data, "other.json").said
    with pytest.raises(StrataError):
        of_record(data.replace(b'"cases"', b'"Cases"'), "x.json")


def test_a_record_of_a_run_counts_once(tmp_path: FilePath) -> None:
    told = of_run(run([case()]), "run.json")
    own = of_record(encode(base("hopper")["record"]), "x.json")
    same = type(own)(**{**vars(told), "kind": "record", "name": "ab" * 32})
    other = type(own)(**{**vars(same), "capability": 80})
    assert [source.twin for source in paired([told, same, other, own])] == ["", "run.json", "", ""]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"accepted": 1}', b"[" * 100_000])
def test_an_outcome_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(StrataError, match="verify --json"):
        of_outcome(data, "verified.json")


def test_an_outcome_that_contradicts_itself_is_no_acceptance() -> None:
    told = {"name": "x", "accepted": True, "outcome": "ACCEPTED", "refusals": [{"rule": "rows", "reason": "wrong"}]}
    assert not of_outcome(json.dumps(told).encode(), "verified.json").accepted


def test_a_run_of_quality_has_a_page_of_its_own(tmp_path: FilePath) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"schema": QUALITY_SCHEMA, "status": "complete"}))
    with pytest.raises(StrataError, match=r"of python -m validation quality, which writes its page, quality\.html"):
        read([file])


def test_a_file_that_cannot_be_read_is_said_and_fails_the_page(tmp_path: FilePath) -> None:
    good, bad = tmp_path / "run.json", tmp_path / "bad.json"
    good.write_text(json.dumps(run([case()])))
    bad.write_text("{")
    evidence = read([good, bad])
    assert of_evidence(evidence).tone is Tone.FAILED
    assert "bad.json cannot be shown" in page(evidence)
    with pytest.raises(StrataError, match=r"bad\.json cannot be shown"):
        read([bad])
    with pytest.raises(StrataError, match="no plain file"):
        read([tmp_path])
