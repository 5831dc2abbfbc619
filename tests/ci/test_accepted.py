"""Accepted records under today's verifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci import accepted
from ci.accepted import Accepted, changed, check, main, standing
from strata.gates.record import of_value
from strata.gates.records import ACCEPTED
from tests.strata.gates.builder import HOPPER, value, write
from tests.validation.record.forging import base, sign
from validation.record import verify
from validation.record.canonical import encode, name_of

SM80 = "prompt_attention/q4_0/sm80"


def of(record: dict[str, Any]) -> Accepted:
    data = encode(record)
    return Accepted(of_value(record, name_of(data), local=False), record, data)


def lines(*records: dict[str, Any]) -> list[tuple[bool, str]]:
    return list(check(of(record) for record in records))


@pytest.fixture
def small_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held against the plan of the fixtures."""
    from fixtures.records.bases import planned

    monkeypatch.setattr(accepted, "Against", lambda: verify.Against(planned))


def test_those_of_this_checkout_are_records() -> None:
    """Any number of them; `.ci/run` verifies what this reads."""
    for one in accepted.accepted():
        assert (ACCEPTED / f"{one.record.name}.json").read_bytes() == one.data
        assert changed(one.record) or standing(one).in_force


@pytest.mark.usefixtures("small_plan")
def test_a_good_one_is_verified() -> None:
    record = base("hopper")["record"]
    ((good, line),) = lines(record)
    assert good
    assert line.startswith(f"verified {name_of(encode(record))}: 4 rows of 2 cases")
    assert standing(of(record)).in_force


@pytest.mark.usefixtures("small_plan")
def test_a_wrong_row_is_found() -> None:
    document = base("hopper")
    row = document["rows"][0][0]
    document["rows"][0] = [f"{int(row[:2], 16) ^ 1:02x}{row[2:]}"] * len(document["rows"][0])
    sign(document, ["outputs", "root", "challenge"])
    ((good, line),) = lines(document["record"])
    assert not good
    assert "REFUSED" in line


@pytest.mark.usefixtures("small_plan")
def test_another_kernel_changed_since() -> None:
    """It takes nothing from the record, for the gate as for CI and for the verifier."""
    record = base("hopper")["record"]
    record["sources"] |= {"kv_pack.cu": "0" * 64, "gone.cu": "1" * 64}
    del record["sources"]["router.cu"]
    one = of(record)
    assert changed(one.record) == []
    assert standing(one).in_force
    assert lines(record)[0][0]


@pytest.mark.usefixtures("small_plan")
def test_an_own_kernel_changed_since() -> None:
    """The gate has closed its paths; it is named, and CI goes on."""
    record = base("hopper")["record"]
    record["sources"] |= {"include/exp2.cuh": "0" * 64}
    ((good, line),) = lines(record)
    assert good
    assert line.endswith("of another include/exp2.cuh, and opens nothing")
    assert standing(of(record)).reason == "is of another include/exp2.cuh"


def test_one_that_todays_plan_refuses_fails() -> None:
    record = base("hopper")["record"]
    ((good, line),) = lines(record)
    assert not good
    assert "REFUSED plan" in line
    assert standing(of(record)).reason.startswith("is refused today by plan: ")


def test_without_bits_is_not_enough(small_plan: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepted, "examine", lambda *words: verify.Outcome("0", with_bits=False))
    assert not lines(base("hopper")["record"])[0][0]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], tmp_path) == 0
    assert "0 of 0 accepted records" in capsys.readouterr().out
    record = value([SM80], HOPPER)
    record["sources"] = dict.fromkeys(record["sources"], "0" * 64)
    write(record, tmp_path)
    assert main(["--most", "3"], tmp_path) == 0
    assert "earlier" in capsys.readouterr().out
    write(value([SM80], HOPPER), tmp_path)
    assert main([], tmp_path) == 1
    assert "failed" in capsys.readouterr().out


def test_a_file_that_is_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = write(value([SM80], HOPPER), tmp_path)
    (tmp_path / f"{name}.json").rename(tmp_path / f"{'0' * 64}.json")
    assert main([], tmp_path) == 1
    assert "is not called by its digest" in capsys.readouterr().err
    (tmp_path / f"{'0' * 64}.json").write_bytes(b"{}")
    assert main([], tmp_path) == 1
