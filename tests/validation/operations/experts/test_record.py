"""Fused experts in records: rows, what is asked of them, what is launched, and that no wrong expert hides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.lanes import LanesExecutor
from strata.kernels import expert_fused
from strata.kernels.paths import PATHS
from tests.validation.record.forging import against, base, forged, sign
from tests.validation.stub import StubExecutor
from validation.core.challenge import chosen
from validation.core.memo import Memo
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.operations.experts import far, stub_kernels
from validation.operations.experts.arithmetic import MMQ
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import build
from validation.operations.experts.kernels import OPERATIONS, forced_shapes
from validation.operations.experts.operation import judged
from validation.operations.experts.plan import small
from validation.operations.experts.record import FusedExperts
from validation.operations.registry import of_kind
from validation.record.canonical import encode, name_of
from validation.record.evidence import input_digest
from validation.record.verify import Outcome, examine

FUSED = FusedExperts()
PATH = PATHS["expert_fused/iq2_xs/iq4_nl/sm75"]
SEED = st.binary(min_size=32, max_size=32).map(bytes.hex)
SMALL = ExpertCase("experts_decades", 1, 5, 4, 2, 256, 64)


def examined(document: dict[str, Any], every: bool = False) -> Outcome:
    data = encode(document["record"])
    return examine(data, f"{name_of(data)}.json", replace(against(), every=every))


def planned() -> list[ExpertCase]:
    """A small case of every recipe, a single token, and as many tokens as the published limits are asked of."""
    cases = [small(recipe.name, 1) for recipe in of_kind("expert")]
    return [*cases, replace(SMALL, tokens=1), replace(SMALL, tokens=256, top=1, experts=2)]


@pytest.mark.parametrize("case", planned(), ids=lambda case: case.text())
def test_the_checks_are_the_runner_s(case: ExpertCase) -> None:
    operations = {
        "expert_fused": stub_kernels.kernel(shapes=tuple(forced_shapes(case))),
        "expert_mmq": replace(
            stub_kernels.kernel(arithmetic=MMQ), refuses_strays=OPERATIONS["expert_mmq"].refuses_strays
        ),
    }
    found = judged(case, PATH, StubExecutor(), Settings(), Memo(), operations)
    names = {check.name for check in found.checks}
    asked = FUSED.checks(PATH, case, card=False)
    # What the runner adds to a case's own checks on lanes.
    asked_far = set(far.names(case.recipe))
    assert asked_far <= asked.needed
    names |= asked_far
    left = names - asked.needed
    assert asked.needed <= names, asked.needed - names
    groups = [set(group) for group in asked.together if set(group) & left]
    assert left == set().union(*groups), left
    for check in found.checks:
        if check.verdict.passes and "refuses" not in check.name:
            bounded = check.name in asked.bounded
            assert check.verdict is (Verdict.WITHIN_BOUND if bounded else Verdict.EXACT), check
            assert ("slack" in check.figures) == bounded
    claim = FUSED.claim([{"name": check.name, "figures": check.figures} for check in found.checks])
    assert (claim.compared if claim else 0) == asked.whole


@given(SEED, st.integers(0, 9999), st.integers(1, 70), st.integers(1, 40), st.integers(1, 6))
def test_a_row_of_every_expert_is_asked(seed: str, index: int, tokens: int, experts: int, top: int) -> None:
    for recipe in ("experts_decades", "experts_stray"):
        case = ExpertCase(recipe, 1, tokens, experts, top, 256, 64)
        asked = FUSED.asked(case, seed, index)
        rows = [each.row for each in asked]
        assert rows == sorted(set(rows))
        ids = np.clip(build_ids(case), -1, experts).astype(np.uint32)  # nobody is one group: -1 and beyond alike
        groups = np.where(ids >= experts, experts, ids)
        assert set(groups[rows].tolist()) == set(groups.tolist())
        assert sum(each.bits for each in asked) == 1
        drawn = chosen(seed, index, case.pairs)
        assert set(drawn) <= set(rows)
        assert len(rows) <= len(drawn) + len(set(groups.tolist()))


def build_ids(case: ExpertCase) -> np.ndarray:
    return build(case, PATH.mode).ids.reshape(-1)


@pytest.mark.parametrize("name", [name for name in PATHS if name.startswith("expert_fused/iq3_xxs/iq4_nl/")])
def test_launches_are_those_of_a_run(name: str) -> None:
    """On lanes, and where there are so many multiprocessors that the work decides the grid."""
    path, executor = PATHS[name], LanesExecutor(rule="sm_90")
    ran = OPERATIONS["expert_fused"].run(executor, path, build(SMALL, path.mode), None, False).witnesses
    due = FUSED.launches(path, SMALL, None)
    assert [(witness.entry, witness.grid) for witness in ran] == [(each.kernel.entry, each.grid) for each in due]
    assert [witness.image for witness in ran] == [executor.build(each.kernel).digest for each in due]
    assert set(FUSED.kernels(path, SMALL)) <= set(expert_fused.kernels(path))
    many, few = (FUSED.launches(path, replace(SMALL, tokens=900), count) for count in (10_000, 1))
    assert many[1].grid > few[1].grid


def test_required_cases_launch_every_kernel() -> None:
    from validation.operations.experts import required

    for name, path in PATHS.items():
        if name.startswith("expert_fused/"):
            launched = {kernel for case in required.cases(1) for kernel in FUSED.kernels(path, case)}
            assert launched == set(expert_fused.kernels(path))


def test_every_byte_of_the_inputs_counts() -> None:
    inputs = build(SMALL, PATH.mode)
    arrays = dict(FUSED.arrays(inputs))
    assert arrays["down_codebook"] is None or arrays["down_codebook"].size
    whole = input_digest(arrays)
    for name, array in arrays.items():
        if array is not None:
            for place in (0, -1):
                other = array.copy()
                other.reshape(-1).view(np.uint8)[place] ^= 1
                assert input_digest(arrays | {name: other}) != whole, name


def test_every_nan_is_the_card_s() -> None:
    out = np.array([[[np.nan, -np.nan, 1.0, np.inf]]], np.float32)
    out[0, 0, 1:2].view(np.uint32)[:] = 0xFFC12345
    assert FUSED.matrix(out).view("<u4").tolist() == [[0x7FFFFFFF, 0x7FFFFFFF, 0x3F800000, 0x7F800000]]


def rows_by_expert(document: dict[str, Any], index: int) -> dict[int, list[int]]:
    case = ExpertCase.parse(document["record"]["cases"][index]["case"])
    ids = build_ids(case)
    ids = np.where((ids >= 0) & (ids < case.experts), ids, case.experts)  # nobody is one group, of which a row is asked
    return {int(of): np.flatnonzero(ids == of).tolist() for of in np.unique(ids)}


@pytest.mark.parametrize("index", [0, 1])
def test_no_wrong_expert_hides(index: int) -> None:
    """One bit in each row of one expert (or of nobody), all signed again, whatever root that gives."""
    for rows in rows_by_expert(base("experts_turing"), index).values():
        for bit in (0, 5, 12):
            document = base("experts_turing")
            for row in rows:
                data = bytearray.fromhex(document["rows"][index][row])
                data[1] ^= 1 << bit % 8
                document["rows"][index][row] = data.hex()
            sign(document, ["outputs", "root", "challenge"])
            assert set(examined(document).rules) <= {"prediction", "numbers"}
            assert not examined(document).accepted


def test_a_wrong_row_that_nobody_asked_for_is_found_by_all_bits() -> None:
    document = base("experts_turing")
    asked = {item["row"] for item in document["record"]["challenge"] if item["case"] == 0}
    for row in range(len(document["rows"][0])):
        document = base("experts_turing")
        data = bytearray.fromhex(document["rows"][0][row])
        data[0] ^= 1
        document["rows"][0][row] = data.hex()
        sign(document, ["outputs", "root", "challenge"])
        assert not examined(document, every=True).accepted
    assert len(asked) < len(document["rows"][0])


def test_all_tiers_and_cards_have_the_same_bits() -> None:
    rows = [base(name)["rows"] for name in ("experts_lanes", "experts_hopper", "experts_turing", "experts_surrogate")]
    assert rows[0] == rows[1] == rows[2] == rows[3]


def test_bits_need_no_compiler() -> None:
    outcome = examine(*forged({"base": "experts_turing"}), against(bits=False))
    assert outcome.title == "ACCEPTED"
    assert "their bits are those of the integer contract" in outcome.notes


def test_a_card_without_a_rule_has_bits_all_the_same() -> None:
    """Nobody knows the rounding of its tensor core, and integers have none."""
    document = base("experts_hopper")
    record = document["record"]
    for image in record["images"]:
        image.update(arch="sm_120", loaded="sm_120")
        image["options"][image["options"].index("-arch=sm_90")] = "-arch=sm_120"
    record["provenance"].update(capability=120, device="NVIDIA GeForce RTX 5090")
    outcome = examined(document)
    assert outcome.title == "ACCEPTED", outcome.lines()
    assert [item.kind for item in outcome.gate] == ["attested"]
    document["rows"][0] = [f"{int(row[:2], 16) ^ 1:02x}{row[2:]}" for row in document["rows"][0]]
    sign(document, ["outputs", "root", "challenge"])
    assert examined(document).rules == ["prediction"]
