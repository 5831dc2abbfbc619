"""The gates say what was published; the derived bound follows the kernel's arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors.lanes import RULES
from strata.kernels.paths import PATHS
from validation.bounds import prompt_attention as bounds


def test_gate_1_is_four_times_the_baseline_or_a_millionth_of_the_scale() -> None:
    ref = np.array([2.0, -8.0])
    assert bounds.accuracy(np.array([2.0, -8.0 + 1e-3]), ref) == pytest.approx(4e-3)
    assert bounds.accuracy(ref, ref) == 8 * 1e-6
    assert np.isnan(bounds.accuracy(np.array([np.nan, 0]), ref))


def test_gate_2_is_a_ten_thousandth_of_the_baselines_scale() -> None:
    assert bounds.agreement(np.array([1.0, -5.0], np.float32)) == 5 * 1e-4
    assert bounds.agreement(np.zeros((0, 2), np.float32)) == 0


def test_the_mean_gate_has_the_ratio_of_gate_1_and_weighs_all_sizes_alike() -> None:
    ref, bound = np.zeros((1, 2, 2)), np.array([[[1e-6, 1e-6], [1e-3, 1e-3]]])
    old = ref + bound * 0.01
    assert bounds.mean_ratio(old * 4, old, ref, bound) == pytest.approx(1)
    assert bounds.mean_ratio(old, old, ref, bound) == pytest.approx(0.25)
    wrong = old.copy()
    wrong[0, 0] *= 100  # in the small row only
    assert bounds.mean_ratio(wrong, old, ref, bound) > 10
    assert bounds.mean_ratio(np.full(ref.shape, np.nan), old, ref, bound) != bounds.mean_ratio(old, old, ref, bound)


def test_the_mean_gate_of_a_perfect_baseline_allows_the_last_roundings() -> None:
    ref, bound = np.ones((1, 1, 4)), np.full((1, 1, 4), 1e-6)
    assert bounds.mean_ratio(ref + 3 * 2.0**-24, ref, ref, bound) == pytest.approx(1)
    zeros = np.zeros((1, 1, 4))
    assert bounds.mean_ratio(zeros, zeros, zeros, bound) == 0
    assert bounds.mean_ratio(zeros + 1e-9, zeros, zeros, bound) == np.inf
    assert bounds.mean_ratio(zeros, zeros, zeros, zeros) == 0


def test_rounding_grows_with_chunks_and_with_worse_rules() -> None:
    path = PATHS["prompt_attention/fp16/sm75"]
    short, long = (bounds.rounding(path, cells, RULES["sm_90"]) for cells in (32, 2051))
    assert short.numerator < long.numerator
    assert short.weight < long.weight
    assert short.score == long.score
    turing = bounds.rounding(path, 32, RULES["sm_75"])
    assert turing.score > short.score
    exact = bounds.rounding(path, 32, RULES["exact"])
    assert exact.score < short.score


@pytest.mark.parametrize("path", [path for path in PATHS.values() if path.operation == "prompt_attention"])
def test_the_bound_is_far_below_a_dropped_half(path: object) -> None:
    rounding = bounds.rounding(path, 2051, RULES["sm_90"])  # type: ignore[arg-type]
    # Without its lo half a number is good to 2**-12.
    assert rounding.score < 2.0**-12 / 30
    assert rounding.numerator < 2.0**-12 / 5
