"""Stand-ins for the kernels of dense products: the model in their place, with faults to order. Nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from strata.executors.base import Executor, Kernel
from strata.kernels.paths import Path
from validation.core.outcome import Outcome
from validation.core.stub_executor import BLOCK as THREADS
from validation.core.stub_executor import ENTRY, witness
from validation.operations.linear import model, units
from validation.operations.linear.inputs import Inputs
from validation.operations.linear.kernels import UNITS, Multiplier


class Asked(NamedTuple):
    """What a run is of.

    Parameters
    ----------
    inputs
        As they were handed over.
    cut
        Where it is cut in two launches, None where it is one.
    run
        Which run of its kernels it is, from 1 on.
    """

    inputs: Inputs
    cut: int | None
    run: int


#: Changes what a stand-in gives.
Fault = Callable[[Outcome, Asked], Outcome]


def due(executor: Executor, given: Inputs) -> Outcome:
    """What a right kernel gives."""
    bits = model.bits(given.mode, given.matrix, given.x)
    ran = [witness(executor, (1, 1, 1))]
    if bits.codes is None:
        return Outcome({"out": bits.out}, ran, True)
    return Outcome({"out": bits.out, UNITS: units.packed(bits.codes)}, ran, True, {"lost": bits.codes.lost})


def multiplier(fault: Fault | None = None) -> Multiplier:
    """A stand-in. fault: of its result."""
    runs = 0

    def parts(executor: Executor, path: Path, given: Inputs, cut: int | None) -> Outcome:
        nonlocal runs
        runs += 1
        made = due(executor, given)
        return made if fault is None else fault(made, Asked(given, cut, runs))

    def run(executor: Executor, path: Path, given: Inputs) -> Outcome:
        return parts(executor, path, given, None)

    kernel = Kernel(ENTRY, ENTRY, THREADS)
    return Multiplier(run, parts, lambda path: [kernel], lambda path, rows: [kernel])
