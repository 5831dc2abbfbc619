"""The error of a chain of tensor-core steps, against the bit model of the instruction."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors.lanes import RULES, Rule
from validation.core.random_streams import Stream, power_of_two
from validation.numerics.tensorcore_bound import high_low, instruction


def step(rule: Rule, a: list[float], b: list[float], c: float) -> float:
    """One step by the definition in Python integers: align, cut, add, cut (finite values only)."""
    import math

    addends = [x * y for x, y in zip(a, b, strict=True)] + [c]

    def raw(x: float, y: float) -> int:
        return math.frexp(x)[1] + math.frexp(y)[1] - 2

    exponents = [raw(x, y) for x, y in zip(a, b, strict=True) if x * y != 0]
    exponents += [math.frexp(c)[1] - 1] if c else []
    if not exponents:
        return 0.0
    quantum = power_of_two(max(exponents) - rule.frac)
    total = sum(math.trunc(value / quantum) for value in addends)
    if total == 0:
        return 0.0
    cut = max(abs(total).bit_length() - 24, 0)
    return math.copysign((abs(total) >> cut << cut) * quantum, total)


def chain(rule: Rule, products: int, a: list[float], b: list[float]) -> float:
    block, total = min(rule.block, products), 0.0
    for at in range(0, len(a), block):
        total = step(rule, a[at : at + block], b[at : at + block], total)
    return total


@pytest.mark.parametrize("products", [8, 16])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("total", [32, 64])
def test_the_bit_model_never_leaves_the_bound(arch: str, products: int, total: int) -> None:
    rule = RULES[arch]
    largest = 0.0
    for turn in range(300):
        stream = Stream.of(turn, arch, products)
        spread = stream.child("e").below(12, total)
        hi = (stream.child("a").below(2048, total) - (1024 if turn % 3 else 0)) * 2.0**spread
        lo = (stream.child("l").below(2048, total) - 1024) * 2.0 ** (spread - 12)
        b = (stream.child("b").below(255, total) - 127.0).tolist()
        if turn % 3 == 0:
            b = np.abs(b).tolist()
        got = chain(rule, products, [*lo.tolist(), *hi.tolist()], [*b, *b])
        exact = float(np.sum((lo + hi) * np.array(b)))  # integers and halves of them below 2**53
        size = float(np.sum(np.abs(lo + hi) * np.abs(b)))
        if size:
            largest = max(largest, abs(got - exact) / size / high_low(rule, products, total))
    assert largest <= 1
    assert largest > 1 / 30  # not vacuous


def test_exact_sums_round_once_and_more_bits_are_better() -> None:
    assert instruction(RULES["exact"], 8) == 2.0**-24
    assert instruction(Rule(8, 25), 8) < instruction(Rule(8, 24), 8)
    assert instruction(Rule(16, 25), 8) == instruction(Rule(8, 25), 8)
    assert instruction(Rule(8, 25), 16) == 2 * instruction(Rule(8, 25), 8)


def test_turing_covers_both_readings() -> None:
    assert instruction(RULES["sm_75"], 8) >= instruction(Rule(4, 24), 8)
    assert instruction(RULES["sm_75"], 8) >= 9 * 2.0**-24 + 2.0**-23
