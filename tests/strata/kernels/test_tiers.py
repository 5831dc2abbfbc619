"""Tiers, and the facts that are derived from them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.device import PINNED_ARCHS
from strata.executors.base import StrataError
from strata.kernels import tiers
from strata.kernels.path import Path


def test_a_tier_is_found_by_its_name_alone() -> None:
    assert [tiers.find(name).number for name in tiers.TIERS] == [75, 80, 60]
    with pytest.raises(StrataError, match="tier 'sm90': expected one of sm75, sm80, simt"):
        tiers.find("sm90")
    with pytest.raises(StrataError, match="tier 'sm90'"):
        _ = Path("prompt_attention", "q4_0", "sm90", 90).tier_number


def test_no_two_tiers_with_tensor_cores_are_for_one_device() -> None:
    """And no device from Turing on is left out."""
    ranges = sorted(tier.serves for tier in tiers.TIERS.values() if tier.tensor_cores)
    assert all(before[1] + 1 == after[0] for before, after in pairwise(ranges))
    assert ranges[-1][1] == tiers.NEWEST
    for tier in tiers.TIERS.values():
        assert tier.serves[0] <= tier.recorded[0] <= tier.recorded[1] <= tier.serves[1]
        assert (tier.serves[0] == tier.recorded[0]) == tier.tensor_cores
        assert tier.number == tier.serves[0]
        assert bool(tier.hardware) == (tier.serves[1] < tiers.NEWEST)


@given(
    st.one_of(st.none(), st.integers(0, 200), st.sampled_from(sorted({a for x in PINNED_ARCHS.values() for a in x})))
)
def test_a_device_has_the_tier_that_serves_it(capability: int | None) -> None:
    """Lanes and older cards the lowest, whose kernels lanes run."""
    tier = tiers.of_capability(capability)
    lowest, highest = tier.serves
    assert lowest <= max(capability or 0, 75) <= highest


def test_an_instruction_is_what_the_assembler_makes_of_it() -> None:
    matrix = tiers.find("sm75").int8
    assert matrix.at(99) is matrix
    assert matrix.at(100).needs == ("IMMA",)
    assert tiers.find("sm80").int8.at(120) is tiers.find("sm80").int8
