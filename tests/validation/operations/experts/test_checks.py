"""What is asked of a run whose every bit is not predicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strata.kernels.paths import PATHS
from validation.core.memo import Memo
from validation.core.settings import Settings
from validation.core.stub_executor import StubExecutor
from validation.core.verdict import Verdict
from validation.operations.experts import checks, expected, stub_kernels
from validation.operations.experts import published as published_experts
from validation.operations.experts.arithmetic import FUSED, MMQ
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import build
from validation.operations.experts.operation import judged
from validation.run import runner


@pytest.mark.parametrize("recipe", ["experts_decades", "experts_broken"])
def test_what_is_lost_is_asked_of_sampled_cases_too(recipe: str) -> None:
    case = ExpertCase(recipe, 3, 5, 5, 2, 256, 64)
    data = build(case, "iq4_xs/q2_0")
    got = stub_kernels.outcome(data, StubExecutor())
    bits = expected.bits(data, np.arange(2), FUSED)
    assert got.lost is not None

    def refused(lost: tuple[int, int, int]) -> list[str]:
        asked = checks.finite(case, data, replace(got, lost=lost), bits, False)
        return [check.name for check in asked if not check.verdict.passes and check.name != "lost x"]

    x, h, out = got.lost
    assert refused((x, h, out)) == []
    assert refused((x, h + 1, out)) == ["lost h"]
    assert refused((x, h, out + 1)) == ["lost out"]


@pytest.mark.parametrize(
    ("recipe", "tokens", "asked"),
    [
        ("experts_plain", 256, True),
        ("experts_edges", 577, True),
        ("experts_plain", 255, False),
        ("experts_tiny", 256, False),
        ("experts_extremes", 256, False),
        ("experts:extremes:edges:tiny", 320, False),
    ],
)
def test_published_limits_are_asked_of_data_like_the_published(recipe: str, tokens: int, asked: bool) -> None:
    assert checks.as_published(ExpertCase(recipe, 1, tokens, 8, 1, 256, 64)) is asked


def test_tiny_tokens_of_a_published_size_pass() -> None:
    """Where h falls below float32 a sound path gives zeros, and is as far off as its row is large."""
    case = ExpertCase("experts:plain:one:tiny", 2, 256, 2, 1, 256, 64)
    kernels = {"expert_fused": stub_kernels.kernel(), "expert_mmq": stub_kernels.kernel(arithmetic=MMQ)}
    path = PATHS["expert_fused/iq3_s/iq4_nl/sm80"]
    found = judged(case, path, StubExecutor(), Settings(), Memo(), kernels)
    assert runner.settle(found.checks) is Verdict.EXACT, [check for check in found.checks if not check.verdict.passes]
    worst = found.figures["new_worst_row_to_rounded"]
    assert worst is not None
    assert worst > published_experts.WORST_ROW_TO_ROUNDED  # so that the limit would refuse it
    assert not any(check.name.startswith("published") for check in found.checks)
