"""How far a chain of tensor-core accumulations may be from the exact sum.

One step adds `block` products and the accumulator (fewer products when the instruction has fewer):
each of the block + 1 addends is cut below 2**(E - F), E the exponent of the largest, and the sum is
cut once more to float32, by less than 2**-23 of it (docs/arithmetic.md). With P the sum
of the magnitudes of all that the chain adds, 2**E and every partial sum are at most P, so

    one step:  error <= ((block + 1) 2**-F + 2**-23) P

An instruction with k products is ceil(k / block) steps, and a chain of instructions adds its errors.

References
----------
docs/arithmetic.md has the rules of the cards.
"""

from __future__ import annotations

import numpy as np

from strata.executors.lanes import RULES, Rule
from validation.numerics.roundoff import U

#: For a card whose rule is not established: the widest of the known rules.
WIDEST = RULES["sm_75"]
#: The rival reading of Turing, block 4; whichever is true, bounds for sm_75 cover both.
TURING_RIVAL = RULES["sm_75_block4"]
#: Products that a chain adds between two of its sums whose sizes a bound knows.
SLICE = 16


def instruction(rule: Rule, products: int) -> float:
    """Relative error of one instruction, of the magnitudes summed so far.

    Parameters
    ----------
    rule
        The rule that the tensor core follows.
    products
        Products of the instruction.
    """
    if rule.block == 0:  # the exact sum, rounded once
        return U
    block = min(rule.block, products)
    own = -(-products // block) * ((block + 1) * 2.0**-rule.frac + 2.0**-23)
    return max(own, instruction(TURING_RIVAL, products)) if rule == RULES["sm_75"] else own


def high_low(rule: Rule, products: int, total: int) -> float:
    """Relative error of sum (hi + lo) b, of sum |hi + lo||b|; lo products first.

    |lo| <= 2**-11 |hi| for the halves of one number, so the steps that add lo products have small sums.

    Parameters
    ----------
    rule
        The rule that the tensor core follows.
    products
        Products of an instruction.
    total
        Products of the sum.
    """
    count, one = total / products, instruction(rule, products)
    return float((count * one * (1 + 2.0**-11) + count * one * 2.0**-11) * (1 + 2.0**-10))


def slice_error(
    rule: Rule, products: int, before: np.ndarray, after: np.ndarray, size: np.ndarray, largest: np.ndarray
) -> np.ndarray:
    """float64: the error of adding one slice of `SLICE` products to a chain, from the sizes that its own sums have.

    A step with accumulator c cuts at most products + 1 addends, each by less than 2**-F of the largest of them, and its
    sum by less than 2**-23 of itself. c is the sum before the slice or, between its steps, at most half of
    |before| + |after| + size, whichever products came first.

    Parameters
    ----------
    products
        Of one instruction.
    before, after
        float64, bounds of the sizes of the sums before the slice and after it.
    size, largest
        float64, the sum of the magnitudes of its products, and a bound of the largest one.
    """
    between = (before + after + size) / 2
    if rule.block == 0:  # the exact sum of an instruction, rounded once
        return np.asarray(U * ((SLICE // products - 1) * between + after))
    count = min(rule.block, products)
    more = SLICE // count - 1
    cut = (count + 1) * 2.0**-rule.frac
    addends = np.maximum(largest, before) + more * np.maximum(largest, between)
    return np.asarray(cut * addends + 2.0**-23 * (more * between + after))
