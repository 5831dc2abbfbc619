"""Hostile data for any kernel: how each recipe fills an input, from integers and exact operations alone.

A float value is made as sign * m * 2**e with m a whole number of as many bits as the type has, so that no rounding and
no function of a library takes part: a seed gives the same bytes everywhere. A recipe fills the inputs one by one. One
that is about one input alone (a single one, subnormals, NaN) takes them in turn by the seed and fills the others
plainly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation.check.arrays import SIGNS, Values
from validation.check.refusal import refuse
from validation.core.random_streams import Stream

#: Significant bits of a type, and its smallest exponent of a whole significand.
PRECISION = {"float16": (11, -24), "float32": (24, -149)}
#: How far the two halves of a cancelling row are from each other's negative: one part in so many.
RESIDUE_BITS = 6
#: Bits that a cancelling value leaves free for its residue.
_SPARE = 7


@dataclass(frozen=True)
class Filling:
    """What a recipe is given to fill one input.

    values: what the input may hold; shape: of the array; stream: its random words; target: whether this is the input
    that the recipe is about, where it is about one; turn: the seed, by which special values change places.
    """

    values: Values
    shape: tuple[int, ...]
    stream: Stream
    target: bool
    turn: int

    @property
    def flat(self) -> tuple[int, int]:
        """Rows and columns: the last axis against all others."""
        columns = self.shape[-1]
        return int(np.prod(self.shape, dtype=np.int64)) // columns, columns


Fill = Callable[[Filling], np.ndarray]


@dataclass(frozen=True)
class Recipe:
    """One way to fill the inputs.

    Parameters
    ----------
    name : str
        As it stands in the text of a case.
    motivation : str
        Which faults it is there to find.
    floats, integers : function of Filling
        Give the array of a float or an integer input.
    targets : bool
        Whether it is about one input at a time.
    needs_float : bool
        Whether it says nothing of integer inputs.
    finite : bool
        Whether all values are finite.
    """

    name: str
    motivation: str
    floats: Fill
    integers: Fill
    targets: bool = False
    needs_float: bool = False
    finite: bool = True


def _significands(f: Filling, shape: tuple[int, int], bits: int) -> np.ndarray:
    """int64: whole numbers of exactly `bits` bits."""
    half = 1 << (bits - 1)
    return half + f.stream.child("significand").below(half, shape)


def _signs(f: Filling, shape: tuple[int, int]) -> np.ndarray:
    """int64: 1 and -1, or one of them alone where values may have one sign only."""
    if not f.values.both_signs:
        return np.full(shape, SIGNS[f.values.sign][0], np.int64)
    return 1 - 2 * f.stream.child("sign").below(2, shape)


def _powers(exponents: np.ndarray) -> np.ndarray:
    """2.0**exponent as float64, exact, for exponents of normal doubles."""
    bits: np.ndarray = (exponents.astype(np.int64) + 1023) << 52
    return bits.view(np.float64)


def _as_input(f: Filling, made: np.ndarray) -> np.ndarray:
    """The array in the input's own type and shape."""
    own: np.ndarray = made.astype(f.values.dtype).reshape(f.shape)
    return own


def _floats(f: Filling, exponents: np.ndarray, spare: int = 0, signs: np.ndarray | None = None) -> np.ndarray:
    """Signed values of magnitudes 2**e up to 2**(e + 1), e the exponents [rows, columns], `spare` low bits zero.

    signs: of every row, or of all values; None draws them."""
    precision = PRECISION[f.values.dtype.name][0]
    shape = f.flat
    whole = (_signs(f, shape) if signs is None else signs) * _significands(f, shape, precision - spare)
    exponents = np.broadcast_to(exponents, shape)
    made = whole.astype(np.float64) * _powers(exponents - (precision - 1 - spare))
    return _as_input(f, made)


def _middle(f: Filling) -> int:
    """The exponent of plain values: 0, or the end of the domain that is nearest."""
    low, high = f.values.exponents
    return min(max(0, low), high - 1)


def _narrow(f: Filling) -> np.ndarray:
    """Exponents of plain values: of four consecutive ones, where the domain has them."""
    low = f.values.exponents[0]
    exponents: np.ndarray = np.maximum(_middle(f) - f.stream.child("exponent").below(4, f.flat), low)
    return exponents


def _plain(f: Filling) -> np.ndarray:
    return _floats(f, _narrow(f))


