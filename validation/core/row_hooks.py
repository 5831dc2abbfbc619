"""What an operation of rows answers while a case is run and judged; `row_operation` has the order of the questions.

Few of them have no default: inputs, a run, how many rows there are, and the same rows in another order. Every other
one adds checks, or says that there is nothing to ask.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import numpy as np

from strata.executors.base import Executor, Kernel
from strata.kernels.paths import Path
from validation.core.handed import handed
from validation.core.launches import witnessed
from validation.core.negative_probes import bit_battery
from validation.core.operation import Operation, Trial
from validation.core.outcome import Arrays, Expected, Outcome, Output, Reference, Run
from validation.core.timed import Prepare
from validation.core.verdict import Check, identical


def _on_copies(run: Callable[..., Outcome]) -> Callable[..., Outcome]:
    @wraps(run)
    def call(self: RowHooks, executor: Executor, path: Path, inputs: Any) -> Outcome:
        bound: Callable[..., Outcome] = partial(run, self)
        if self.kernels_handed:
            return bound(executor, path, inputs)
        return handed(bound)(executor, path, inputs)

    return call


class RowHooks(Operation):
    """An operation whose outputs have rows that know nothing of one another.

    Attributes
    ----------
    outputs
        By name; the first is the one that a check without a name is about.
    kernels_handed
        Whether the kernels that `run` calls are handed copies of their own accord, as those are that a test can put
        others in the place of. Copies of copies would cost time and memory.
    baseline_asked
        The questions that a run of it is asked as another operation's baseline, None for all of them.
    prediction_decides
        Whether a case all of whose bits lanes predicted is EXACT.
    """

    outputs: Mapping[str, Output]
    kernels_handed: bool = False
    baseline_asked: Sequence[str] | None = None
    prediction_decides: bool = True

    def __init_subclass__(cls, **named: Any) -> None:
        """Hand copies to every run, so that no operation can leave it out."""
        super().__init_subclass__(**named)
        for name in ("run", "first_run"):
            if name in cls.__dict__:
                setattr(cls, name, _on_copies(cls.__dict__[name]))

    # ---- the data of a case, and a run ---------------------------------------------------------------------------

    @abstractmethod
    def inputs(self, trial: Trial) -> Any:
        """The inputs of a case: a pure function of case and mode, of arrays that are compared after each run."""

    @abstractmethod
    def run(self, executor: Executor, path: Path, inputs: Any) -> Outcome:
        """Launch the path on copies of the inputs. Raises StrataError when it cannot run."""

    def first_run(self, executor: Executor, path: Path, inputs: Any) -> Outcome:
        """The run that is judged: by default like every other. It may keep more than the outputs."""
        return self.run(executor, path, inputs)

    @abstractmethod
    def length(self, trial: Trial) -> int:
        """Rows along the first axis of every output, which know nothing of one another."""

    def shapes(self, trial: Trial) -> Mapping[str, tuple[int, ...]] | None:
        """The shape of every output, None where only rows and axes are known."""
        return None

    @abstractmethod
    def permuted(self, inputs: Any, order: np.ndarray) -> Any:
        """The inputs of the rows `order` (int64), in that order: all of them or some."""

    def preconditions(self, trial: Trial) -> list[Check]:
        """Whether the inputs are what the recipe promises; by default no question."""
        return []

    def refuses(self, executor: Executor, path: Path, inputs: Any) -> Check | None:
        """Of inputs that the path must refuse, whether it does; nothing else is then asked of the case."""
        return None

    # ---- what was launched ---------------------------------------------------------------------------------------

    def launched(self, case: Any, run: Run) -> Sequence[Kernel]:
        """The kernels that a run must have launched."""
        return self.kernels(run.path, case)

    def blocks(self, case: Any, run: Run) -> int | None:
        """The blocks of all launches of a run together, None where the kernels choose."""
        return None

    def witnessed(self, case: Any, run: Run) -> list[Check]:
        """What was launched against what the path is made of and the case needs."""
        images = {kernel.entry: run.executor.build(kernel).digest for kernel in self.launched(case, run)}
        return [witnessed(run.executor, run.outcome.witnesses, self.blocks(case, run), images)]

    def ran(self, trial: Trial, run: Run) -> list[Check]:
        """Further questions to a run, whatever its numbers."""
        return []

    # ---- the same again ------------------------------------------------------------------------------------------

    def repeated_rows(self, trial: Trial) -> np.ndarray | None:
        """int64, the rows that the repeat takes where a case is too large for all of them; None for all."""
        return None

    def again(self, trial: Trial) -> list[Check]:
        """Further runs of the path, and what they are asked: other work shapes, say, or in parts."""
        return []

    def baseline(self, trial: Trial) -> RowHooks | None:
        """The operation of the path's baseline, None where there is none."""
        return None

    # ---- what is right -------------------------------------------------------------------------------------------

    def referenced(self, trial: Trial) -> np.ndarray:
        """int64, the rows that are measured closely; by default all."""
        return np.arange(self.length(trial))

    def expected(self, trial: Trial) -> Expected | None:
        """Every bit of the outcome from a model, None where there is none."""
        return None

    def rules(self, trial: Trial, path: Path) -> Sequence[str] | None:
        """The rules of a card under which lanes may predict a path's bits: none where its rule is not established, None
        where nothing is predicted."""
        return None

    def reference(self, trial: Trial) -> Reference | None:
        """FP64 results and their bounds, None where bits alone judge."""
        return None

    def trusted(self, trial: Trial, reference: Reference) -> list[Check]:
        """Whether the reference itself is right. Where one of these fails, nothing else is asked of the path."""
        return []

    def located(self, trial: Trial, reference: Reference, check: Check) -> Check:
        """A check that failed at an element, with what the reference says of that place."""
        return check

    def comparable(self, output: np.ndarray) -> np.ndarray:
        """An output as its bits are compared: where several bit patterns mean the same, one of them."""
        return output

    def named(self, outcome: Outcome, output: str, check: str) -> str:
        """What a check of an output is called: plain of the first, with its name of others."""
        if output == outcome.main:
            return check
        return output if check == "bits" else f"{check} of {output}"

    def compared(
        self, trial: Trial, check: str, got: Arrays, due: Arrays, labels: tuple[np.ndarray, ...] = ()
    ) -> list[Check]:
        """Bits of all outputs against those that are due.

        Parameters
        ----------
        check
            What that of the first output is called.
        labels
            int64, what to call indices along the first axes.
        """
        return [
            identical(
                self.named(trial.outcome, name, check),
                self.comparable(got[name]),
                self.comparable(due[name]),
                labels=labels,
                axes=self.outputs[name].axes,
            )
            for name in due
        ]

    def probed_bits(self, trial: Trial, expected: Expected) -> list[Check]:
        """Whether comparisons of bits refuse a flipped one."""
        probes = ((name, self.comparable(out)) for name, out in expected.outputs.items())
        return [replace(bit_battery(out), name=self.named(trial.outcome, name, "self bits")) for name, out in probes]

    def judged(self, trial: Trial) -> list[Check]:
        """Further questions to the outcome."""
        return []

    def relations(self, trial: Trial) -> list[Check]:
        """Metamorphic relations: inputs changed so that the bits then due are known from those before."""
        return []

    # ---- time ----------------------------------------------------------------------------------------------------

    def prepare(self) -> Prepare | None:
        """What prepares launches for a device clock, None where there is nothing to time."""
        return None
