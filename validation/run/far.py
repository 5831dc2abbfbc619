"""Whether kernels count and address beyond 16, 31 and 32 bits, on lanes, with buffers that nobody has to fill.

A case of a recipe that is marked `far` is run once more with its data at the far end of buffers of up to 2^31 rows, and
must give the bits that it gave at the near end. No card has memory for it, so only lanes are asked.
"""

from __future__ import annotations

from strata.executors.base import Executor, LaunchError
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import Path
from validation.core.case import AnyCase
from validation.core.far_checks import Part
from validation.core.operation import Operation
from validation.core.verdict import Check, Verdict


def asks(operation: Operation, case: AnyCase, executor: Executor) -> bool:
    """Whether a case of an operation on an executor is asked far checks."""
    lanes = isinstance(executor, LanesExecutor) and executor.flavor != "sanitize"
    return lanes and operation.recipe(case.recipe).far


def checks(operation: Operation, case: AnyCase, path: Path, executor: Executor) -> list[Check]:
    """The far checks of a case that is asked them. Raises StrataError for an operation that has none."""
    assert isinstance(executor, LanesExecutor)
    return [_asked(part) for part in operation.far(case, path, executor)]


def _asked(part: Part) -> Check:
    """A kernel that leaves its buffers is a verdict on it; what cannot run at all is none."""
    try:
        return part.ask()
    except LaunchError as error:
        return Check(part.name, Verdict.EXCEEDS, str(error))
