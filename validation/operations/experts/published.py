"""The limits of the published expert test, asked where it would ask them; the derived bounds are far below.

`prefill_fused_iq_test` compares with the rounded model (relative RMS at most 2e-3, worst row, largest error over the
largest value, at most 3e-2) and with FP64 on the float32 tokens, where the path may be 1.5 times as far in RMS and
twice as far in the worst row as the kernel it replaces. A healthy path is 2.4e-7 from the rounded model where no code
of h lies on a tie, and about 5e-5 where a few do: the figure 4.811e-05 is one of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from validation.core.verdict import Check, holds

RMS_TO_ROUNDED = 2e-3
WORST_ROW_TO_ROUNDED = 3e-2
RMS_RATIO = 1.5
WORST_ROW_RATIO = 2.0
#: Tokens of the published test: errors of fewer say too little of a kernel to compare two by them.
PUBLISHED_TOKENS = 256


def gates(figures: Mapping[str, Any]) -> list[Check]:
    """The checks, of `new_` and `old_` figures as `experts.checks.errors` names them; none where all is zero. Of which
    cases they are asked says `experts.checks.as_published`."""
    if figures["new_rms_to_rounded"] is None:
        return []
    rows = [
        ("published rms", figures["new_rms_to_rounded"], RMS_TO_ROUNDED),
        ("published worst row", figures["new_worst_row_to_rounded"], WORST_ROW_TO_ROUNDED),
        ("published rms ratio", figures["new_rms_to_fp32"], RMS_RATIO * figures["old_rms_to_fp32"]),
        (
            "published worst row ratio",
            figures["new_worst_row_to_fp32"],
            WORST_ROW_RATIO * figures["old_worst_row_to_fp32"],
        ),
    ]
    return [holds(name, bool(got <= most), f"{got:.4g}, expected at most {most:.4g}") for name, got, most in rows]
