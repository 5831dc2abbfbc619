"""What the head of a GGUF file says, read under the assumption that it lies.

The reader of the `gguf` package believes a file: it takes counts and lengths before it looks whether the file has the
bytes, and it makes an array object of each piece of a vocabulary (13 seconds for 262,144). Here every count is held
against the bytes that are left before anything is made, a name has a length and a file a number of names, and each
number of a type comes from the package's own tables. What is wrong is one line.

References
----------
The GGUF format: `docs/gguf.md` of the ggml project.
"""

from __future__ import annotations

import mmap
import struct
import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from strata.executors.base import StrataError
from strata.formats import FORMATS
from strata.imports import NotImportedError, optional
from strata.shown import shown

#: Versions whose layout this is: 2 and 3 differ in byte orders alone.
VERSIONS = (2, 3)
#: Keys and tensors of a file, and strings in all its arrays: large models have about 60, 1,500 and 600,000.
MOST_KEYS = 1 << 14
MOST_TENSORS = 1 << 16
MOST_STRINGS = 1 << 22
#: Bytes of a key and of a tensor's name, by the format's definition.
LONGEST_KEY = (1 << 16) - 1
LONGEST_NAME = 64
MOST_DIMENSIONS = 4
#: A file whose tensors would lie further than this is none.
_BEYOND = 1 << 62
_NAME_SHOWN = 70

Value = Any  # bool, int, float, str, list[str] or a NumPy array of numbers


class ModelError(StrataError):
    """A model's file is not there, is not what it should be, or is of a kind that is not known here."""


@dataclass(frozen=True)
class Entry:
    """A tensor as the head of a file declares it.

    Parameters
    ----------
    name
        Its name.
    format
        The format of its blocks in lower case, such as `q4_k` or `f32`.
    shape
        Lengths, the outermost first: a matrix has (outputs, inputs).
    row_bytes
        Bytes of one row, the innermost length.
    offset
        Where it begins in the file, bytes.
    """

    name: str
    format: str
    shape: tuple[int, ...]
    row_bytes: int
    offset: int

    @property
    def rows(self) -> int:
        """How many rows it has: all lengths but the innermost, multiplied."""
        rows = 1
        for length in self.shape[:-1]:
            rows *= length
        return rows

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Head:
    """What the head of a file says: its metadata by key and its tensors in the order of the file."""

    metadata: dict[str, Value]
    entries: tuple[Entry, ...]


def scan(data: mmap.mmap | bytes) -> Head:
    """Read the head of a GGUF file.

    Parameters
    ----------
    data
        All bytes of the file. Only those of the head are touched.

    Raises
    ------
    ModelError
        For anything that the format does not allow, and where the `gguf` package is missing.
    """
    return _Scan(data, _numbers()).head()


@dataclass(frozen=True)
class _Numbers:
    """The numbers of the format: the magic, scalar types as (letter of struct, dtype) by number, the numbers of strings
    and arrays, and tensor formats as (name, values of a block, bytes of a block) by number."""

    magic: bytes
    scalars: dict[int, tuple[str, np.dtype[Any]]]
    boolean: int
    string: int
    array: int
    formats: dict[int, tuple[str, int, int]]


def _numbers() -> _Numbers:
    try:
        known = optional("gguf").constants
    except NotImportedError as error:
        what = "is not installed" if error.absent else f"does not import ({error})"
        raise ModelError(f"package gguf {what}; expected after: pip install gguf") from None
    kinds = known.GGUFValueType
    letters = {
        kinds.UINT8: "B",
        kinds.INT8: "b",
        kinds.UINT16: "H",
        kinds.INT16: "h",
        kinds.UINT32: "I",
        kinds.INT32: "i",
        kinds.FLOAT32: "f",
        kinds.BOOL: "B",
        kinds.UINT64: "Q",
        kinds.INT64: "q",
        kinds.FLOAT64: "d",
    }
    # A format that the installed package is too old for, but the kernels here are not.
    formats = {kind.ggml_type: (kind.name, kind.values, kind.nbytes) for kind in FORMATS.values()}
    formats |= {
        int(kind): (kind.name.lower(), int(values), int(nbytes))
        for kind, (values, nbytes) in known.GGML_QUANT_SIZES.items()
    }
    return _Numbers(
        magic=int(known.GGUF_MAGIC).to_bytes(4, "little"),
        scalars={int(kind): (letter, np.dtype(f"<{letter}")) for kind, letter in letters.items()},
        boolean=int(kinds.BOOL),
        string=int(kinds.STRING),
        array=int(kinds.ARRAY),
        formats=formats,
    )


