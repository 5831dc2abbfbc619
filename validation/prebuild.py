"""Compiles the kernels of planned jobs ahead of them, on all cores: on lanes a build takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType

from strata.executors.base import Executor, Kernel, StrataError
from strata.kernels.paths import PATHS
from validation.operations import ATTENTION
from validation.runner import Job, Station
from validation.stations import Stations


def kernels_of(job: Job) -> Iterator[Kernel]:
    """What a job on an attention path launches, its baseline's kernels last."""
    for path in (job.path, PATHS.get(job.path.baseline or "")):
        operation = ATTENTION.get(path.operation) if path else None
        if path and operation and operation.kernels:
            yield from operation.kernels(path, job.case.group)


class Prebuild:
    """Builds in the background, in the order of the jobs; use as a context manager."""

    def __init__(self, jobs: Sequence[Job], stations: Stations) -> None:
        self._pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
        self._building: dict[tuple[str, Kernel], Future[object]] = {}
        if not stations.lanes:
            return
        for job in jobs:
            station = stations.of(job, ())
            with suppress(StrataError):  # an unknown geometry is said by its case
                for kernel in kernels_of(job):
                    self._submit(job, station.executor, kernel)

    def _submit(self, job: Job, executor: Executor, kernel: Kernel) -> None:
        key = (job.flavor, kernel)
        if key not in self._building:
            self._building[key] = self._pool.submit(executor.build, kernel)

    def wait(self, job: Job, station: Station) -> Station:
        """`station`, once the kernels of its job are built. A build that failed fails again in its case."""
        with suppress(StrataError):
            for kernel in kernels_of(job):
                future = self._building.get((job.flavor, kernel))
                if future is not None:
                    future.exception()
        return station

    def __enter__(self) -> Prebuild:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
