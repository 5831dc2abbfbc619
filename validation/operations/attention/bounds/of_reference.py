"""How far the FP64 reference may be from the truth, per element, by `bounds.softmax` (u = 2**-53).

- score: a product of q (24 bits) and K (at most 19: a code of 8 times an FP16 scale) is exact in FP64. 256 of them are
  added in whatever order the BLAS likes: gamma_256 = 256 u / (1 - 256 u) of the sum of their magnitudes (Higham,
  Accuracy and Stability of Numerical Algorithms, section 4.2). The division by 16 is exact.
- exponent: the difference to the largest score, one rounding of the gap.
- weight: NumPy's exp, to EXP_ULPS units in the last place: what NumPy's own tests ask of its vector code, and more
  than the C libraries need that it calls else. This is assumed; `certificate.py` would show a case where it fails.
- numerator: a weight is divided by the sum, multiplied by V, and n terms are added in any order: gamma_(n+1).
  denominator: n weights added in any order, gamma_n.
- floor: weights below 2**-1022, and products with them, may be subnormal or flushed: far below 2**-1000 of the
  largest |V|, which is at least 2**-24.

The same errors sit in the scores from which every bound is evaluated. With s the computed scores, each bound is
evaluated at weights exp(s) in place of the true ones, which differ by d[c] = score and exponent above: so these are
added to the errors of a kernel too (`largest_error` is superadditive in d, so the two steps, kernel to exp(s) and
exp(s) to the truth, are covered by one evaluation at the sum). ABOUT makes up for products of errors, such as a
kernel's relative error of a gap that is itself off by d.

References
----------
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM, 2002.
"""

from __future__ import annotations

from validation.operations.attention.bounds.softmax import Rounding

#: Unit roundoff of FP64.
UNIT = 2.0**-53
#: Largest error of NumPy's float64 exp, in units in the last place (2 u each, of the value); assumed.
EXP_ULPS = 4
#: Raises these errors by the products of two errors, of which each is below 2**-20.
ABOUT = 1 + 2.0**-20


def gamma(count: int) -> float:
    """The largest relative error of a product of `count` factors 1 + d, |d| <= u, or of their reciprocals.

    References
    ----------
    N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM, 2002, Lemma 3.1.
    """
    return count * UNIT / (1 - count * UNIT)


def rounding(cells: int) -> Rounding:
    """The errors of the reference on a query of `cells` ids."""
    return Rounding(
        score=gamma(256) * ABOUT,
        query=0.0,
        exponent=UNIT * ABOUT,
        weight=2 * EXP_ULPS * UNIT * ABOUT,
        numerator=gamma(cells + 1) * ABOUT,
        denominator=gamma(cells) * ABOUT,
        floor=2.0**-1000,
    )
