"""A parity run that ends in a record: `--record DIR`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from types import TracebackType
from typing import Any

from strata.executors.base import StrataError
from strata.gates import records
from strata.kernels.paths import Path
from validation.core.verdict import Verdict
from validation.operations import registry
from validation.record.evidence import Keeper
from validation.record.identify import identification
from validation.record.make import Plan, record, write
from validation.record.provenance import provenance
from validation.record.size import refuse_too_large
from validation.run.executors import ExecutorPool
from validation.run.runner import Job

#: The profile of a record when none is named.
PROFILE = "standard"
#: Where the record goes when no directory is named.
DIRECTORY = FilePath("parity")
#: Options that ask for other cases than a verifier can plan again from profile, seed and paths.
_OTHER_CASES = ("case", "recipe", "context", "queries", "capture")


def refuse_other_cases(options: argparse.Namespace) -> None:
    """Refuse options that do not go with --record.

    Parameters
    ----------
    options
        The options as they were typed.

    Raises
    ------
    StrataError
        For the first of them.
    """
    for name in _OTHER_CASES:
        value = getattr(options, name)
        if value is not None:
            raise StrataError(
                f"--record makes a record of a whole profile and the required sizes, expected without --{name} {value}"
            )


def refuse_other_paths(paths: Sequence[Path]) -> None:
    """Refuse paths that one record cannot be of.

    Parameters
    ----------
    paths
        The selected ones.

    Raises
    ------
    StrataError
        Unless all are of one operation that records are of.
    """
    recorded = registry.recorded()
    first = next((path.operation for path in paths if path.operation in recorded), recorded[0])
    for path in paths:
        if path.operation not in recorded:
            raise StrataError(
                f"--record is of {' or '.join(recorded)} paths and {path.name} is selected:"
                f" expected e.g. --paths '{first}/*'"
            )
        if path.operation != first:
            raise StrataError(f"--record is of one operation, and {first} and {path.operation} are selected")


def keep_here(made: Mapping[str, Any]) -> str:
    """Put a record where the gate of this machine looks for its own, and say so in a few words. A run that passed is
    not made to fail by it: where nothing can be written, the words say so."""
    folder = records.directory()
    if folder is None:
        return "not kept for this machine: no home directory is known"
    try:
        write(made, folder)
    except StrataError as error:
        return f"not kept for this machine: {error}"
    return "kept for this machine, `strata gate` shows what it opens here"


class Recording:
    """What makes a record of a run, inside whose `with` block cases run and `finish` is called.

    Parameters
    ----------
    directory
        Where the record is written.
    profile, seed
        The profile and the seed of the plan.
    paths
        The paths of the plan.
    jobs
        What is to run.
    executor_pool
        What runs it.

    Raises
    ------
    StrataError
        When its record would be too large, the directory cannot be written, or the tensor core cannot be asked who it
        is.
    """

    def __init__(
        self,
        directory: FilePath,
        profile: str,
        seed: int,
        paths: Sequence[Path],
        jobs: Sequence[Job],
        executor_pool: ExecutorPool,
    ) -> None:
        refuse_too_large(jobs)
        pairs = tuple((job.path.name, job.case.text()) for job in jobs)
        self.plan = Plan(profile, seed, tuple(path.name for path in paths), pairs)
        self.keeper = Keeper(directory)
        self._directory, self._executor_pool = directory, executor_pool
        self._identification: Mapping[str, Any] | None = None

    def finish(self, results: Sequence[Mapping[str, Any]], passed: bool, predicted: bool) -> str:
        """Write the record of a complete run.

        Parameters
        ----------
        results
            The results of the cases, in the order of the plan.
        passed
            Whether the run did.
        predicted
            Whether bits were compared on this card.

        Returns
        -------
        str
            A line that says where the record is and what it is worth.

        Raises
        ------
        StrataError
            When a case gave no output, or nothing can be written.
        """
        facts = provenance(self._executor_pool, predicted)
        made = record(self.plan, results, self.keeper.cases, facts, self._identification)
        said = f"record {write(made, self._directory)}"
        if not passed:
            if all(Verdict(result["verdict"]).passes for result in results):
                return f"{said}: every case passed, which is all that a record holds; what did not pass is above"
            return f"{said}: the run did not pass, so the verifier refuses it and the gate opens nothing by it"
        if self._executor_pool.lanes:
            return f"{said}: simulated on the CPU, which is evidence for no card"
        left = "" if predicted else "; its bits were not predicted here, which is left to the verifier"
        return f"{said}: {len(results)} cases{left}; {keep_here(made)}"

    def __enter__(self) -> Recording:
        with_keeper = self.keeper.__enter__()
        try:
            self._identification = identification(self._executor_pool.first, self._executor_pool.rule)
        except BaseException:
            with_keeper.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.keeper.__exit__(kind, value, trace)
