"""The author's description of a kernel: what it reads, writes and computes, and how far it may be off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import numpy as np

from validation.check import recipes
from validation.check.arrays import Drawn, Output, Values, Workspace
from validation.check.refusal import callable_, name, refuse, text, whole
from validation.check.resources import MOST_BLOCKS, MOST_SHARED, MOST_THREADS
from validation.check.roundings import Arrays, Inputs, Roundings
from validation.check.sizes import Size, Sizes

#: Names that mean something else in the text of a case.
_RESERVED = ("recipe", "seed")


@dataclass(frozen=True)
class Launch:
    """One launch of the kernel.

    Parameters
    ----------
    grid : (int, int, int)
        Blocks.
    arguments : sequence
        What the kernel takes, in order: names of inputs, outputs and workspaces, NumPy scalars such as
        ``np.int32(width)``, or None for a NULL pointer.
    entry : str, optional
        The ``extern "C"`` function, where the source has several; by default that of the `OwnKernel`.
    block, shared_bytes : int, optional
        Threads of a block and bytes of dynamic shared memory; by default those of the `OwnKernel`.

    Raises
    ------
    StrataError
        For a grid or an argument that cannot be, a plain Python number among them: its type would be a guess.
    """

    grid: tuple[int, int, int]
    arguments: Sequence[Any]
    entry: str | None = None
    block: int | None = None
    shared_bytes: int | None = None

    def __post_init__(self) -> None:
        try:
            grid = tuple(self.grid)
        except TypeError:
            grid = ()
        if len(grid) != 3:
            raise refuse("Launch.grid", self.grid, "three numbers of blocks")
        made = [whole(f"Launch.grid[{axis}]", blocks, 1, MOST_BLOCKS[axis]) for axis, blocks in enumerate(grid)]
        object.__setattr__(self, "grid", tuple(made))
        if isinstance(self.arguments, str) or not isinstance(self.arguments, Sequence):
            raise refuse("Launch.arguments", self.arguments, "a tuple of names, NumPy scalars and None")
        for index, value in enumerate(self.arguments):
            if not (value is None or isinstance(value, str | np.generic)):
                expected = "a name, None or a NumPy scalar such as np.int32(3)"
                raise refuse(f"Launch.arguments[{index}]", value, expected)
        object.__setattr__(self, "arguments", tuple(self.arguments))
        if self.entry is not None:
            name("Launch.entry", self.entry)
        if self.block is not None:
            whole("Launch.block", self.block, 1, MOST_THREADS)
        if self.shared_bytes is not None:
            whole("Launch.shared_bytes", self.shared_bytes, 0, MOST_SHARED)


#: A function of (inputs, reference, sizes) that gives the bound of every float output.
Bound = Roundings | Mapping[str, Roundings] | Callable[[Inputs, Arrays, Sizes], Any]


@dataclass(frozen=True)
class OwnKernel:
    """A kernel of the author's own, with all that is needed to check it.

    Parameters
    ----------
    name : str
        What it is called in the report and on the command line.
    source : str, optional
        The ``.cu`` file, relative to the file that defines this object, in the vocabulary of
        ``include/vocabulary.cuh``. Exactly one of `source` and `raw` is given.
    raw : function of cupy, optional
        Gives a ``cupy.RawKernel`` or ``cupy.RawModule``. Such a kernel runs on a card alone, and its launch is not
        attested: see `validation.check.raw`.
    entry : str, optional
        The ``extern "C" __global__`` function; by default `name`.
    block : int
        Threads of a block, of one dimension.
    shared_bytes : int
        Bytes of dynamic shared memory.
    defines : mapping
        Macros for the compiler, names to whole numbers.
    sizes : mapping of str to Size
        Every size by a name of the author's own.
    inputs : mapping of str to Values or Drawn
        What the kernel reads.
    outputs : mapping of str to Output
        What it writes and is judged by.
    workspaces : mapping of str to Workspace
        What it writes for itself.
    launch : function of sizes
        Gives a `Launch`, or several in order.
    reference : function of (inputs, sizes)
        Gives the outputs by name, or the array itself where there is one output: float64 for a float output, the
        output's own type for an integer one. Write it from the mathematics and not from the kernel. inputs: by name,
        float ones as float64, which is exact; they cannot be written to.
    bound : Roundings, mapping of outputs to Roundings, or function of (inputs, reference, sizes)
        The largest error that each float output may have. A function gives float64 arrays by name, or the array
        itself where there is one float output.
    independent : str or sequence of str, optional
        Sizes whose items know nothing of each other, such as rows or tokens: permuted, the outputs must be permuted
        bit for bit, and in two parts the parts must be those of the whole.
    exact : function of (inputs, sizes), optional
        A model of the kernel's every bit, which gives the outputs in their own types from inputs in theirs. Where all
        bits agree, a case is EXACT.
    without : mapping of str to str
        Recipes to leave out, each with a reason, which the report prints.

    Raises
    ------
    StrataError
        For anything that cannot be, in one line.
    """

    name: str
    launch: Callable[[Sizes], Any] = field(repr=False)
    sizes: Mapping[str, Size]
    inputs: Mapping[str, Values | Drawn]
    outputs: Mapping[str, Output]
    reference: Callable[[Inputs, Sizes], Any] = field(repr=False)
    bound: Bound | None = field(default=None, repr=False)
    source: str | None = None
    raw: Callable[[Any], Any] | None = field(default=None, repr=False)
    entry: str | None = None
    block: int = 128
    shared_bytes: int = 0
    defines: Mapping[str, int] = field(default_factory=dict)
    workspaces: Mapping[str, Workspace] = field(default_factory=dict)
    independent: str | Sequence[str] = ()
    exact: Callable[[Inputs, Sizes], Any] | None = field(default=None, repr=False)
    without: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        name("OwnKernel.name", self.name)
        object.__setattr__(self, "entry", name("OwnKernel.entry", self.name if self.entry is None else self.entry))
        whole("OwnKernel.block", self.block, 1, MOST_THREADS)
        whole("OwnKernel.shared_bytes", self.shared_bytes, 0, MOST_SHARED)
        self._code()
        self._tables()
        self._functions()
        self._independent()
        for recipe, reason in self.without.items():
            recipes.find(recipe)
            text(f"OwnKernel.without[{recipe!r}], the reason,", reason)

    def _code(self) -> None:
        if (self.source is None) == (self.raw is None):
            raise refuse("OwnKernel.source, raw", (self.source, self.raw), "exactly one of them")
        if self.raw is not None:
            callable_("OwnKernel.raw", self.raw, "the module cupy")
        elif not isinstance(self.source, str) or not self.source.endswith(".cu") or self.source == ".cu":
            raise refuse("OwnKernel.source", self.source, "the name of a .cu file")
        elif PurePosixPath(self.source).is_absolute():
            raise refuse("OwnKernel.source", self.source, "a file relative to the one that defines the kernel")

    def _tables(self) -> None:
        kinds: dict[str, tuple[type, ...]] = {
            "sizes": (Size,),
            "inputs": (Values, Drawn),
            "outputs": (Output,),
            "workspaces": (Workspace,),
            "defines": (int,),
            "without": (str,),
        }
        for table, types in kinds.items():
            given = getattr(self, table)
            if not isinstance(given, Mapping):
                raise refuse(f"OwnKernel.{table}", given, "a mapping by name")
            for key, value in given.items():
                name(f"OwnKernel.{table}, a name,", key)
                if not isinstance(value, types) or isinstance(value, bool):
                    expected = " or ".join(one.__name__ for one in types)
                    raise refuse(f"OwnKernel.{table}[{key!r}]", value, f"{expected}")
            object.__setattr__(self, table, MappingProxyType(dict(given)))
        for table in ("sizes", "outputs"):
            if not getattr(self, table):
                raise refuse(f"OwnKernel.{table}", {}, "at least one")
        for key in self.sizes:
            if key in _RESERVED:
                raise refuse("OwnKernel.sizes, a name,", key, f"another one: a case's text has {key}= already")
        self._arrays()

    def _arrays(self) -> None:
        seen: set[str] = set()
        for table in ("inputs", "outputs", "workspaces"):
            for key, array in getattr(self, table).items():
                if key in seen:
                    raise refuse(f"OwnKernel.{table}, a name,", key, "one that no other array has")
                seen.add(key)
                for axis in array.axes:
                    if isinstance(axis, str) and axis not in self.sizes:
                        expected = f"a size: {', '.join(self.sizes)}"
                        raise refuse(f"OwnKernel.{table}[{key!r}], an axis,", axis, expected)
        for key, output in self.outputs.items():
            if output.start in (None, "zeros"):
                continue
            start = self.inputs.get(str(output.start))
            if start is None:
                inputs = ", ".join(self.inputs)
                raise refuse(f"OwnKernel.outputs[{key!r}].start", output.start, f"'zeros' or an input: {inputs}")
            if start.dtype != output.dtype or tuple(start.axes) != tuple(output.axes):
                raise refuse(f"OwnKernel.outputs[{key!r}].start", output.start, "an input of its type and axes")

    def _functions(self) -> None:
        callable_("OwnKernel.launch", self.launch, "sizes")
        callable_("OwnKernel.reference", self.reference, "inputs and sizes")
        if self.exact is not None:
            callable_("OwnKernel.exact", self.exact, "inputs and sizes")
        floats = [key for key, output in self.outputs.items() if output.floating]
        if isinstance(self.bound, Mapping):
            object.__setattr__(self, "bound", MappingProxyType(dict(self.bound)))
            assert isinstance(self.bound, Mapping)
            for key, value in self.bound.items():
                if not isinstance(value, Roundings):
                    raise refuse(f"OwnKernel.bound[{key!r}]", value, "Roundings")
            if set(self.bound) != set(floats):
                raise refuse("OwnKernel.bound", list(self.bound), f"one for each float output: {', '.join(floats)}")
        elif self.bound is None:
            if floats:
                raise refuse("OwnKernel.bound", None, f"a bound for {', '.join(floats)}")
        elif not isinstance(self.bound, Roundings):
            callable_("OwnKernel.bound", self.bound, "inputs, reference and sizes, or Roundings")

    def _independent(self) -> None:
        given = (self.independent,) if isinstance(self.independent, str) else self.independent
        if not isinstance(given, Sequence):
            raise refuse("OwnKernel.independent", given, "the name of a size, or several")
        object.__setattr__(self, "independent", tuple(given))
        for axis in self.apart:
            if axis not in self.sizes:
                raise refuse("OwnKernel.independent", axis, f"a size: {', '.join(self.sizes)}")
            for key, output in self.outputs.items():
                if axis not in output.axes:
                    raise refuse("OwnKernel.independent", axis, f"an axis of every output, and {key!r} has none of it")

    @property
    def apart(self) -> tuple[str, ...]:
        """The names of the independent sizes."""
        assert isinstance(self.independent, tuple)
        return self.independent
