"""The arithmetic a tensor core follows, as two numbers.

`block` products and the accumulator are summed in one step, each addend cut towards zero `frac`
bits below the largest exponent. An instruction with k below `block` is one step of k products.
Measured: sm_90 on an H200, 18.4 million outputs. sm_80 to sm_89: published hardware results.
sm_75 is a prediction that no card has confirmed to this project; sm_75_block4 is its rival.

References
----------
docs/arithmetic.md has the rules and what is known of them.
M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, "Numerical Behavior of NVIDIA Tensor Cores", PeerJ Computer Science
7:e330, 2021.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from strata.executors.base import StrataError


class Rule(NamedTuple):
    """How a tensor core sums.

    Parameters
    ----------
    block
        Products in one step, 0 for the exact sum that is rounded once.
    frac
        Fraction bits that are kept below the largest exponent.
    """

    block: int
    frac: int

    def __str__(self) -> str:
        return "exact" if self.block == 0 else f"block {self.block}, F {self.frac}"


#: By compiled architecture. sm_90 sums 16 products in m16n8k16 and, min(16, 8), 8 in m16n8k8.
RULES: dict[str, Rule] = {
    "exact": Rule(0, 0),
    "sm_75": Rule(8, 24),
    "sm_75_block4": Rule(4, 24),
    "sm_80": Rule(8, 24),
    "sm_86": Rule(8, 24),
    "sm_89": Rule(8, 24),
    "sm_90": Rule(16, 25),
}

#: Compute capabilities, times ten, whose rule is among them.
CAPABILITIES = tuple(int(name[3:]) for name in RULES if name[3:].isdigit())

_PAIR = re.compile(r"([0-9]{1,2}) *[,/] *([0-9]{1,2})")


def parse_rule(rule: str | tuple[int, int]) -> Rule:
    """The rule of a name or of two numbers.

    Parameters
    ----------
    rule
        `exact`, an architecture of `RULES`, or `block,F` such as `8,24`, as a text or a pair; (0, 0) is `exact`.

    Raises
    ------
    StrataError
        For anything else: block is 4, 8 or 16, F from 20 to 30.
    """
    if isinstance(rule, str):
        if rule in RULES:
            return RULES[rule]
        match = _PAIR.fullmatch(rule.strip())
        if match is None:
            raise StrataError(
                f"rule {rule!r}: expected 'exact', 'block,F' such as '8,24', or one of {', '.join(RULES)}"
            )
        rule = (int(match[1]), int(match[2]))
        if rule == (0, 0):
            raise StrataError("rule 0,0: expected a block of 4, 8 or 16 and F from 20 to 30, or 'exact'")
    block, frac = rule
    if (block, frac) == (0, 0):
        return RULES["exact"]
    if block not in (4, 8, 16) or not 20 <= frac <= 30:
        raise StrataError(f"rule {block},{frac}: expected a block of 4, 8 or 16 and F from 20 to 30")
    return Rule(block, frac)
