"""What the author's kernel reads and writes: arrays by name, with the values that its inputs may hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from validation.check.refusal import callable_, refuse, whole
from validation.check.sizes import Axis, Sizes
from validation.core.random_streams import Stream

#: Types that a kernel's arrays may have: float ones, and integers.
FLOATS = ("float16", "float32")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
#: Which signs the values of a float input may have, and the signs themselves.
SIGNS: dict[str, tuple[int, ...]] = {"any": (1, -1), "positive": (1,), "negative": (-1,)}
#: By how many powers of two the common offset of a row is at most larger than its spread: half of a type's bits.
SHIFT = {"float16": 5, "float32": 12}
#: Exponents of the values of an input for which the author gives none: wide, and far from what overflows a square.
WITHIN = {"float16": (-6, 6), "float32": (-20, 20)}
#: The exponents that a type has: of its smallest normal number, and one above that of its largest.
EXPONENTS = {"float16": (-14, 16), "float32": (-126, 128)}
_BITS = {"float16": 11, "float32": 24}
_SHOWN = {"any": "+-", "positive": "", "negative": "-"}


def _dtype(what: str, value: Any, allowed: Sequence[str]) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.dtype(value)
    except TypeError:
        raise refuse(what, value, f"one of {', '.join(allowed)}") from None
    if dtype.name not in allowed:
        raise refuse(what, value, f"one of {', '.join(allowed)}")
    return dtype


def _axes(what: str, value: Any) -> tuple[Axis, ...]:
    if isinstance(value, str | int):
        value = (value,)
    try:
        axes = tuple(value)
    except TypeError:
        raise refuse(what, value, "a tuple of axes") from None
    if not axes:
        raise refuse(what, value, "at least one axis")
    for axis in axes:
        named = isinstance(axis, str) and axis.isidentifier()
        if not (named or callable(axis) or (isinstance(axis, int) and not isinstance(axis, bool) and axis >= 1)):
            raise refuse(what, axis, "names of sizes, whole numbers of at least 1 or functions of the sizes")
    return axes


@dataclass(frozen=True)
class Values:
    """An input whose values the toolkit makes: every recipe fills it in its own way.

    Parameters
    ----------
    dtype : str or NumPy dtype
        ``float16``, ``float32`` or an integer type.
    axes : sequence
        The shape: names of sizes, whole numbers, or functions of the sizes. The last axis is the fastest.
    within : (int, int), optional
        Of float inputs: exponents (low, high). Values have magnitudes from ``2**low`` up to ``2**high``, zeros aside.
        This is the domain for which the kernel is promised to be right. Default: (-20, 20) for ``float32``, (-6, 6)
        for ``float16``. Subnormals, NaN and infinities come from recipes of their own, which can be left out.
    sign : str
        Of float inputs: ``"any"``, ``"positive"`` or ``"negative"``. With ``"any"`` there are also rows, and whole
        arrays, of one sign.
    shift : int, optional
        Of float inputs: how much larger than its spread the common offset of a row may be, ``2**shift`` at most.
        Default: 12 for ``float32``, 5 for ``float16``. With 0 no row has an offset: say so where the kernel is not
        meant for such rows.
    low, high : int, optional
        Of integer inputs: the range, both ends included. Default: all values of the type.

    Raises
    ------
    StrataError
        For a type, an axis, a range, exponents, a sign or a shift that cannot be.
    """

    dtype: Any
    axes: Sequence[Axis]
    within: tuple[int, int] | None = None
    sign: str = "any"
    shift: int | None = None
    low: int | None = None
    high: int | None = None

    def __post_init__(self) -> None:
        dtype = _dtype("Values.dtype", self.dtype, (*FLOATS, *INTEGERS))
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "axes", _axes("Values.axes", self.axes))
        if dtype.kind == "f":
            self._float(dtype)
        else:
            self._integer(dtype)

    def _float(self, dtype: np.dtype[Any]) -> None:
        if self.low is not None or self.high is not None:
            raise refuse("Values.low, high", (self.low, self.high), f"none for {dtype.name}, which has `within`")
        within = WITHIN[dtype.name] if self.within is None else self.within
        least, most = EXPONENTS[dtype.name]
        two = isinstance(within, tuple | list) and len(within) == 2 and all(type(one) is int for one in within)
        if not two or not least <= within[0] < within[1] <= most:
            raise refuse("Values.within", within, f"two exponents, the lower one first, of {least} to {most}")
        object.__setattr__(self, "within", (within[0], within[1]))
        if self.sign not in SIGNS:
            raise refuse("Values.sign", self.sign, f"one of {', '.join(SIGNS)}")
        shift = SHIFT[dtype.name] if self.shift is None else self.shift
        object.__setattr__(self, "shift", whole("Values.shift", shift, 0, _BITS[dtype.name] - 2))

    def _integer(self, dtype: np.dtype[Any]) -> None:
        if self.within is not None or self.sign != "any" or self.shift is not None:
            given = f"within={self.within}, sign={self.sign!r}, shift={self.shift}"
            raise refuse("Values", given, f"`low` and `high` for {dtype.name}")
        info = np.iinfo(dtype)
        low, high = (
            (int(info.min) if self.low is None else self.low),
            (int(info.max) if self.high is None else self.high),
        )
        if type(low) is not int or type(high) is not int or not info.min <= low <= high <= info.max:
            raise refuse("Values.low, high", (low, high), f"a range within that of {dtype.name}, the lower end first")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def floating(self) -> bool:
        """Whether the values are floating-point numbers."""
        return bool(self.dtype.kind == "f")

    @property
    def exponents(self) -> tuple[int, int]:
        """`within` of a float input."""
        assert self.within is not None
        return self.within

    @property
    def offset(self) -> int:
        """`shift` of a float input; 0 of an integer one."""
        return self.shift or 0

    @property
    def both_signs(self) -> bool:
        """Whether there may be values above zero and below it."""
        if self.floating:
            return self.sign == "any"
        low, high = self.range
        return low < 0 < high

    @property
    def zero(self) -> float:
        """The zero of a float input whose sign it may have: with a minus where no value is positive."""
        return -0.0 if self.sign == "negative" else 0.0

    @property
    def range(self) -> tuple[int, int]:
        """`low` and `high` of an integer input."""
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    @property
    def domain(self) -> str:
        """The domain in words, for the report."""
        if not self.floating:
            return "{}..{}".format(*self.range)
        low, high = self.exponents
        shift = "" if self.shift == SHIFT[self.dtype.name] else f", shift {self.shift}"
        return f"{_SHOWN[self.sign]}2^{low}..2^{high}{shift}"


@dataclass(frozen=True)
class Drawn:
    """An input that the author makes himself: indices, packed blocks, tables of offsets.

    Parameters
    ----------
    dtype : str or NumPy dtype
        ``float16``, ``float32`` or an integer type.
    axes : sequence
        The shape, as of `Values`.
    make : function of (stream, sizes)
        Gives the array. stream: a `validation.check.Stream`, which every recipe and seed has another one of. Make the
        values by integer and exact operations only, so that they are the same bytes on every machine.

    Raises
    ------
    StrataError
        For a type or an axis that cannot be, and for `make` that is no function.
    """

    dtype: Any
    axes: Sequence[Axis]
    make: Callable[[Stream, Sizes], np.ndarray] = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _dtype("Drawn.dtype", self.dtype, (*FLOATS, *INTEGERS)))
        object.__setattr__(self, "axes", _axes("Drawn.axes", self.axes))
        callable_("Drawn.make", self.make, "a stream and the sizes")

    @property
    def domain(self) -> str:
        """The domain in words, for the report."""
        return "drawn by its author"


@dataclass(frozen=True)
class Output:
    """An array that the kernel writes.

    Parameters
    ----------
    dtype : str or NumPy dtype
        A float output must lie within the bound of the reference; an integer output must equal it.
    axes : sequence
        The shape, as of `Values`.
    start : str, optional
        What it holds before the launch: nothing (the default; it is filled with a poison that must be gone
        afterwards), ``"zeros"``, or the name of an input, which the kernel then replaces in place.

    Raises
    ------
    StrataError
        For a type, an axis or a start that cannot be. ``float64`` cannot: an FP64 reference cannot judge it.
    """

    dtype: Any
    axes: Sequence[Axis]
    start: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _dtype("Output.dtype", self.dtype, (*FLOATS, *INTEGERS)))
        object.__setattr__(self, "axes", _axes("Output.axes", self.axes))
        if self.start is not None and (not isinstance(self.start, str) or not self.start):
            raise refuse("Output.start", self.start, "None, 'zeros' or the name of an input")

    @property
    def floating(self) -> bool:
        """Whether the values are floating-point numbers."""
        return bool(self.dtype.kind == "f")


@dataclass(frozen=True)
class Workspace:
    """Memory that the kernel writes and reads and nobody looks at afterwards.

    Parameters
    ----------
    dtype : str or NumPy dtype
        Any type of an array.
    axes : sequence
        The shape, as of `Values`. It begins with a poison, a NaN, and in a second run with another: what is read before
        it is written shows where the kernel lets a NaN through, and not behind a comparison.
    """

    dtype: Any
    axes: Sequence[Axis]

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _dtype("Workspace.dtype", self.dtype, (*FLOATS, *INTEGERS)))
        object.__setattr__(self, "axes", _axes("Workspace.axes", self.axes))
