"""Whether a row uses more of its bound than its record says that any does."""

from __future__ import annotations

import numpy as np

#: The slack that is told is of another machine's FP64, whose bound may differ in its last places: far above the
#: rounding of the few thousand operations of a bound (each 2**-53), far below anything that matters in a share.
SLACK_ROUNDING = 2.0**-30


def above(got: np.ndarray, want: np.ndarray, limit: np.ndarray, own: np.ndarray, told: float) -> bool:
    """Whether an element uses more of its bound than the record says any does. own: bound of the reference itself.

    Two references differ by twice their own bound at most, so that much is left to the machine that told the slack.
    """
    error = np.abs(got.astype(np.float64) - want) - 2 * own
    return bool((error > told * limit * (1 + SLACK_ROUNDING)).any())
