"""A record says what the run gave: every planned case or nothing, rows that its own root chose, proofs that hold."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.executors.base import StrataError, source_digests
from tests.validation.record.runs import CASES, PATH, PROVENANCE, finished, plan
from tests.validation.stub import kernel
from validation.core import challenge
from validation.core.float_bits import float_of
from validation.operations.attention.pools import Inputs
from validation.operations.kv_pack.case import Case
from validation.record import merkle
from validation.record.canonical import decode, encode, name_of
from validation.record.make import SCHEMA_FILE, check, record, write
from validation.record.merkle import root_from

IDENTIFICATION = {"vectors": {"k8_00": "33800000"}, "special": {}}


def made(folder: Path, **kernels: Any) -> dict[str, Any]:
    results, kept = finished(folder, **kernels)
    return record(plan(), results, kept, PROVENANCE, IDENTIFICATION)


def test_a_record_fits_its_schema_and_reads_back(tmp_path: Path) -> None:
    value = made(tmp_path / "run")
    file = write(value, tmp_path / "records")
    data = file.read_bytes()
    assert file.name == f"{name_of(data)}.json"
    assert decode(data) == value
    assert [item.name for item in (tmp_path / "records").iterdir()] == [file.name]
    assert value["sources"] == source_digests()
    assert value["plan"]["planned"] == len(value["cases"]) == 2
    assert [case["case"] for case in value["cases"]] == [case.text() for case in CASES]
    assert [case["rows"] for case in value["cases"]] == [48, 72]
    assert {case["verdict"] for case in value["cases"]} == {"WITHIN_BOUND"}


def test_the_rows_shown_are_those_the_root_chose_and_their_proofs_hold(tmp_path: Path) -> None:
    results, kept = finished(tmp_path)
    value = record(plan(), results, kept, PROVENANCE, None)
    cases = value["cases"]
    assert value["root"] == merkle.root([merkle.leaf(encode(case)) for case in cases])
    shown = [(answer["case"], answer["row"]) for answer in value["challenge"]]
    assert shown == [(i, row) for i, c in enumerate(cases) for row in challenge.chosen(value["root"], i, c["rows"])]
    for answer in value["challenge"]:
        case, evidence = cases[answer["case"]], kept[answer["case"]]
        assert evidence is not None
        values = np.frombuffer(bytes.fromhex(answer["bits"]), dtype="<f4")
        assert values.tobytes() == evidence.values()[answer["row"]].tobytes()
        data = challenge.row_bytes(case["path"], case["case"], answer["row"], values)
        assert root_from(data, answer["row"], case["rows"], answer["proof"]) == case["output"]


def test_one_run_gives_one_record_and_another_output_other_rows(tmp_path: Path) -> None:
    def nudged(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        out[:1, :1, :1] = np.nextafter(out[:1, :1, :1], np.float32(2))
        return out

    first, again = made(tmp_path / "1"), made(tmp_path / "2")
    assert encode(first) == encode(again)
    other = made(tmp_path / "3", prompt_attention=kernel(nudged))
    assert other["root"] != first["root"]
    rows = [[(answer["case"], answer["row"]) for answer in value["challenge"]] for value in (first, other)]
    assert rows[0] != rows[1]


def test_a_failed_case_is_in_the_record_with_its_verdict(tmp_path: Path) -> None:
    def negated(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        return -out if len(out) == CASES[1].queries else out

    value = made(tmp_path, prompt_attention=kernel(negated))
    check(value)
    assert [case["verdict"] for case in value["cases"]] == ["WITHIN_BOUND", "EXCEEDS"]
    assert ["bound", "EXCEEDS"] in value["cases"][1]["checks"]


def test_nan_slack_is_a_nan_and_not_left_out(tmp_path: Path) -> None:
    def nan(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        out[0, 0, 0] = np.nan
        return out

    value = made(tmp_path, prompt_attention=kernel(nan))
    check(value)
    assert np.isnan(float_of(value["cases"][0]["slack"]["bound"]))


def test_no_record_without_all_planned_cases(tmp_path: Path) -> None:
    results, kept = finished(tmp_path)
    for few, less, said in (
        (results[:1], kept[:1], "1 cases ended of the 2"),
        (results[::-1], kept[::-1], "2 cases ended of the 2"),
        (results, [kept[0], None], "a case gave no output: .* recipe=uniform"),
        (results, kept[::-1], "is of another case"),
        ([], [], "0 cases ended"),
    ):
        with pytest.raises(StrataError, match=said):
            record(plan(), few, less, PROVENANCE, None)


def test_no_record_of_an_image_that_is_not_the_path_s(tmp_path: Path) -> None:
    results, kept = finished(tmp_path, prompt_attention=kernel(image="f" * 64))
    with pytest.raises(StrataError, match="ran an image that is not its path's"):
        record(plan(), results, kept, PROVENANCE, None)


def test_launches_name_their_image_and_each_image_stands_once(tmp_path: Path) -> None:
    results, kept = finished(tmp_path)
    value = record(plan(), results, kept, PROVENANCE, None)
    assert len(value["images"]) == 1
    assert [case["launches"] for case in value["cases"]] == [
        [{"image": 0, "grid": [case.queries, 2, 1], "blocks": case.queries * 2}] for case in CASES
    ]
    assert value["images"][0]["sources"] == ["include/exp2.cuh", "stub.cu"]
    one = kept[1]
    assert one is not None
    digest = "e" * 64
    other = replace(
        one,
        images=(replace(one.images[0], digest=digest),),
        witnesses=(replace(one.witnesses[0], image=digest),),
    )
    value = record(plan(), results, [kept[0], other], PROVENANCE, None)
    assert [case["launches"][0]["image"] for case in value["cases"]] == [0, 1]


def test_predictions_and_times_are_taken_from_the_results(tmp_path: Path) -> None:
    results, kept = finished(tmp_path)
    figures = {"compared": 10, "differing": 0, "rule": "sm_90"}
    results[0]["checks"].append({"name": "prediction", "verdict": "EXACT", "figures": figures})
    both = {"compared": 12, "differing": 3, "rule": "sm_75", "readings": []}
    results[1]["checks"].append({"name": "prediction", "verdict": "EXCEEDS", "figures": both})
    results[1]["figures"] |= {"device_new": {"milliseconds": [0.5, 1e-9]}, "device_old": {"milliseconds": [2.0, 2.25]}}
    value = record(plan(), results, kept, PROVENANCE, None)
    check(value)
    assert [case["prediction"] for case in value["cases"]] == [
        {"readings": ["sm_90"], "compared": 10, "differing": 0},
        {"readings": [], "compared": 12, "differing": 3},
    ]
    times = {"path": PATH, "case": CASES[1].text(), "new_ns": [500_000, 1], "old_ns": [2_000_000, 2_250_000]}
    assert value["timings"] == [times]


def _without_cases(value: dict[str, Any]) -> None:
    value["cases"] = []


def _extra(value: dict[str, Any]) -> None:
    value["cases"][0]["note"] = "x"


def _upper(value: dict[str, Any]) -> None:
    value["root"] = value["root"].upper().replace("0", "A")


def _rule(value: dict[str, Any]) -> None:
    value["provenance"]["rule"] = "Turing"


@pytest.mark.parametrize("edit", [_without_cases, _extra, _upper, _rule])
def test_what_breaks_the_schema_is_not_written(edit: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    value = copy.deepcopy(made(tmp_path / "run"))
    check(value)
    edit(value)
    with pytest.raises(StrataError, match="breaks its schema at"):
        write(value, tmp_path / "records")
    assert not (tmp_path / "records").exists()


def test_a_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StrataError, match="cannot write"):
        write(made(tmp_path / "run"), tmp_path / "file")


def test_the_plan_s_digest_is_of_pairs_in_order() -> None:
    one = plan()
    said = json.dumps([list(pair) for pair in one.pairs], separators=(",", ":")).encode()
    assert one.digest == name_of(said)
    assert plan(CASES[::-1]).digest != one.digest
    assert plan((CASES[0], Case("uniform", 4, 40, 3, 16))).digest != one.digest


def _fields(schema: Any) -> Iterator[str]:
    """The names of all properties of a schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for inner in schema.values():
            yield from _fields(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _fields(inner)


def test_every_field_is_in_the_documentation() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "record.md"
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    named = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", text))))
    fields = set(_fields(json.loads(SCHEMA_FILE.read_text())))
    assert len(fields) > 40
    assert fields - named == set()
