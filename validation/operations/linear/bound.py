"""How far a dense product may be from the exact one, per output. u = 2^-24, one rounding of FP32.

**Rows as codes.** Let a be the largest magnitude of a group. The quotient 127 / a is rounded once and a value times it
once more, so what a code c is the nearest integer of is x 127 / a but for (2 u + u^2) of itself and 2^-150:

    |x - (a / 127) c| <= a / 127 (1/2 + 127 (2 u + u^2) + 2^-150)

The scale d is a / 127 but for u of itself or 2^-150, and |c| <= 127, so

    |x - d c| <= E = a / 254 + 3 u a + u^2 a + 127 2^-150 + ...  <= a / 254 + 4 u a + 2^-142

and 0 in a group of zeros. Where 127 / a is infinite or may be, for a below 127 / the largest float32, codes may be 0
instead: E = a more. An output is then off by sum |w| E over its weights.

**The sum.** With M the sum of (|s code| + |offset|) (|x| + E), nothing of a sum is larger than M. A group's v takes r
roundings, one with a single scale, two with two scales or an offset; then it joins the sum in one for each of the n
groups, so what enters first is rounded r + n times (Higham, Accuracy and Stability of Numerical Algorithms, section
3.1):

    ((1 + u)^(n + r) - 1) M

Each of these roundings may be of a subnormal, by 2^-150, those of v times d <= a / 127 (1 + u) + 2^-150; twice that
makes up for the roundings behind it.

**FP16 numbers** are multiplied as they are: with M the sum of |w x|, a product takes 4 roundings a turn of 128 values
and 5 where lanes are added.

**The reference** adds exact products in FP64 in any order: (width + 2) 2^-53 of the sum of their magnitudes and little
more; a product of two 24-bit numbers is exact, one of a weight of 53 bits rounded once.

Nothing is promised where a weight or a row is not finite, or where M is 2^127 or more.

References
----------
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM, 2002.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.formats import FORMATS
from validation.numerics.roundoff import WIDENED, U
from validation.operations.linear.formats import GROUP, HALVES
from validation.operations.linear.reference import Exact

#: The largest code.
LARGEST = 127
#: Below it 127 / a may be infinite; the quotient is rounded, so a little above it as well.
_TINY = LARGEST / float(np.finfo(np.float32).max) * (1 + 2 * U)
#: A rounding below the normal range, and those of a code and its scale.
SUBNORMAL, _OF_CODES = 2.0**-150, 2.0**-142
#: From here on FP32 may overflow.
LARGE = 2.0**127
_UNIT = 2.0**-53
#: Values of a lane in a turn, values of a turn, and additions of 32 lanes.
_EACH, _TURN, _ADDED = 4, 128, 5


class Limits(NamedTuple):
    """What is promised of outputs.

    Parameters
    ----------
    bound
        float64 [rows, outputs], 0 where nothing is promised.
    sound
        bool of that shape: of which outputs something is.
    """

    bound: np.ndarray
    sound: np.ndarray


def codes(x: np.ndarray) -> np.ndarray:
    """The bound E of codes.

    Parameters
    ----------
    x
        float32 [rows, width], finite.

    Returns
    -------
    float64 array [rows, width / 32]
    """
    a = np.abs(x.astype(np.float64)).reshape(len(x), -1, GROUP).max(axis=-1)
    error = a / (2 * LARGEST) + 4 * U * a + _OF_CODES
    return np.where(a == 0, 0.0, np.where(a < _TINY, error + a, error))


def limits(mode: str, w: Exact, x: np.ndarray) -> Limits:
    """The bounds of every output.

    Parameters
    ----------
    mode
        A format of blocks, or `f16`.
    w
        The matrix.
    x
        float32 [rows, width].
    """
    sound = np.isfinite(x).all(axis=1)[:, None] & np.isfinite(w.mass).all(axis=1)
    mass = np.where(np.isfinite(w.mass), w.mass, 0.0)
    rows = np.where(np.isfinite(x), x, np.float32(0))
    made = _of_halves(mass, rows) if mode == HALVES else _of_blocks(mode, w, mass, rows)
    sound = sound & made.sound
    return Limits(np.where(sound, made.bound * WIDENED, 0.0), sound)


def _of_blocks(mode: str, w: Exact, mass: np.ndarray, x: np.ndarray) -> Limits:
    form, groups = FORMATS[mode], x.shape[1] // GROUP
    roundings = 2 if form.scales == 2 or form.offset else 1
    size = np.where(np.isfinite(w.values), np.abs(w.values), 0.0)
    wide, error = np.abs(x.astype(np.float64)), codes(x)
    lost = error @ size.reshape(len(size), groups, GROUP).sum(axis=-1).T
    total = wide @ mass.T + error @ mass.reshape(len(mass), groups, GROUP).sum(axis=-1).T
    a = wide.reshape(len(x), groups, GROUP).max(axis=-1).sum(axis=-1)[:, None]
    floor = 2 * SUBNORMAL * (roundings * (2 * a / LARGEST + groups * SUBNORMAL) + groups)
    rounded = ((1 + U) ** (groups + roundings) - 1) * total
    own = (x.shape[1] + 4) * _UNIT * (wide @ size.T)
    return Limits(np.where(total == 0, 0.0, lost + rounded + floor + own), total < LARGE)


def _of_halves(mass: np.ndarray, x: np.ndarray) -> Limits:
    width = x.shape[1]
    total = np.abs(x.astype(np.float64)) @ mass.T
    count = _EACH * -(-width // _TURN) + _ADDED
    bound = ((1 + U) ** count - 1) * total + 2 * (width + GROUP) * SUBNORMAL + (width + 4) * _UNIT * total
    return Limits(np.where(total == 0, 0.0, bound), total < LARGE)
