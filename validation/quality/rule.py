"""When two settings differ by more than they may: a sign test with a limit that is computed, not chosen.

Let A and B be settings, F_A and F_B the FP64 model with their KV formats (`fp64_kv`). What B's logits lack of A's has
three parts: what the two formats differ by in exact arithmetic, F_A against F_B; the arithmetic error of A against
F_A; and that of B against F_B, made by the same products and norms as A's and, if its attention is right, by nothing
larger. For small differences KL is half the variance of the logits' difference under the softmax, so parts that are
independent add up, and parts that go the same way add up to less. The limit of a prompt is therefore

    limit = mean over positions of KL(F_A || F_B) + 2 KL(F_A || A),

which no kernel of B has touched. KL(A || B) and the limit are two draws of the same noise (a format's rounding errors
fall anew when its inputs change a little), so each is the larger of the two with chance 1/2 at most. Prompts are
independent. How many of them exceed their limits is then at most a binomial count of fair coins, and B is flagged when
that many would come up with probability `FALSE_ALARM` or less.

It sees what makes most prompts worse, by however little; a fault that shows in few positions of few prompts it does not
see. Those are for parity, where every element has its bound, and for the needles. A logit that is not finite is flagged
wherever it stands: no limit covers it.

References
----------
W. J. Dixon, A. M. Mood, "The Statistical Sign Test", J. Am. Stat. Assoc. 41, 1946.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

#: How often a right kernel may be flagged, over runs on fresh prompts.
FALSE_ALARM = 1e-4
#: With fewer prompts not even all of them exceeding their limits would be improbable enough.
FEWEST = math.ceil(-math.log2(FALSE_ALARM))


def tail(count: int, prompts: int) -> float:
    """The probability that at least `count` of `prompts` fair coins show heads."""
    heads: int = sum(math.comb(prompts, k) for k in range(count, prompts + 1))
    return heads / (1 << prompts)


def allowed(prompts: int) -> int:
    """How many of so many prompts may exceed their limits: all, when there are fewer than `FEWEST`."""
    return next(k for k in range(prompts, -1, -1) if tail(k, prompts) > FALSE_ALARM)


def exceeding(divergence: Sequence[float], limit: Sequence[float]) -> list[int]:
    """Indices of prompts whose divergence exceeds the limit, or is a NaN."""
    return [i for i, (one, most) in enumerate(zip(divergence, limit, strict=True)) if not one <= most]
