"""Where an author's cases run: lanes by build and schedule, or one card; each executor is opened once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from strata.executors import open_executor
from strata.executors.base import BuildError, Executor, ExecutorUnavailable
from validation.check.load import Loaded
from validation.check.plan import Job
from validation.check.raw import RawExecutor
from validation.check.runner import Where
from validation.numerics.tensorcore_rules import DEFAULT_RULE

Open = Callable[..., Executor]


@dataclass
class Places:
    """The executors of one run.

    Parameters
    ----------
    loaded : Loaded
        The kernel that runs.
    name : str
        ``auto``, ``lanes`` or ``cuda``.
    rule, target : str
        The tensor core's rule of lanes; the image of a card, None for its own.
    flavor, schedule
        Given for every job on the command line; None takes the job's own.
    predict : bool
        Whether a card's bits are compared with those of lanes.
    open : function
        Opens an executor, as `strata.executors.open_executor` does.

    Raises
    ------
    ExecutorUnavailable
        When there is no such executor here, and for a kernel of CuPy where there is no card.
    """

    loaded: Loaded
    name: str
    rule: str = DEFAULT_RULE
    target: str | None = None
    flavor: str | None = None
    schedule: int | None = None
    predict: bool = True
    open: Open = open_executor
    _opened: dict[tuple[Any, ...], Executor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.loaded.kernel.raw is None:
            self.first = self._executor(self.name, self.rule, self.flavor or "checked", self.schedule)
            return
        said = f"{self.loaded.kernel.name} is a kernel of CuPy, which runs on a card alone"
        if self.name == "lanes":
            raise ExecutorUnavailable(f"{said}, expected --executor cuda")
        try:
            card = self.open("cuda", rule=self.rule, flavor="fast", seed=None, target=self.target)
        except ExecutorUnavailable as error:
            raise ExecutorUnavailable(f"{said}: {error}") from error
        self.first = RawExecutor(card, self.loaded)

    @property
    def lanes(self) -> bool:
        """Whether the kernel runs on lanes."""
        return self.first.name == "lanes"

    @property
    def predicts(self) -> bool:
        """Whether a card's bits are compared with lanes: a compiler is there, and lanes run such a kernel."""
        if self.lanes or not self.predict or self.loaded.kernel.raw is not None:
            return False
        try:
            self.predictor(DEFAULT_RULE)
        except ExecutorUnavailable:
            return False
        return True

    def predictor(self, rule: str) -> Executor:
        """Lanes under a rule. Raises ExecutorUnavailable without a compiler."""
        return self._executor("lanes", rule, "fast", None)

    def of(self, job: Job) -> Where:
        """Where a job runs."""
        words = ["python", "-m", "validation", "check", self.loaded.reference, "--executor", self.first.name]
        if not self.lanes:
            words += ["--target", self.target] if self.target else []
            return Where(self.first, None, shlex.join(words), self.predictor if self.predicts else None)
        flavor = self.flavor or job.flavor
        seed = job.schedule if self.schedule is None else self.schedule
        words += ["--rule", self.rule] if self.loaded.tensor_cores else []
        words += ["--flavor", flavor]
        words += [] if seed is None else ["--schedule-seed", str(seed)]
        executor = self._executor("lanes", self.rule, flavor, seed)
        twin = self._executor("lanes", self.rule, flavor, (seed or 0) + 1)
        return Where(executor, twin, shlex.join(words))

    def build(self, jobs: Sequence[Job], sizes: Sequence[dict[str, int]]) -> None:
        """Compile what the jobs launch, all of it at once.

        Raises
        ------
        BuildError
            With the compiler's first complaint, when the source is wrong.
        """
        if self.loaded.kernel.raw is not None:
            return
        kernels = {image: None for own in sizes for image, _ in self.loaded.launches(own)}
        executors: dict[int, Executor] = {}
        for job in jobs:
            where = self.of(job)
            executors[id(where.executor)] = where.executor
        if self.predicts:
            one = self.predictor(DEFAULT_RULE)
            executors[id(one)] = one
        _built([(executor, kernel) for executor in executors.values() for kernel in kernels])

    def _executor(self, name: str, rule: str, flavor: str, seed: int | None) -> Executor:
        key = (name, rule, flavor, seed)
        if key not in self._opened:
            self._opened[key] = self.open(name, rule=rule, flavor=flavor, seed=seed, target=self.target)
        return self._opened[key]


def _built(wanted: Sequence[tuple[Executor, Any]]) -> None:
    """Build once for each flavor. Raises the first BuildError."""
    from concurrent.futures import ThreadPoolExecutor

    from strata.cpus import usable

    once = {(executor.name, getattr(executor, "flavor", ""), kernel): executor for executor, kernel in wanted}
    with ThreadPoolExecutor(max_workers=usable()) as pool:
        futures = [pool.submit(executor.build, key[-1]) for key, executor in once.items()]
    for future in futures:
        error = future.exception()
        if isinstance(error, BuildError):
            raise error
        future.result()
