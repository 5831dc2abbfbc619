"""The gates say what was published; the derived bound follows the kernel's arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors.lanes import RULES
from strata.kernels.paths import PATHS, Path
from validation.numerics.tensorcore_bound import high_low
from validation.operations.attention.bounds import prompt_attention as bounds


def test_gate_1_is_four_times_the_baseline_or_a_millionth_of_the_scale() -> None:
    ref, off = np.array([2.0, -8.0]), 2.0**-10  # sums and products of powers of two are exact
    assert bounds.accuracy(ref + np.array([0, off]), ref) == bounds.BASELINE_RATIO * off
    assert bounds.accuracy(ref, ref) == 8 * bounds.FLOOR_OF_SCALE
    assert np.isnan(bounds.accuracy(np.array([np.nan, 0]), ref))
    # The figures that were published.
    assert (bounds.BASELINE_RATIO, bounds.FLOOR_OF_SCALE, bounds.AGREEMENT_OF_SCALE) == (4.0, 1e-6, 1e-4)


def test_gate_2_is_a_ten_thousandth_of_the_baselines_scale() -> None:
    assert bounds.agreement(np.array([1.0, -5.0], np.float32)) == 5 * bounds.AGREEMENT_OF_SCALE
    assert bounds.agreement(np.zeros((0, 2), np.float32)) == 0


def test_rounding_grows_with_chunks_and_with_worse_rules() -> None:
    path = PATHS["prompt_attention/fp16/sm75"]
    short, long = (bounds.rounding(path, cells, RULES["sm_90"]) for cells in (32, 2051))
    assert short.numerator < long.numerator
    assert short.rescale == long.rescale > 0
    turing, exact = (bounds.rounding(path, 32, RULES[name]) for name in ("sm_75", "exact"))
    assert exact.numerator < short.numerator < turing.numerator


def test_a_chunk_of_64_cells_is_two_sums() -> None:
    rule = RULES["sm_90"]
    one, two = (bounds.rounding(PATHS[f"prompt_attention/q4_0/{tier}"], 2048, rule) for tier in ("sm80", "sm75"))
    same = high_low(rule, 8, 32) - high_low(rule, 16, 32)
    # As many additions to the accumulator (64), half as many chunks, other instructions.
    assert two.numerator - one.numerator == pytest.approx(same * bounds._CROSS, rel=2.0**-40)
    assert two.weight == one.weight


@pytest.mark.parametrize("path", [path for path in PATHS.values() if path.operation == "prompt_attention"])
def test_the_bound_is_below_a_dropped_half(path: Path) -> None:
    # Without its lo half a number is good to 2**-12; scores: test_scores.py.
    assert bounds.rounding(path, 2051, RULES["sm_90"]).numerator < 2.0**-12
