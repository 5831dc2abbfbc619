"""What is asked of a run whose every bit is not predicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from validation.controls.stand_in import StubExecutor
from validation.experts import checks, expected, stand_in
from validation.experts.arithmetic import FUSED
from validation.experts.case import ExpertCase
from validation.experts.inputs import build


@pytest.mark.parametrize("recipe", ["experts_decades", "experts_broken"])
def test_what_is_lost_is_asked_of_sampled_cases_too(recipe: str) -> None:
    case = ExpertCase(recipe, 3, 5, 5, 2, 256, 64)
    data = build(case, "iq4_xs/q2_0")
    got = stand_in.outcome(data, StubExecutor())
    bits = expected.bits(data, np.arange(2), FUSED)
    assert got.lost is not None

    def refused(lost: tuple[int, int, int]) -> list[str]:
        asked = checks.finite(case, data, replace(got, lost=lost), bits, False)
        return [check.name for check in asked if not check.verdict.passes and check.name != "lost x"]

    x, h, out = got.lost
    assert refused((x, h, out)) == []
    assert refused((x, h + 1, out)) == ["lost h"]
    assert refused((x, h, out + 1)) == ["lost out"]
