"""The sign test's limit."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from validation.quality.rule import FALSE_ALARM, FEWEST, allowed, exceeding, tail


def test_the_tail_is_the_share_of_all_ways_that_coins_fall() -> None:
    for coins in range(11):
        falls = [sum(one) for one in product((0, 1), repeat=coins)]
        for count in range(coins + 2):
            share = Fraction(sum(heads >= count for heads in falls), len(falls))
            assert tail(count, coins) == float(share)


@given(st.integers(FEWEST, 100))
@settings(max_examples=20)
def test_one_more_than_allowed_is_improbable_and_no_fewer_are(prompts: int) -> None:
    most = allowed(prompts)
    assert tail(most + 1, prompts) <= FALSE_ALARM < tail(most, prompts)


def test_with_fewer_prompts_than_the_fewest_none_is_flagged() -> None:
    assert tail(FEWEST, FEWEST) <= FALSE_ALARM < tail(FEWEST - 1, FEWEST - 1)
    for prompts in range(FEWEST):
        assert allowed(prompts) == prompts
    assert allowed(FEWEST) == FEWEST - 1


def test_what_exceeds() -> None:
    assert exceeding([1.0, 2.0, math.nan, 3.0, 1.0], [1.0, 1.0, 1.0, math.nan, 2.0]) == [1, 2, 3]
