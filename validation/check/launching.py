"""Runs an author's kernel once, on copies, in poisoned memory between guards."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from strata.executors.base import POISON_OUTPUT, Argument, ArgumentsError, Buffer, Executor
from strata.executors.lanes.executor import HostBuffer
from validation.check.arrays import Output, Workspace
from validation.check.author import called, fault
from validation.check.load import Loaded
from validation.check.sizes import shape_of
from validation.core.handed import handed
from validation.core.outcome import Outcome

#: What outputs hold before a run, and before its repeat: every byte differs, so that one which was never written is
#: told from one that happens to equal its poison.
POISONS = (POISON_OUTPUT, POISON_OUTPUT ^ 0xFFFFFFFF)


def launch(
    executor: Executor,
    loaded: Loaded,
    sizes: Mapping[str, int],
    inputs: Mapping[str, np.ndarray],
    poison: int = POISONS[0],
) -> Outcome:
    """Launch the kernel for some sizes on some inputs.

    Parameters
    ----------
    executor : Executor
        Where it runs.
    loaded : Loaded
        The author's kernel.
    sizes : mapping
        Every size by name.
    inputs : mapping
        Every input by name; the kernel gets copies.
    poison : int
        The 32-bit pattern that outputs and workspaces hold before.

    Raises
    ------
    InputsChangedError
        When the kernel changed an input.
    LaunchError
        When it broke a rule of the machine.
    AuthorError
        For a fault in the author's `launch` or axes, and for arguments that the kernel does not take.
    """

    def run(executor: Executor, inputs: Mapping[str, np.ndarray]) -> Outcome:
        return _run(executor, loaded, sizes, inputs, poison)

    return handed(run)(executor, inputs)


def _run(
    executor: Executor, loaded: Loaded, sizes: Mapping[str, int], inputs: Mapping[str, np.ndarray], poison: int
) -> Outcome:
    kernel = loaded.kernel
    buffers: dict[str, Buffer] = {name: executor.array(array, name) for name, array in inputs.items()}
    written: dict[str, Output | Workspace] = {**kernel.outputs, **kernel.workspaces}
    for name, array in written.items():
        shape = called(loaded.file, f"the axes of {name}", shape_of, array.axes, sizes)
        start = array.start if isinstance(array, Output) else None
        if start is None:
            buffers[name] = executor.empty(shape, array.dtype, poison=poison, name=name)
        else:
            first = np.zeros(shape, array.dtype) if start == "zeros" else inputs[start]
            buffers[name] = executor.array(first, name, written=True)
        own = buffers[name]
        if isinstance(own, HostBuffer):
            own.watch(filled=start is not None)
    witnesses = []
    for image, launched in loaded.launches(sizes):
        values: list[Argument] = [buffers[value] if isinstance(value, str) else value for value in launched.arguments]
        try:
            witnesses.append(executor.launch(image, launched.grid, values))
        except ArgumentsError as error:
            raise fault(error, loaded.file, f"launch of {kernel.name}") from error
    intact = all(buffer.guards_intact() for buffer in buffers.values())
    return Outcome({name: buffers[name].host() for name in kernel.outputs}, tuple(witnesses), intact)


def stale(first: np.ndarray, again: np.ndarray) -> np.ndarray:
    """Which elements still hold the poison of a run and of its repeat, and so were never written.

    first, again: an output of two runs that began with the two `POISONS`. Gives a boolean array of their shape.
    """
    held = np.ones(first.shape, bool)
    for array, pattern in zip((first, again), POISONS, strict=True):
        words = np.full(-(-array.nbytes // 4), pattern, "<u4").view(np.uint8)[: array.nbytes]
        poison = words.view(f"u{array.itemsize}").reshape(array.shape)
        held &= np.ascontiguousarray(array).view(f"u{array.itemsize}").reshape(array.shape) == poison
    return held
