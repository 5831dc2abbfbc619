"""Dense products in records: rows round-trip, what is asked is what the runner asks, and forged rows are refused."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest

from fixtures.records.bases import LINEAR, Base, make, planned
from strata.kernels import linear
from strata.kernels.paths import PATHS
from tests.validation.stub import StubExecutor
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.operations.linear import far, plan
from validation.operations.linear.case import LinearCase
from validation.operations.linear.inputs import build
from validation.operations.linear.operation import Linear
from validation.operations.linear.recipes import RECIPES
from validation.operations.linear.record import BOUNDED, CONTRACT, Products
from validation.operations.linear.stub_kernels import multiplier
from validation.record import merkle
from validation.record.canonical import encode, name_of
from validation.record.evidence import leaves
from validation.record.make import root_of
from validation.record.rules.subject import Subject
from validation.record.verify import Against, Outcome, examine, lanes

RECORD = Products()
BY_NAME = {base.name: base for base in LINEAR}
PATH = PATHS["linear/q4_k/sm80"]


@cache
def _made(name: str) -> dict[str, Any]:
    return make(BY_NAME[name])


def made(name: str) -> dict[str, Any]:
    return deepcopy(_made(name))


def examined(value: dict[str, Any], every: bool = False) -> Outcome:
    data = encode(value)
    return examine(data, f"{name_of(data)}.json", Against(planned, lanes, every=every))


def products(name: str, index: int) -> np.ndarray:
    """float32 [rows, outputs] of a case."""
    return np.stack([np.frombuffer(bytes.fromhex(row), "<f4") for row in _made(name)["rows"][index]])


def forged(value: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """The record with these rows of its first case, signed as a forger can."""
    outs = [rows, products("linear_hopper", 1)]
    first = value["cases"][0]
    first["output"] = merkle.root(leaves(first["path"], first["case"], rows))
    value["root"] = root_of(value["cases"])
    value["challenge"] = []
    for index, (of, out) in enumerate(zip(value["cases"], outs, strict=True)):
        tree = leaves(of["path"], of["case"], out)
        for asked in RECORD.asked(RECORD.parse(of["case"]), value["root"], index):
            shown = {"case": index, "row": asked.row, "proof": merkle.proof(tree, asked.row)}
            value["challenge"].append(shown | ({"bits": out[asked.row].tobytes().hex()} if asked.bits else {}))
    return value


@pytest.mark.parametrize("base", LINEAR, ids=lambda base: base.name)
def test_a_record_round_trips(base: Base) -> None:
    outcome = examined(made(base.name)["record"], every=base.capability is not None)
    assert outcome.title == "ACCEPTED", outcome.lines()
    (opened,) = outcome.gate
    assert (opened.path, opened.opens) == (base.path, False)
    assert opened.kind == ("simulated" if base.capability is None else "attested")
    said = "ran on the CPU" if base.capability is None else "lacks the required case of linear_bell"
    assert said in opened.reason


def test_forged_rows_are_refused_by_name() -> None:
    """Half of each product is beyond its bound; one bit of each is not, and is no row of the contract."""
    rows = products("linear_hopper", 0)
    outcome = examined(forged(made("linear_hopper")["record"], rows * np.float32(0.5)))
    assert outcome.rules[0] == "numbers"
    near = rows.copy()
    near.view(np.uint32)[...] ^= 1
    outcome = examined(forged(made("linear_hopper")["record"], near))
    assert outcome.rules == ["prediction"]
    assert CONTRACT in outcome.lines()[0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"compared": 7}, "compared 7 products, expected all 35"),
        ({"differing": 1}, "1 of 35 products differ, and its bits are EXACT"),
        ({"readings": ["sm_90"]}, "followed sm_90; these bits follow no rule of a card"),
        (None, "bits are EXACT, and how many were compared is not said"),
    ],
)
def test_claims_that_contradict_the_checks_are_refused(change: dict[str, Any] | None, why: str) -> None:
    value = made("linear_hopper")["record"]
    case = value["cases"][0]
    case["prediction"] = None if change is None else case["prediction"] | change
    (said,) = RECORD.claims(Subject(value, {}, planned))
    assert why in said


def cases() -> list[LinearCase]:
    """One of every recipe, and one of a single row."""
    return [*(LinearCase(name, 1, 5, 6, 256) for name in RECIPES), LinearCase("linear_bell", 1, 1, 6, 256)]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.text())
def test_the_checks_are_the_runner_s(case: LinearCase) -> None:
    operation = Linear("linear", {"linear": multiplier(), "linear_dp4a": multiplier()})
    found = operation.judge(Trial(operation, case, PATH, StubExecutor(), Settings(), Memo()))
    names = [check.name for check in found.checks]
    assert len(set(names)) == len(names), names
    asked = RECORD.checks(PATH, case, card=RECIPES[case.recipe].far)  # stand-ins are asked no far checks
    assert set(names) == asked.needed
    if RECIPES[case.recipe].far:
        assert RECORD.checks(PATH, case, card=False).needed - asked.needed == set(far.names(PATH))
    for check in found.checks:
        assert check.verdict is (Verdict.WITHIN_BOUND if check.name in BOUNDED else Verdict.EXACT), check
        assert ("slack" in check.figures) == (check.name in BOUNDED)
    claim = RECORD.claim([{"name": check.name, "figures": check.figures} for check in found.checks])
    assert claim is not None
    assert (claim.compared, claim.differing) == (asked.whole, 0)


@pytest.mark.parametrize("name", [name for name in PATHS if name.startswith("linear/")])
def test_required_cases_launch_every_kernel(name: str) -> None:
    path = PATHS[name]
    for entry in plan.required(1):
        case = RECORD.parse(entry.case.text())
        launches = RECORD.launches(path, case, None)
        assert [one.kernel for one in launches] == list(RECORD.kernels(path, case)) == linear.kernels(path)
        assert launches[1].grid[0] * linear.ROWS >= case.outputs


def test_a_row_is_asked_with_its_bits_and_all_inputs_are_named() -> None:
    case = LinearCase("linear_bell", 1, 5, 6, 256)
    asked = RECORD.asked(case, "ab" * 32, 0)
    assert [one.row for one in asked] == sorted({one.row for one in asked})
    assert sum(one.bits for one in asked) == 1
    arrays = RECORD.arrays(build(case, "iq2_s"))
    assert list(arrays) == ["blocks", "x", "codebook"]
    assert all(array is not None for array in arrays.values())
    assert RECORD.arrays(build(case, "q4_k"))["codebook"] is None
