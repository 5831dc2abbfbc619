"""Opens the executors that a run needs, each once: by flavor and schedule on lanes, one card on cuda."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from strata.executors import open_executor
from strata.executors.base import Executor, ExecutorUnavailable
from validation.numerics.tensorcore_rules import DEFAULT_RULE
from validation.run.runner import Executors, Job

Open = Callable[..., Executor]


@dataclass
class ExecutorPool:
    """name: executor asked for (`auto`, `lanes`, `cuda`); rule, target: its options; flavor and
    schedule: given for every job on the command line, None to take the job's own; command: what chooses the same run
    again, behind `python -m validation`; usual: the build of the first executor; says_rule: whether a rerun needs the
    rule, as kernels of tensor cores do."""

    name: str
    rule: str = DEFAULT_RULE
    target: str | None = None
    flavor: str | None = None
    schedule: int | None = None
    open: Open = open_executor
    command: Sequence[str] = ("parity",)
    usual: str = "fast"
    says_rule: bool = True
    _opened: dict[tuple[str, str, str, int | None], Executor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first = self._executor(self.name, self.rule, self.flavor or self.usual, self.schedule)

    @property
    def lanes(self) -> bool:
        """Whether kernels run on lanes (the first executor says so: `auto` decides once)."""
        return self.first.name == "lanes"

    def of(self, job: Job, options: Sequence[str]) -> Executors:
        """Where a job runs; options: what its rerun needs besides the executor's own options."""
        words = ["python", "-m", "validation", *self.command, "--executor", self.first.name]
        if not self.lanes:
            words += ["--target", self.target] if self.target else []
            return Executors(self.first, None, shlex.join([*words, *options]))
        flavor = self.flavor or job.flavor
        seed = job.schedule if self.schedule is None else self.schedule
        words += ["--rule", self.rule] if self.says_rule else []
        words += ["--flavor", flavor]
        words += [] if seed is None else ["--schedule-seed", str(seed)]
        executor = self._executor("lanes", self.rule, flavor, seed)
        repeat_executor = self._executor("lanes", self.rule, flavor, (seed or 0) + 1)
        return Executors(executor, repeat_executor, shlex.join([*words, *options]))

    def predictor(self, rule: str) -> Executor:
        """Lanes under a rule, for predictions. Raises ExecutorUnavailable without a compiler."""
        return self._executor("lanes", rule, "fast", None)

    def can_predict(self) -> bool:
        """Whether lanes run on this machine."""
        try:
            self.predictor(DEFAULT_RULE)
        except ExecutorUnavailable:
            return False
        return True

    def _executor(self, name: str, rule: str, flavor: str, seed: int | None) -> Executor:
        key = (name, rule, flavor, seed)
        if key not in self._opened:
            self._opened[key] = self.open(name, rule=rule, flavor=flavor, seed=seed, target=self.target)
        return self._opened[key]
