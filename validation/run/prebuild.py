"""Compiles the kernels of planned jobs for lanes ahead of them, on all cores: a build takes seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType

from strata.cpus import usable
from strata.executors.base import Executor, Kernel
from strata.forks import Home
from strata.kernels.paths import PATHS
from validation.core.operation import Operation
from validation.core.unknown_operation import UnknownOperationError
from validation.numerics.tensorcore_rules import DEFAULT_RULE
from validation.operations import registry
from validation.run.executors import ExecutorPool
from validation.run.runner import Executors, Job


def kernels_of(job: Job, operations: Mapping[str, Operation] | None = None) -> Iterator[Kernel]:
    """What a job launches, its baseline's kernels last. operations: by name, None for those that there are. Raises
    UnknownOperationError for a path of none of them."""
    known = registry.found() if operations is None else operations
    for path in (job.path, PATHS.get(job.path.baseline or "")):
        if path is None:
            continue
        if path.operation not in known:
            raise UnknownOperationError(path, "operation", known)
        yield from known[path.operation].kernels(path, job.case)


class Prebuild:
    """Builds in the background, in the order of the jobs; use as a context manager."""

    def __init__(
        self,
        jobs: Sequence[Job],
        executor_pool: ExecutorPool,
        predict: bool = False,
        operations: Mapping[str, Operation] | None = None,
    ) -> None:
        """predict: on a card, build what lanes need to predict the jobs' bits; operations: as of `kernels_of`."""
        self._operations = operations
        self._pool = ThreadPoolExecutor(max_workers=usable())
        self._home = Home()
        self._building: dict[tuple[str, Kernel], Future[object]] = {}
        self._lanes = executor_pool.lanes
        if not self._lanes and not predict:
            return
        for job in jobs:
            with suppress(Exception):  # said by its case, which asks the same again: an unknown geometry, say
                # What is compiled depends on no rule, so the predictions of all of them find it.
                executor = executor_pool.of(job, ()).executor if self._lanes else executor_pool.predictor(DEFAULT_RULE)
                for kernel in kernels_of(job, operations):
                    self._submit(self._key(job, kernel), executor, kernel)

    def _key(self, job: Job, kernel: Kernel) -> tuple[str, Kernel]:
        return (job.flavor if self._lanes else "predict", kernel)

    def _submit(self, key: tuple[str, Kernel], executor: Executor, kernel: Kernel) -> None:
        if key not in self._building:
            self._building[key] = self._pool.submit(executor.build, kernel)

    def wait(self, job: Job, executors: Executors) -> Executors:
        """`executors`, once the kernels of its job are built. A build that failed fails again in its case, and a forked
        child, which has none of the threads, builds in its cases."""
        if self._home.left:
            return executors
        with suppress(Exception):
            for kernel in kernels_of(job, self._operations):
                future = self._building.get(self._key(job, kernel))
                if future is not None:
                    future.exception()
        return executors

    def __enter__(self) -> Prebuild:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