def _decades(f: Filling) -> np.ndarray:
    rows, columns = f.flat
    low, high = f.values.exponents
    span = high - low
    of_row = f.stream.child("row").below(span // 2 + 1, (rows, 1))
    of_column = f.stream.child("column").below(span - span // 2, (1, columns))
    return _floats(f, low + np.minimum(of_row + of_column, span - 1))


def _mirror(f: Filling, array: np.ndarray) -> tuple[np.ndarray, int]:
    """The array as [rows, columns], a copy, and the length of the halves that mirror each other."""
    flat = np.array(array.reshape(f.flat))
    return flat, f.flat[1] // 2


def _cancelling(f: Filling) -> np.ndarray:
    flat, half = _mirror(f, _floats(f, _narrow(f), _SPARE))
    first = flat[:, :half]
    if f.target and f.values.both_signs:
        # v and -v (1 - 2**-6): exact, because the low bits of v are zero.
        residue = first.astype(np.float64) * (1 - 2.0**-RESIDUE_BITS)
        flat[:, half : 2 * half] = -residue.astype(flat.dtype)
    else:
        flat[:, half : 2 * half] = first
    return flat.reshape(f.shape)


def _equal(f: Filling) -> np.ndarray:
    one = _plain(Filling(f.values, (1, 1), f.stream, f.target, f.turn))
    return np.full(f.shape, one.reshape(())[()], f.values.dtype)


def _zeros(f: Filling) -> np.ndarray:
    array = _plain(f).reshape(f.flat)
    if f.target:
        rows, columns = f.flat
        negative = f.stream.child("zero").below(2, (rows, columns)) == 1
        signed = np.where(negative & f.values.both_signs, -0.0, f.values.zero).astype(array.dtype)
        # Whole rows of zeros, rows without one, and rows of both.
        kind = (np.arange(rows) + f.turn)[:, None] % 3
        mixed = f.stream.child("where").below(2, (rows, columns)) == 1
        array = np.where((kind == 0) | ((kind == 1) & mixed), signed, array)
        # Whatever the sizes, there is a zero of a sign, and a value if there is room.
        array.flat[0] = array.dtype.type(-0.0 if f.values.both_signs else f.values.zero)
    return array.reshape(f.shape)


def _one_hot(f: Filling) -> np.ndarray:
    array = _plain(f).reshape(f.flat)
    if f.target:
        rows, columns = f.flat
        at = f.stream.child("where").below(columns, rows) if columns > 1 else np.zeros(rows, np.int64)
        at[0] = columns - 1  # the last column is where masks and loops end
        keep = np.arange(columns)[None, :] == at[:, None]
        array = np.where(keep, array, array.dtype.type(f.values.zero))
    return array.reshape(f.shape)


def _ends(f: Filling) -> np.ndarray:
    rows, columns = f.flat
    low, high = f.values.exponents
    exponents = np.full((rows, columns), max(low, _middle(f) - 12))
    exponents[:, 0] = exponents[:, -1] = _middle(f)
    return _floats(f, np.minimum(exponents, high - 1))


def _subnormals(f: Filling) -> np.ndarray:
    if not f.target:
        return _plain(f)
    precision, least = PRECISION[f.values.dtype.name]
    bits = 1 + f.stream.child("length").below(precision - 1, f.flat)
    whole = 1 + (f.stream.child("whole").words(f.flat) >> np.uint64(11)).astype(np.int64) % (1 << bits)
    whole = np.minimum(whole, (1 << (precision - 1)) - 1)
    # One of each row is among the largest, or a row of few would be as small as what rounding below them allows.
    whole[:, 0] |= 1 << (precision - 2)
    whole *= _signs(f, f.flat)
    return _as_input(f, whole.astype(np.float64) * _powers(np.full(f.flat, least)))


def _huge(f: Filling) -> np.ndarray:
    return _floats(f, np.full(f.flat, f.values.exponents[1] - 1))


def _tiny(f: Filling) -> np.ndarray:
    return _floats(f, np.full(f.flat, f.values.exponents[0]))


def _huge_and_tiny(f: Filling) -> np.ndarray:
    low, high = f.values.exponents
    return _floats(f, np.where(f.stream.child("end").below(2, f.flat) == 1, high - 1, low))


def _not_finite(f: Filling) -> np.ndarray:
    array = _plain(f).reshape(f.flat)
    if f.target:
        rows, columns = f.flat
        first, last = SIGNS[f.values.sign][0], SIGNS[f.values.sign][-1]
        kinds = np.array([np.nan, first * np.inf, last * np.inf], array.dtype)
        for row in range(rows):
            kind = (row + f.turn) % 4
            if rows == 1 or kind < 3:  # every fourth row stays as it is
                place = f.stream.child("place", row).below(columns, 1)[0] if columns > 1 else 0
                array[row, place] = kinds[kind % 3]
    return array.reshape(f.shape)


def _infinities(f: Filling) -> np.ndarray:
    """Of four rows one stays finite, the others have two infinities: of one sign, of both, of the other."""
    array = _plain(f).reshape(f.flat)
    if f.target:
        rows, columns = f.flat
        first, last = SIGNS[f.values.sign][0] * np.inf, SIGNS[f.values.sign][-1] * np.inf
        kinds = np.array([[first, first], [first, last], [last, last]], array.dtype)
        for row in range(rows):
            kind = (row + f.turn) % 4
            if rows == 1 or kind < 3:
                places = f.stream.child("places", row).permutation(columns)[:2]
                array[row, places] = kinds[kind % 3][: len(places)]
    return array.reshape(f.shape)


def _one_sign(f: Filling) -> np.ndarray:
    """Rows below zero and rows above it in turn; two at the top of the domain, two of plain values."""
    if not f.target or not f.values.both_signs:
        return _plain(f)
    kind = (np.arange(f.flat[0]) + f.turn)[:, None]
    return _floats(f, _large(f, kind // 2), signs=2 * (kind % 2) - 1)


def _negative(f: Filling) -> np.ndarray:
    if not f.target or not f.values.both_signs:
        return _plain(f)
    kind = (np.arange(f.flat[0]) + f.turn)[:, None]
    return _floats(f, _large(f, kind), signs=np.array([[-1]]))


def _large(f: Filling, kind: np.ndarray) -> np.ndarray:
    """Exponents: of rows with an even `kind` those of the top of the domain, of others those of plain values."""
    return np.where(kind % 2 == 0, f.values.exponents[1] - 1, _narrow(f))


def _shifted(f: Filling) -> np.ndarray:
    """Rows of one offset each, and a spread that is smaller by 2**shift, 2**(shift / 2) or 2**(shift / 4)."""
    if not f.target or not f.values.offset:
        return _plain(f)
    rows, columns = f.flat
    precision, shift = PRECISION[f.values.dtype.name][0], f.values.offset
    kind = (np.arange(rows) + f.turn)[:, None]
    # A lone row takes the middle one: where the spread is least, an honest bound may be as wide as a variance.
    turn = kind % 3 if rows > 1 else np.ones_like(kind)
    free = precision - 1 - np.maximum(1, np.array([shift, shift // 2, shift // 4])[turn])
    half = 1 << (precision - 1)
    offset = half + f.stream.child("offset").below(half >> 1, (rows, 1))
    spread = f.stream.child("spread").below(half, f.flat) & ((1 << free) - 1)
    signs = 2 * (kind % 2) - 1 if f.values.both_signs else SIGNS[f.values.sign][0]
    exponents = np.where(kind // 2 % 2 == 0, f.values.exponents[1] - 1, _middle(f))
    made = (signs * (offset + spread)).astype(np.float64) * _powers(exponents - (precision - 1))
    return _as_input(f, np.broadcast_to(made, (rows, columns)))


def _uniform(f: Filling) -> np.ndarray:
    """Integers over the whole range, each as likely as another to one part in 2**31 or better."""
    low, high = f.values.range
    words = f.stream.words(f.shape)
    span = high - low + 1
    made: np.ndarray
    if span == 1 << 64:
        made = words.view(np.int64) if low < 0 else words
    else:
        made = (words >> np.uint64(1)) % np.uint64(span) if span < 1 << 63 else words % np.uint64(span)
        made = (made + np.uint64(low % (1 << 64))).view(np.int64 if low < 0 else np.uint64)
    return made.astype(f.values.dtype)


def _signed_integers(f: Filling, below: np.ndarray) -> np.ndarray:
    """Integers over the whole range below zero in the rows `below`, and over that of zero and more in the others."""
    low, high = f.values.range
    words = f.stream.words(f.flat) >> np.uint64(1)
    negative = -1 - (words % np.uint64(-low)).astype(np.int64)
    positive = (words % np.uint64(high + 1)).astype(np.int64)
    return _as_input(f, np.where(below, negative, positive))


def _integer_one_sign(f: Filling) -> np.ndarray:
    if not f.values.both_signs:
        return _uniform(f)
    return _signed_integers(f, ((np.arange(f.flat[0]) + f.turn) % 2 == 0)[:, None])


def _integer_negative(f: Filling) -> np.ndarray:
    return _signed_integers(f, np.array([[True]])) if f.values.both_signs else _uniform(f)


def _constant(f: Filling) -> np.ndarray:
    return np.full(f.shape, f.values.range[1], f.values.dtype)


def _least(f: Filling) -> int:
    """The value that stands for nothing: zero where it is one."""
    low, high = f.values.range
    return 0 if low <= 0 <= high else low


def _integer_zeros(f: Filling) -> np.ndarray:
    return np.full(f.shape, _least(f), f.values.dtype) if f.target else _uniform(f)


def _integer_one_hot(f: Filling) -> np.ndarray:
    if not f.target:
        return _uniform(f)
    rows, columns = f.flat
    made = np.full((rows, columns), _least(f), f.values.dtype)
    at = f.stream.child("where").below(columns, rows) if columns > 1 else np.zeros(rows, np.int64)
    at[0] = columns - 1
    made[np.arange(rows), at] = f.values.range[1]
    return made.reshape(f.shape)


def _both_ends(f: Filling) -> np.ndarray:
    low, high = f.values.range
    return np.where(f.stream.child("end").below(2, f.shape) == 1, high, low).astype(f.values.dtype)


_TABLE = (
    Recipe("plain", "ordinary values of both signs: a term that is dropped or counted twice", _plain, _uniform),
    Recipe(
        "signed_decades",
        "a scale of its own for every row and column, over the whole domain: a wrong index, stride or scale",
        _decades,
        _uniform,
    ),
    Recipe(
        "cancelling",
        "rows whose halves nearly cancel: an intermediate rounded more often, or in a narrower type, than counted",
        _cancelling,
        _uniform,
        targets=True,
        needs_float=True,
    ),
    Recipe("equal", "one value everywhere: a count or divisor that is off by one", _equal, _constant),
    Recipe("zeros", "rows of zeros of both signs: a division by nothing", _zeros, _integer_zeros, True),
    Recipe(
        "one_hot",
        "one value a row, the last column first: which element a lane reads",
        _one_hot,
        _integer_one_hot,
        True,
    ),
    Recipe(
        "ends", "the first and the last column outweigh the rest: a loop that ends one too early", _ends, _both_ends
    ),
    Recipe(
        "subnormals",
        "one input of subnormal numbers: flushing to zero, reciprocals that overflow",
        _subnormals,
        _uniform,
        targets=True,
        needs_float=True,
    ),
    Recipe("huge", "the top of the domain: an intermediate that overflows", _huge, _both_ends),
    Recipe("tiny", "the bottom of the domain: an intermediate that underflows", _tiny, _uniform, needs_float=True),
    Recipe(
        "huge_and_tiny", "both ends of the domain in one row: a sum whose order matters", _huge_and_tiny, _both_ends
    ),
    Recipe(
        "not_finite",
        "NaN and infinities in some rows: that they come out where they must and nowhere else",
        _not_finite,
        _uniform,
        targets=True,
        needs_float=True,
        finite=False,
    ),
    Recipe(
        "one_sign",
        "rows below zero and rows above it, large and plain ones: a maximum or a minimum that begins at zero",
        _one_sign,
        _integer_one_sign,
    ),
    Recipe(
        "negative",
        "all values below zero: what a thread without an element, or a padded one, brings in as zero",
        _negative,
        _integer_negative,
    ),
    Recipe(
        "shifted",
        "rows of an offset that is large against their spread: a mean of squares less the square of a mean",
        _shifted,
        _uniform,
        needs_float=True,
    ),
    Recipe(
        "infinities",
        "two infinities in a row, of one sign or of both: an infinity less another, a maximum that is one",
        _infinities,
        _uniform,
        targets=True,
        needs_float=True,
        finite=False,
    ),
)
#: Every recipe by name, in the order in which a profile plans them.
RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _TABLE}


def find(name: Any) -> Recipe:
    """The recipe of a name. Raises StrataError for a name that none has."""
    if name not in RECIPES:
        raise refuse("a recipe", name, f"one of {', '.join(RECIPES)}")
    return RECIPES[name]
