"""Block selection in records: ids round-trip, are told as integers, and forged ones are refused by name."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from fixtures.records.bases import SELECT, Base, make, planned
from strata.executors.lanes import LanesExecutor
from strata.kernels import topk_kernels
from strata.kernels.paths import PATHS
from validation.core.dry_run import DryRun
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.operations.block_select.case import SelectCase
from validation.operations.block_select.inputs import build, places
from validation.operations.block_select.operation import OPERATIONS
from validation.operations.block_select.record import ANY_RULE, BOUNDED, BlockSelection
from validation.record import merkle
from validation.record.canonical import encode, name_of
from validation.record.evidence import leaves
from validation.record.make import root_of
from validation.record.rules.subject import Subject
from validation.record.verify import Against, Outcome, examine, lanes
from validation.run.runner import run_case

RECORD = BlockSelection()
BY_NAME = {base.name: base for base in SELECT}
PLAIN = "block_select/fp32/simt"


@cache
def _made(name: str) -> dict[str, Any]:
    return make(BY_NAME[name])


def made(name: str) -> dict[str, Any]:
    return deepcopy(_made(name))


def examined(value: dict[str, Any], every: bool = False) -> Outcome:
    data = encode(value)
    return examine(data, f"{name_of(data)}.json", Against(planned, lanes, every=every))


def forged(value: dict[str, Any], rows: list[np.ndarray]) -> dict[str, Any]:
    """The record with these rows of its first case, signed as a forger can; every row of it is shown that is asked."""
    case = value["cases"][0]
    nodes = leaves(case["path"], case["case"], np.stack(rows))
    case["output"] = merkle.root(nodes)
    value["root"] = root_of(value["cases"])
    kept = _made("select_hopper")["rows"]
    value["challenge"] = []
    for index, of in enumerate(value["cases"]):
        all_rows = np.stack(rows) if index == 0 else np.array([words(row) for row in kept[index]])
        tree = leaves(of["path"], of["case"], all_rows)
        for asked in RECORD.asked(RECORD.parse(of["case"]), value["root"], index):
            bits = all_rows[asked.row].astype("<i4").tobytes().hex()
            value["challenge"].append(
                {"case": index, "row": asked.row, "bits": bits, "proof": merkle.proof(tree, asked.row)}
            )
    return value


def words(digits: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(digits), "<i4")


def ids_of(name: str) -> list[np.ndarray]:
    return [words(row).copy() for row in _made(name)["rows"][0]]


@pytest.mark.parametrize("base", SELECT, ids=lambda base: base.name)
def test_a_record_round_trips(base: Base) -> None:
    outcome = examined(made(base.name)["record"], every=base.name == "select_plain")
    assert outcome.title == "ACCEPTED", outcome.lines()
    assert outcome.notes[0] == "4 rows of 2 cases are choices that the bounds of their FP64 scores allow"
    assert f"are those of {base.rule}" in outcome.notes[1]
    (opened,) = outcome.gate
    assert (opened.path, opened.opens) == (base.path, False)
    assert opened.kind == ("simulated" if base.capability is None else "attested")
    said = "ran on the CPU" if base.capability is None else "lacks the required case of select_bell"
    assert said in opened.reason


def test_its_rows_are_the_cells_that_were_chosen() -> None:
    case = planned([PATHS[PLAIN]], "quick", 1)[0][1]
    step = build(case).steps
    for row, cells in enumerate(ids_of("select_plain")):
        width = int(step[row, 3])
        assert cells.dtype == np.int32
        assert len(cells) == places(case)
        assert (np.diff(cells[:width]) > 0).all()
        assert (cells[width:] == -1).all()
        assert cells[0] >= 0
        assert cells[width - 1] < step[row, 1]


def swapped(cells: np.ndarray, width: int, n_kv: int) -> np.ndarray:
    """The last chosen block in part given for the first one that nobody chose: still ascending and of one width."""
    free = sorted(set(range(0, n_kv // 4 * 4, 4)) - {int(cell) // 4 * 4 for cell in cells[:width]})
    whole = [
        block
        for block in sorted({int(cell) // 4 for cell in cells[:width]})
        if (cells[:width] // 4 == block).sum() == 4
    ]
    out = [cell for cell in cells[:width].tolist() if cell // 4 != whole[-1]] + list(range(free[0], free[0] + 4))
    return np.array([*sorted(out), *cells[width:].tolist()], np.int32)


def test_forged_ids_are_refused_by_name() -> None:
    case = planned([PATHS["block_select/fp32/sm80"]], "quick", 1)[0][1]
    steps = build(case).steps
    rows = ids_of("select_hopper")
    far = [row.copy() for row in rows]
    for row in far:
        row[0] = case.context + 1
    outcome = examined(forged(made("select_hopper")["record"], far))
    assert outcome.rules == ["numbers"]
    assert f"holds cell {case.context + 1}, expected 0 to" in outcome.lines()[0]
    other = [swapped(row, int(step[3]), int(step[1])) for row, step in zip(rows, steps, strict=True)]
    outcome = examined(forged(made("select_hopper")["record"], other))
    assert not outcome.accepted
    assert set(outcome.rules) <= {"numbers", "prediction"}
    neighbour = [rows[(index + 1) % len(rows)] for index in range(len(rows))]
    assert examined(forged(made("select_hopper")["record"], neighbour)).rules[0] in ("numbers", "prediction")


def test_ids_that_fp64_allows_and_lanes_do_not_choose_are_told_as_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the bounds wide, the definition by FP64 would say nothing, and equality still would."""
    monkeypatch.setattr("validation.operations.block_select.lawful.refusal", lambda *args: "")
    case = planned([PATHS["block_select/fp32/sm80"]], "quick", 1)[0][1]
    steps = build(case).steps
    other = [swapped(row, int(step[3]), int(step[1])) for row, step in zip(ids_of("select_hopper"), steps, strict=True)]
    outcome = examined(forged(made("select_hopper")["record"], other))
    assert outcome.rules == ["prediction"]
    line = outcome.lines()[0]
    assert "REFUSED prediction: case 0: row" in line
    assert re.search(r"; place \d+ has \d+, sm_90 gives \d+$", line), line


