"""A kernel that the author compiles by CuPy: `RawKernel` or `RawModule`, on a card alone.

Its buffers are this project's own: outputs begin poisoned, guards stand around every array, inputs are compared byte
for byte afterwards, the run is repeated, permuted and cut, and its numbers are held against reference and bound.

What is **not** proved, so that such a case is never EXACT and its report says "launch not attested":

- which source and options the image was compiled from: CuPy compiles it, and nothing here reads the result;
- that the function ran on the grid it was asked for: no witness is read from the loaded image;
- races, ranges and reads of what nobody wrote: lanes do not run such a kernel;
- bits: there is no prediction to compare them with;
- subnormal numbers: CuPy compiles with -ftz=true, behind any option, so they are zeros to such a kernel.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from strata.executors.base import (
    POISON_OUTPUT,
    Argument,
    Buffer,
    Executor,
    ExecutorUnavailable,
    Image,
    Kernel,
    LaunchError,
    StrataError,
    Witness,
)
from strata.imports import optional, said
from validation.check.author import called
from validation.check.load import Loaded
from validation.check.refusal import refuse

#: Recipes that such a kernel is not asked: CuPy compiles every one with -ftz=true, behind whatever options its author
#: gives, so subnormal numbers are zeros to it.
LEFT_OUT = ("subnormals",)
FLUSHES = f"CuPy compiles with -ftz=true, so recipe {LEFT_OUT[0]} is left out"
#: What the report says of every such run.
NOT_ATTESTED = "launch not attested: CuPy compiled and launched it, so no case is EXACT"


class RawExecutor:
    """A card whose kernels are one author's, compiled by CuPy.

    Parameters
    ----------
    card : Executor
        The card, which makes the buffers.
    loaded : Loaded
        The author's kernel.
    """

    name = "cuda"

    def __init__(self, card: Executor, loaded: Loaded) -> None:
        self._card, self._loaded = card, loaded
        self.arch, self.capability = card.arch, card.capability
        self._functions: dict[str, Any] = {}

    def build(self, kernel: Kernel) -> Image:
        """What is known of the image: its name. Raises AuthorError when CuPy does not compile it."""
        self._function(kernel.entry)
        digest = hashlib.sha256(kernel.entry.encode()).hexdigest()
        return Image(kernel, self.arch, digest, (), "cupy", {})

    def array(self, host: np.ndarray, name: str = "", *, written: bool = False) -> Buffer:
        return self._card.array(host, name, written=written)

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = POISON_OUTPUT, name: str = "") -> Buffer:
        return self._card.empty(shape, dtype, poison=poison, name=name)

    def launch(
        self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument], reached: Sequence[Buffer] = ()
    ) -> Witness:
        """Launch the author's function and wait for it. Raises LaunchError when the card faults; the witness says what
        was asked for and not what ran."""
        function = self._function(kernel.entry)
        values = tuple(_value(argument) for argument in args)
        try:
            function(grid, (kernel.block, 1, 1), values, shared_mem=kernel.shared_bytes)
            optional("cupy").cuda.runtime.deviceSynchronize()
        except (KeyboardInterrupt, GeneratorExit, MemoryError):
            raise
        except Exception as error:  # CuPy's own kinds of errors, of its driver or of its compiler
            raise LaunchError(f"{kernel.entry}: {said(error)}") from error
        shape = (grid, kernel.block, kernel.shared_bytes, math.prod(grid))
        return Witness(self.name, kernel.entry, self.arch, "", *shape)

    def describe(self) -> dict[str, Any]:
        """The card, and that the launch is not attested."""
        return {**self._card.describe(), "attested": False}

    def _function(self, entry: str) -> Any:
        if entry not in self._functions:
            loaded = self._loaded
            self._functions[entry] = called(loaded.file, f"raw of {loaded.kernel.name}", self._made, entry)
        return self._functions[entry]

    def _made(self, entry: str) -> Any:
        make = self._loaded.kernel.raw
        if make is None:
            raise StrataError(f"{self._loaded.kernel.name} has no kernel of CuPy")
        made = make(optional("cupy"))
        if hasattr(made, "get_function"):
            return made.get_function(entry)
        if not callable(made) or not hasattr(made, "compile"):
            raise refuse("raw", type(made).__name__, "a cupy.RawKernel or cupy.RawModule")
        made.compile()
        return made


def opener(loaded: Loaded, open: Callable[..., Executor]) -> Callable[..., Executor]:
    """What opens executors for a kernel of CuPy, as `open` does: cards alone.

    It raises ExecutorUnavailable for lanes, and where there is no card.
    """
    said = f"{loaded.kernel.name} is a kernel of CuPy, which runs on a card alone"

    def opened(name: str, **options: Any) -> Executor:
        if name == "lanes":
            raise ExecutorUnavailable(f"{said}, expected --executor cuda")
        try:
            return RawExecutor(open("cuda", **options), loaded)
        except ExecutorUnavailable as error:
            # That lanes would do is said of kernels that they can run.
            reason = str(error).partition("; the lanes executor")[0]
            raise ExecutorUnavailable(f"{said}: {reason}") from error

    return opened


def _value(argument: Argument) -> np.generic:
    if argument is None:
        return np.uint64(0)
    if isinstance(argument, np.generic):
        return argument.view(np.uint16) if argument.dtype == np.float16 else argument
    return np.uint64(argument.address)
