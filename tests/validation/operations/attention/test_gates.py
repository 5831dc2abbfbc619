"""Witnesses that are not what was asked for, and figures that a reader relies on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strata.executors.base import Witness
from tests.validation.stub import DIGEST, StubCard, StubExecutor, witness
from validation.core.launches import witnessed
from validation.core.negative_probes import bit_battery
from validation.core.verdict import AXES, Verdict, identical
from validation.operations.attention import gates
from validation.operations.attention.bounds import prompt_attention as bounds
from validation.operations.attention.reference import Reference

LANES = StubExecutor()
GOOD = witness(LANES, (3, 2, 1))


def test_a_good_witness_is_exact_and_recorded() -> None:
    check = witnessed(LANES, [GOOD], 6, {"stub": DIGEST})
    assert check.verdict is Verdict.EXACT
    assert check.figures["launches"][0]["image"] == DIGEST
    assert witnessed(LANES, [GOOD], None, {}).verdict is Verdict.EXACT


@pytest.mark.parametrize(
    ("seen", "blocks", "images", "reason"),
    [
        ([], 6, {}, "nothing was launched"),
        ([replace(GOOD, executor="cuda")], 6, {}, "ran on cuda, expected lanes"),
        ([replace(GOOD, arch="sm_75")], 6, {}, "image for sm_75, expected lanes-stub"),
        ([replace(GOOD, image="")], 6, {}, "no image digest"),
        ([replace(GOOD, image="z" * 64)], 6, {}, "no image digest"),
        ([replace(GOOD, blocks_run=5)], 6, {}, "ran 5 blocks of a grid of 6"),
        ([replace(GOOD, blocks_run=0)], None, {}, "ran 0 blocks"),
        ([GOOD], 7, {}, "6 blocks ran, expected 7"),
        ([GOOD, GOOD], 6, {}, "12 blocks ran, expected 6"),
        ([GOOD], 6, {"stub": "0" * 64}, "ran from image 0123456789ab"),
        ([GOOD], 6, {"other": DIGEST}, "stub ran from image"),
        ([GOOD], 6, {"stub": DIGEST, "merge": DIGEST}, "merge was not launched"),
    ],
)
def test_a_wrong_witness_is_told(seen: list[Witness], blocks: int | None, images: dict[str, str], reason: str) -> None:
    check = witnessed(LANES, seen, blocks, images)
    assert check.verdict is Verdict.EXCEEDS
    assert reason in check.reason


def test_ptx_for_an_older_target_is_that_target() -> None:
    card = StubCard(arch="compute_75")
    seen = [replace(witness(card, (1, 1, 1)), arch="compute_75 on sm_90")]
    assert witnessed(card, seen, 1, {}).verdict is Verdict.EXACT
    assert witnessed(StubCard(), seen, 1, {}).verdict is Verdict.EXCEEDS


def truth(out: np.ndarray, published: bool = False) -> gates.Truth:
    reference = Reference(np.arange(len(out)), out, np.abs(out))
    return gates.Truth(reference, np.full(out.shape, 1e-5), np.full(out.shape, 2e-5), published)


REF = np.linspace(-1, 1, 2 * 3 * 256).reshape(2, 3, 256)
NEAR = (REF + 1e-7).astype(np.float32)


def test_published_gates_are_asked_of_large_samples() -> None:
    small = [check.name for check in gates.gates(NEAR, NEAR, truth(REF))]
    large = [check.name for check in gates.gates(NEAR, NEAR, truth(REF, published=True))]
    assert small == ["bound", "agreement"]
    assert large == ["bound", "gate 1", "gate 2"]
    assert [check.name for check in gates.gates(NEAR, None, truth(REF))] == ["bound"]
    assert all(check.verdict.passes for check in gates.gates(NEAR, NEAR.copy(), truth(REF, published=True)))
    assert not all(check.verdict.passes for check in gates.gates(NEAR, NEAR, truth(REF, published=True)))


def test_gate_2_sees_rows_that_have_no_reference() -> None:
    new = NEAR.copy()
    new[1] = NEAR[0]
    part = replace(truth(REF, published=True), reference=Reference(np.array([0]), REF[:1], np.abs(REF[:1])))
    part = replace(part, bound=part.bound[:1], base_bound=np.full((1, 3, 256), 2e-5))
    failed = [check.name for check in gates.gates(new, NEAR, part) if not check.verdict.passes]
    assert failed == ["gate 2"]


def test_a_baseline_that_is_wrong_is_told() -> None:
    assert gates.baseline_within_bound(NEAR, truth(REF)).verdict is Verdict.WITHIN_BOUND
    assert gates.baseline_within_bound(-NEAR, truth(REF)).verdict is Verdict.EXCEEDS
    spoiled = NEAR.copy()
    spoiled[0, 0, 0] = np.nan
    assert gates.baseline_within_bound(spoiled, truth(REF)).verdict is Verdict.EXCEEDS
    assert not all(check.verdict.passes for check in gates.gates(NEAR, spoiled, truth(REF)))


def test_a_failed_comparison_of_bits_is_placed_beside_its_reference() -> None:
    part = truth(REF)
    part = replace(part, reference=replace(part.reference, queries=np.array([4, 9])))
    bits = identical("repeat", NEAR, -NEAR, labels=(np.array([4, 9]),), axes=AXES)
    assert bits.at == (4, 0, 0)
    assert gates.located(bits, part).reason == f"{bits.reason}, reference -1, bound 1e-05"
    base = replace(bits, name="baseline prediction")
    assert gates.located(base, part).reason.endswith(", bound 2e-05")
    # No reference of that query, no element, no bound: nothing is added.
    assert gates.located(replace(bits, at=(5, 0, 0)), part) == replace(bits, at=(5, 0, 0))
    assert gates.located(replace(bits, at=None), part) == replace(bits, at=None)
    assert gates.located(base, replace(part, base_bound=None)) == base


@pytest.mark.parametrize("published", [False, True])
def test_the_battery_passes_sound_gates(published: bool) -> None:
    assert gates.battery(NEAR, truth(REF, published)).verdict is Verdict.EXACT
    assert gates.battery(None, truth(REF)).verdict is Verdict.EXACT


def test_a_flipped_bit_is_refused() -> None:
    assert bit_battery(NEAR).verdict is Verdict.EXACT


def test_figures_show_a_small_head_at_its_own_size() -> None:
    # Powers of two, so that sums are exact in float32 and every figure below is exact.
    ref = np.sign(REF) * np.array([1.0, 2.0**-12, 1.0])[:, None]
    new = (ref + np.array([0, 2.0**-20, 0])[:, None]).astype(np.float32)
    old = (ref + 2.0**-19).astype(np.float32)
    got = gates.figures(new, old, Reference(np.arange(2), ref, np.abs(ref), rounded=ref - 2.0**-10))
    assert got["error_new_of_scale"] == 2.0**-20
    assert got["error_new_worst_head"] == 2.0**-8
    assert got["error_new_by_head"] == [0, 2.0**-8, 0]
    assert got["error_new_to_rounded_v"] == 2.0**-10 + 2.0**-20
    assert got["gate_1"] == 2.0**-20 / bounds.accuracy(old, ref) < 1
    assert got["gate_2"] == 2.0**-19 / bounds.agreement(old) < 1


def test_figures_of_zeros_divide_by_nothing() -> None:
    zeros = np.zeros((2, 3, 256))
    got = gates.figures(zeros.astype(np.float32), zeros.astype(np.float32), Reference(np.arange(2), zeros, zeros))
    assert got["error_new_of_scale"] is None
    assert got["error_new_worst_head"] is None
    assert got["gate_1"] == 0
