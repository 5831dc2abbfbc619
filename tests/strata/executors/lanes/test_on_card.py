"""The same kernels on a card: what lanes and the bit model claim about the hardware, asked of the hardware."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors.base import ExecutorUnavailable
from strata.executors.cuda import CudaExecutor, images
from strata.executors.cuda.nvrtc import Nvrtc
from strata.executors.lanes import RULES, LanesExecutor
from tests.strata.executors.lanes import test_lanes_tensorcore as matrix
from tests.strata.executors.lanes import test_vocabulary as vocabulary
from tests.strata.executors.lanes.number_inputs import Case, cases, evaluate
from tests.strata.executors.lanes.sources import kernel
from tests.strata.executors.lanes.test_matrix_queue import random_program
from validation.core.random_streams import Stream
from validation.numerics.tensorcore import Params
from validation.numerics.tensorcore_data import FAMILIES, tiles
from validation.numerics.tensorcore_rules import rule_on

CASES = {case.what: case for case in cases()}


@pytest.mark.parametrize("source", ["matrix", "vocabulary", "numbers"])
@pytest.mark.parametrize(("arch", "tier"), [("sm_75", 75), ("sm_80", 80), ("sm_90", 80)])
def test_the_kernels_are_cuda(source: str, arch: str, tier: int, nvrtc: Nvrtc) -> None:
    """They compile for every tier where no card is at hand, so that the tests below can run where one is."""
    assert images.build(kernel(source, tier=tier), arch, nvrtc).file.stat().st_size > 0


@pytest.fixture(scope="module")
def card() -> CudaExecutor:
    try:
        return CudaExecutor()
    except ExecutorUnavailable as error:
        pytest.skip(str(error))


def tier_of(card: CudaExecutor) -> int:
    return 80 if (card.capability or 0) >= 80 else 75


@pytest.mark.parametrize("shape", matrix.SHAPES)
def test_tensor_core_of_the_card_equals_the_model(card: CudaExecutor, shape: str) -> None:
    rule, tier = rule_on(card), tier_of(card)
    if rule is None:
        pytest.skip(f"no rule is known for compute capability {card.capability}")
    if shape == "k16" and tier < 80:
        pytest.skip("this card has no m16n8k16")
    compared = 0
    for family in FAMILIES:
        t, whole, apart = matrix.family_operands(family)
        x = apart if shape == "k8 twice" else whole
        got = matrix.run(card, x, matrix.program_of(shape, matrix.PER_WARP), tier=tier)
        want = matrix.expected(t, shape, Params(*RULES[rule])).reshape(got.shape)
        assert int((got != want).sum()) == 0, family
        compared += got.size
    assert compared > 300_000


def test_programs_give_the_card_s_bits_on_lanes(card: CudaExecutor) -> None:
    rule, tier = rule_on(card), tier_of(card)
    if rule is None or tier < 80:
        pytest.skip("the programs mix m16n8k8 and m16n8k16 of a card whose rule is known")
    for seed, family in enumerate(("normal", "special", "bits")):
        x = matrix.Operands.of(tiles(family, 18, 16, seed), 3)
        c = tiles("normal", 3 * 5, 16, seed + 100).c.reshape(3, 5, 16, 8)
        x = matrix.Operands(x.a, x.b, c)
        program = random_program(Stream.of(seed, "card"), 6, 5, 120)
        for twist in (0, 1):
            want = matrix.run(LanesExecutor(rule=rule), x, program, twist)
            assert np.array_equal(matrix.run(card, x, program, twist), want)


@pytest.mark.parametrize("what", ["xor", "index", "up", "down", "ballot", "any", "all"])
def test_warp_operations(card: CudaExecutor, what: str) -> None:
    widths = [1, 2, 4, 8, 16, 32]
    arguments = [*range(34), 63, -1]
    settings = np.array([(vocabulary.FULL, argument, width) for width in widths for argument in arguments])
    rows = vocabulary.random_rows("card", len(settings))
    rows[:, 1] &= 31
    got = vocabulary.run(card, what, rows, settings, tier=tier_of(card))[0]
    assert np.array_equal(got[:, 0], vocabulary.run(LanesExecutor(), what, rows, settings)[0][:, 0])


@pytest.mark.parametrize("what", ["add", "max", "max_unsigned", "ldmatrix", "ldmatrix_transposed", "block_sum"])
def test_reductions_and_matrices(card: CudaExecutor, what: str) -> None:
    block = 128 if what == "block_sum" else 32
    rows = vocabulary.float_rows("card", 20, block)
    if what.startswith("ldmatrix"):
        rows[:, 0] = (rows[:, 0] & 127) * 16
    widths = np.resize([2, 4, 8, 16, 32], 20)
    settings = np.stack([np.full(20, vocabulary.FULL), np.zeros(20, np.int64), widths], axis=1)
    got = vocabulary.run(card, what, rows, settings, block, tier_of(card))[0]
    written = {"block_sum": 1, "ldmatrix": 4, "ldmatrix_transposed": 4}.get(what, 3)
    assert np.array_equal(
        got[:, :written], vocabulary.run(LanesExecutor(), what, rows, settings, block)[0][:, :written]
    )


@pytest.mark.parametrize("what", CASES)
def test_numbers(card: CudaExecutor, what: str) -> None:
    """NaN may differ where a float's bits are taken: lanes make a NaN canonical only where a float is stored."""
    case: Case = CASES[what]
    got, want = evaluate(card, what, *case.inputs), evaluate(LanesExecutor(), what, *case.inputs)
    differ = got != want
    if case.nan or what == "half_value":
        differ &= ~(np.isnan(got.view(np.float32)) & np.isnan(want.view(np.float32)))
    assert int(differ.sum()) == 0