class _Scan:
    """A place in the bytes of a file that moves forward, and never past their end."""

    def __init__(self, data: mmap.mmap | bytes, numbers: _Numbers) -> None:
        self._data = data
        self._end = len(data)
        self._at = 0
        self._numbers = numbers
        self._strings = 0

    def head(self) -> Head:
        if sys.byteorder != "little":
            raise ModelError("this machine stores the high byte first; expected one that stores the low byte first")
        self._magic()
        tensors = self._count("tensors", MOST_TENSORS)
        keys = self._count("keys", MOST_KEYS)
        metadata: dict[str, Value] = {}
        for _ in range(keys):
            key = self._name("a key", LONGEST_KEY)
            if key in metadata:
                raise ModelError(f"key {_shown(key)} occurs twice")
            metadata[key] = self._value(f"key {_shown(key)}")
        declared = [self._tensor() for _ in range(tensors)]
        names = set()
        for name, *_ in declared:
            if name in names:
                raise ModelError(f"tensor {_shown(name)} occurs twice")
            names.add(name)
        alignment = self._alignment(metadata)
        start = -(-self._at // alignment) * alignment
        return Head(metadata, self._placed(declared, start, alignment))

    def _magic(self) -> None:
        if not self._end:
            raise ModelError("an empty file; expected a GGUF file")
        found = bytes(self._data[:4])
        if found != self._numbers.magic:
            raise ModelError(f"no GGUF file: it begins with {found!r}, expected {self._numbers.magic!r}")
        self._at = 4
        version = int(self._scalar("I", "the version"))
        if version & 0xFFFF == 0 and version:
            raise ModelError("a GGUF file that stores the high byte first; expected the low byte first")
        if version not in VERSIONS:
            raise ModelError(f"GGUF version {version}; expected {' or '.join(map(str, VERSIONS))}")

    def _count(self, what: str, most: int) -> int:
        count = int(self._scalar("Q", f"the number of {what}"))
        if count > most:
            raise ModelError(f"{count} {what}; expected at most {most}")
        return count

    def _value(self, what: str) -> Value:
        kind = int(self._scalar("I", f"the type of {what}"))
        if kind == self._numbers.array:
            return self._array(what)
        if kind == self._numbers.string:
            return self._string(what, self._end)
        value = self._scalar(self._letter(kind, what), what)
        return self._truth(value, what) if kind == self._numbers.boolean else value

    def _array(self, what: str) -> Value:
        kind = int(self._scalar("I", f"the type of {what}"))
        count = int(self._scalar("Q", f"the length of {what}"))
        if kind == self._numbers.array:
            raise ModelError(f"{what} is an array of arrays; expected one of numbers or strings")
        if kind == self._numbers.string:
            return self._string_array(count, what)
        self._letter(kind, what)
        dtype = self._numbers.scalars[kind][1]
        at = self._taken(count * dtype.itemsize, what)
        found = np.frombuffer(self._data, dtype, count, at)
        if kind == self._numbers.boolean:
            if count and found.max() > 1:
                self._truth(int(found.max()), what)
            return found.astype(np.bool_)
        return found

    def _letter(self, kind: int, what: str) -> str:
        if kind not in self._numbers.scalars:
            raise ModelError(f"{what} has the unknown type {kind}; expected 0 to {max(self._numbers.scalars)}")
        return self._numbers.scalars[kind][0]

    def _truth(self, value: Any, what: str) -> bool:
        if value not in (0, 1):
            raise ModelError(f"{what} is the truth value {value}; expected 0 or 1")
        return bool(value)

    def _string_array(self, count: int, what: str) -> list[str]:
        if count > (self._end - self._at) // 8:
            self._truncated(what)
        self._strings += count
        if self._strings > MOST_STRINGS:
            raise ModelError(f"{what} has string {self._strings} of the file; expected at most {MOST_STRINGS} in all")
        length_of, data, at, end = struct.Struct("<Q").unpack_from, self._data, self._at, self._end
        found = []
        for _ in range(count):
            if at + 8 > end:
                self._truncated(what)
            (length,) = length_of(data, at)
            at += 8
            if length > end - at:
                self._truncated(what)
            found.append(data[at : at + length])
            at += length
        self._at = at
        try:
            return [piece.decode() for piece in found]
        except UnicodeDecodeError:
            raise ModelError(f"{what} has a string that is no UTF-8") from None

    def _tensor(self) -> tuple[str, tuple[str, int, int], tuple[int, ...], int]:
        name = self._name("a tensor's name", LONGEST_NAME)
        what = f"tensor {_shown(name)}"
        dimensions = int(self._scalar("I", f"the dimensions of {what}"))
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise ModelError(f"{what} has {dimensions} dimensions; expected 1 to {MOST_DIMENSIONS}")
        lengths = tuple(int(self._scalar("Q", f"the lengths of {what}")) for _ in range(dimensions))
        product = 1
        for length in lengths:
            product *= length
            if not 0 < length < _BEYOND or product >= _BEYOND:
                raise ModelError(
                    f"{what} has the lengths {', '.join(map(str, lengths))}; expected some above 0 that fit a file"
                )
        kind = int(self._scalar("I", f"the format of {what}"))
        if kind not in self._numbers.formats:
            raise ModelError(f"{what} has the unknown format {kind}; expected one of the gguf package's")
        known = self._numbers.formats[kind]
        if lengths[0] % known[1]:
            raise ModelError(f"{what} has rows of {lengths[0]} in {known[0]}; expected a multiple of {known[1]}")
        return name, known, lengths[::-1], int(self._scalar("Q", f"the place of {what}"))

    def _placed(
        self, declared: list[tuple[str, tuple[str, int, int], tuple[int, ...], int]], start: int, alignment: int
    ) -> tuple[Entry, ...]:
        entries = []
        for name, (kind, values, nbytes), shape, offset in declared:
            if offset % alignment:
                raise ModelError(f"tensor {_shown(name)} lies at {offset}; expected a multiple of {alignment}")
            entry = Entry(name, kind, shape, shape[-1] // values * nbytes, start + offset)
            if entry.offset + entry.nbytes > self._end:
                raise ModelError(
                    f"tensor {_shown(name)} ends at byte {entry.offset + entry.nbytes} and the file at {self._end}; "
                    "expected a file with all of it"
                )
            entries.append(entry)
        inorder = sorted(entries, key=lambda entry: entry.offset)
        for one, other in pairwise(inorder):
            if one.offset + one.nbytes > other.offset:
                raise ModelError(f"tensors {_shown(one.name)} and {_shown(other.name)} overlap")
        return tuple(entries)

    def _alignment(self, metadata: dict[str, Value]) -> int:
        known: Any = optional("gguf").constants
        found = metadata.get("general.alignment", int(known.GGUF_DEFAULT_ALIGNMENT))
        if type(found) is not int or not 0 < found <= 1 << 31 or found & (found - 1):
            raise ModelError(f"key general.alignment is {shown(found, _NAME_SHOWN)}; expected a power of two")
        return found

    def _name(self, what: str, longest: int) -> str:
        name = self._string(what, longest)
        if not name:
            raise ModelError(f"{what} is empty; expected a name")
        return name

    def _string(self, what: str, longest: int) -> str:
        length = int(self._scalar("Q", f"the length of {what}"))
        if length > longest and longest < self._end - self._at:
            raise ModelError(f"{what} has {length} bytes; expected at most {longest}")
        at = self._taken(length, what)
        try:
            return bytes(self._data[at : at + length]).decode()
        except UnicodeDecodeError:
            raise ModelError(f"{what} is no UTF-8") from None

    def _scalar(self, letter: str, what: str) -> Any:
        return struct.unpack_from(f"<{letter}", self._data, self._taken(struct.calcsize(f"<{letter}"), what))[0]

    def _taken(self, nbytes: int, what: str) -> int:
        """Where the next bytes begin, which are then behind. Raises ModelError where the file ends before."""
        if nbytes > self._end - self._at:
            self._truncated(what)
        at = self._at
        self._at += nbytes
        return at

    def _truncated(self, what: str) -> NoReturn:
        raise ModelError(f"the file ends at byte {self._end}, within {what}; expected a whole GGUF file")


def _shown(name: str) -> str:
    # Cut after it is escaped: an escape has six letters.
    text = shown(name)
    return text if len(text) <= _NAME_SHOWN else f"{text[:_NAME_SHOWN]}..."
