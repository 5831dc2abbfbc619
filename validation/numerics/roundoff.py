"""What one rounding to float32 may change, and what the evaluation of a bound in FP64 may."""

from __future__ import annotations

#: Unit roundoff of float32, round to nearest.
U = 2.0**-24
#: Covers the roundings of a bound's own evaluation.
WIDENED = 1 + 2.0**-30
