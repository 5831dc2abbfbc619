"""What one rounding to float32 may change, and what the evaluation of a bound in FP64 may.

References
----------
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM, 2002, section 2.1.
"""

from __future__ import annotations

#: Unit roundoff of float32, round to nearest.
U = 2.0**-24
#: Covers the roundings of a bound's own evaluation.
WIDENED = 1 + 2.0**-30
