"""Words of a record's rows: 32 bits each, numbers of FP32 or integers, as the operation says."""

from __future__ import annotations

import numpy as np

from strata.executors.base import StrataError

#: What a row may be made of.
WORDS = (np.dtype(np.float32), np.dtype(np.int32))
#: Hex digits of a word.
DIGITS = 8


def words(values: np.ndarray) -> np.ndarray:
    """Rows as their bytes are kept and hashed.

    Parameters
    ----------
    values
        float32 or int32 of any shape.

    Returns
    -------
    The same words, little endian and contiguous. No word is converted.

    Raises
    ------
    StrataError
        For elements of another type, whose bytes would be no row's.
    """
    if values.dtype.newbyteorder("=") not in WORDS:
        expected = " or ".join(each.name for each in WORDS)
        raise StrataError(f"a row of {values.dtype.name} in a record, expected {expected}")
    return np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))


def of_bytes(data: bytes, dtype: np.dtype) -> np.ndarray:
    """The words of little endian bytes, whatever they are. dtype: one of `WORDS`."""
    return np.frombuffer(data, dtype=dtype.newbyteorder("<"))


def differing(got: np.ndarray, due: np.ndarray) -> np.ndarray:
    """int64, where two rows differ in a bit: NaN and zeros of both signs are told apart.

    Raises
    ------
    StrataError
        For rows of different types or lengths.
    """
    if got.dtype != due.dtype or got.shape != due.shape:
        sides = f"{got.dtype.name} {list(got.shape)} with {due.dtype.name} {list(due.shape)}"
        raise StrataError(f"a row is compared of {sides}, expected one type and length")
    return np.flatnonzero(words(got).view("<u4") != words(due).view("<u4"))


def said(word: np.generic) -> str:
    """A word in a message: an integer as it is, a float by its bits."""
    if np.issubdtype(word.dtype, np.integer):
        return str(int(word))
    return f"{int(word.view(np.uint32)):08x}"