def test_a_card_whose_rule_nobody_knows_has_the_bits_of_plain_paths_alone() -> None:
    value = made("select_plain")["record"]
    for capability, path, due in (
        (120, PLAIN, [ANY_RULE]),
        (120, "block_select/fp32/sm80", []),
        (90, PLAIN, ["sm_90"]),
    ):
        value["provenance"]["capability"] = capability
        value["plan"]["paths"] = [path]
        subject = Subject(value, {}, planned)
        assert RECORD.readings(subject) == due


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"compared": 3}, "compared 3 ids, expected rows of 94, at most 470"),
        ({"compared": 94}, "compared 94 ids, expected rows of 94, at most 470"),
        ({"differing": 1}, "1 of 470 ids differ, and its bits is EXACT"),
        ({"readings": ["sm_90"]}, "followed sm_90"),
        (None, "bits is EXACT, and how many ids were compared is not said"),
    ],
)
def test_claims_that_contradict_the_checks_are_refused(change: dict[str, Any] | None, why: str) -> None:
    value = made("select_plain")["record"]
    case = value["cases"][0]
    case["prediction"] = None if change is None else case["prediction"] | change
    (said,) = RECORD.claims(Subject(value, {}, planned))
    assert why in said


CASES = (
    SelectCase("select_bell", 1, 131, 4, 30),
    SelectCase("select_broken", 1, 70, 3, 30),
    SelectCase("select_huge", 1, 70, 3, 30),
    SelectCase("select_sizes", 1, 3, 2),
    SelectCase("select_far", 1, 9, 1, 4),
)
#: Too large for the model of every bit.
LARGE = SelectCase("select_bell", 1, 4100, 40, 100)


@pytest.mark.parametrize(
    ("name", "case"),
    [(PLAIN, LARGE), *((name, case) for name in (PLAIN, "block_select/fp32/sm80") for case in CASES)],
    ids=str,
)
def test_the_checks_are_the_runner_s(name: str, case: SelectCase) -> None:
    (operation,) = [one for one in OPERATIONS if one.name == "block_select"]
    found = run_case(case, PATHS[name], LanesExecutor(flavor="fast"), Settings(), None, {"block_select": operation})
    names = [check["name"] for check in found["checks"]]
    assert len(set(names)) == len(names), names
    asked = RECORD.checks(PATHS[name], case, card=False)
    assert asked.needed <= set(names), asked.needed - set(names)
    left = set(names) - asked.needed
    assert left == set().union(*(set(group) for group in asked.together if set(group) & left)), left
    for check in found["checks"]:
        if Verdict(check["verdict"]).passes:
            bounded = check["name"] in BOUNDED
            assert check["verdict"] == ("WITHIN_BOUND" if bounded else "EXACT"), check
            assert ("slack" in check["figures"]) == bounded
    claim = RECORD.claim(found["checks"])
    assert (claim is not None) == ("bits" in names)
    assert claim is None or claim.compared == asked.whole


@pytest.mark.parametrize("name", [PLAIN, "block_select/fp32/sm75", "block_select/fp32/sm80"])
@pytest.mark.parametrize("context", [0, 3, 131, 131072, 200192])
def test_what_is_launched_is_what_the_host_code_would(name: str, context: int) -> None:
    case = SelectCase("select_bell", 1, context, 9)
    launches = RECORD.launches(PATHS[name], case, None)
    assert [one.kernel for one in launches if one.kernel.source == "block_topk"] == [
        topk_kernels.kernel("short" if context <= 131072 else "long")
    ]
    assert {one.kernel for one in launches} == set(RECORD.kernels(PATHS[name], case))
    assert launches[-1].grid == (9, 1, 1)
    unused = RECORD.launches(PATHS[name], replace(case, capacity=1 << 20), None)
    assert unused == launches


def test_a_dry_run_has_shapes_and_no_memory() -> None:
    stage = DryRun(68)
    assert stage.empty((1 << 40, 2), np.float32).shape == (1 << 40, 2)
    assert stage.array(np.zeros((2, 3))).shape == (2, 3)
    assert stage.describe() == {"multiprocessors": 68}
