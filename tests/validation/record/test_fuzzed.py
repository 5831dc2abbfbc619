"""Whatever the bytes are, the verifier comes to an outcome, and accepts what differs in attested words alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from strata.executors.base import StrataError
from strata.gates.sources import file_names
from strata.kernels.paths import PATHS
from tests.validation.record.forging import against, base, sign
from validation.record.canonical import LARGEST_NUMBER, decode, encode, name_of
from validation.record.verify import Outcome, examine

BASES = ("lanes", "hopper", "turing", "surrogate", "experts_hopper", "experts_lanes")
#: Places that nothing can be held against: attested or advisory words, figures, digests of images, shares of bounds
#: whose rows are not shown, and the order of checks.
FREE = re.compile(
    r"/project|/provenance/(device|multiprocessors|memory_bytes|driver|cuda_runtime|clock_khz|cupy|compiler|python"
    r"|numpy|system|made)|/images/\d/(digest|figures.*)|/identification/special/.*|/timings.*"
)
SIGNED = re.compile(FREE.pattern + r"|/cases/\d/(slack/.*|checks.*|output)|/root|/challenge.*")
TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20)
LEAVES = st.none() | st.booleans() | st.integers(-LARGEST_NUMBER, LARGEST_NUMBER) | TEXT
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)
FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def outcome(data: bytes) -> Outcome:
    found = examine(data, f"{name_of(data)}.json", against())
    assert found.accepted == (found.lines()[0] == f"ACCEPTED {name_of(data)}")
    assert all(line.isascii() and line.isprintable() for line in found.lines())
    return found


def places(value: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(pointer, holder, key) of everything inside a value."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield f"{at}/{key}", value, key
            yield from places(value[key], f"{at}/{key}")


def differences(one: Any, two: Any, at: str = "") -> set[str]:
    """Pointers to what differs; the files of an image are a set."""
    lists = isinstance(one, list) and isinstance(two, list) and len(one) == len(two)
    if lists and re.fullmatch(r"/images/\d/sources", at):
        one, two = sorted(one, key=str), sorted(two, key=str)
    if isinstance(one, dict) and isinstance(two, dict) and one.keys() == two.keys():
        return {place for key in one for place in differences(one[key], two[key], f"{at}/{key}")}
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        return {place for i, pair in enumerate(zip(one, two, strict=True)) for place in differences(*pair, f"{at}/{i}")}
    return set() if type(one) is type(two) and one == two else {at}


def own_sources(record: Any, kept: dict[str, Any]) -> Any:
    """A record without the files that no path of `kept` is made of: it is not held against them."""
    if not (isinstance(record, dict) and isinstance(record.get("sources"), dict)):
        return record
    own = file_names(PATHS[path] for path in kept["plan"]["paths"])
    return record | {"sources": {file: digest for file, digest in record["sources"].items() if file in own}}


@FEW
@given(st.binary(max_size=400))
def test_random_bytes_are_refused(data: bytes) -> None:
    assert not outcome(data).accepted


@FEW
@given(st.dictionaries(TEXT, VALUES, max_size=6))
def test_random_values_are_refused(value: dict[str, Any]) -> None:
    assert outcome(encode(value)).rules == ["schema"]


@FEW
@given(st.sampled_from(BASES), st.data())
def test_altered_bytes_are_refused(name: str, data: st.DataObject) -> None:
    whole = encode(base(name)["record"])
    at = data.draw(st.integers(0, len(whole) - 1))
    length = data.draw(st.integers(0, 3))
    changed = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + length :]
    assume(changed != whole)
    if outcome(changed).accepted:
        assert all(FREE.fullmatch(place) for place in differences(decode(whole), decode(changed)))


@settings(FEW, max_examples=150)
@given(st.sampled_from(BASES), st.booleans(), st.data())
def test_altered_values_are_refused(name: str, signed: bool, data: st.DataObject) -> None:
    """One to three places deleted, doubled or given another value, signed again or not."""
    document = base(name)
    record = document["record"]
    for _ in range(data.draw(st.integers(1, 3))):
        _, holder, key = data.draw(st.sampled_from(list(places(record))))
        action = data.draw(st.sampled_from(("other", "alike", "delete", "double")))
        if action == "delete":
            del holder[key]
        elif action == "double":
            if isinstance(holder, list):
                holder.insert(key, holder[key])
            else:
                holder[f"{key}2"] = holder[key]
        else:
            holder[key] = data.draw(alike(holder[key]) if action == "alike" else VALUES)
    if signed:
        # What is too broken to be signed is examined as it is.
        with suppress(KeyError, TypeError, ValueError, IndexError, AttributeError, StrataError):
            sign(document, ["outputs", "plan", "root", "challenge"])
    kept = base(name)["record"]
    changed = differences(own_sources(kept, kept), own_sources(record, kept))
    if outcome(encode(record)).accepted:
        assert all((SIGNED if signed else FREE).fullmatch(place) for place in changed), changed
    else:
        assert differences(kept, record)


def alike(value: Any) -> st.SearchStrategy[Any]:
    """Another value of the kind."""
    if isinstance(value, bool) or value is None:
        return st.sampled_from((None, True, False))
    if isinstance(value, int):
        return st.sampled_from((value - 1, value + 1, value * 2, 0, 1 << 31)) | st.integers(0, LARGEST_NUMBER)
    if isinstance(value, str):
        if re.fullmatch("[0-9a-f]{2,}", value):
            return st.binary(min_size=len(value) // 2, max_size=len(value) // 2).map(bytes.hex)
        return st.sampled_from([value + "x", value[:-1], value.upper(), "EXCEEDS", "sm_80", "compute_75"]) | TEXT
    if isinstance(value, list):
        return st.permutations(value) if value else st.just([0])
    return st.just(dict(list(value.items())[1:]))
