"""The one order on a tiny operation of two outputs, a float32 and an int32: what each question adds, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from strata.executors.base import Executor, Kernel
from strata.kernels.paths import PATHS, Path
from tests.validation.stub import StubCard, StubExecutor
from validation.core.entry import Planned
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.operation import Operation, Recipe, Trial
from validation.core.outcome import Expected, Outcome, Output, Reference, Run
from validation.core.random_streams import Stream
from validation.core.row_operation import RowOperation
from validation.core.settings import Settings
from validation.core.stub_executor import BLOCK, ENTRY, witness
from validation.core.timed import Prepare
from validation.core.verdict import Check, Verdict, holds
from validation.run.runner import settle

PATH = PATHS["prompt_attention/fp16/sm75"]
ROWS = 6
#: What a run gives, from what is right.
Fault = Callable[[dict[str, np.ndarray], Executor], None]


@dataclass(frozen=True)
class TinyCase:
    recipe: str = "tiny"

    def stream(self, *names: str | int) -> Stream:
        return Stream.of(1, self.recipe, *names)


@dataclass
class Doubling(RowOperation):
    """Twice a number, and its place in the order of its row. The baseline is the same again."""

    name = data = "tiny"
    outputs: Mapping[str, Output] = field(
        default_factory=lambda: {"twice": Output(("row", "column")), "rank": Output(("row", "column"), np.int32)}
    )
    fault: Fault | None = None
    base: Doubling | None = None
    known: Sequence[str] | None = None
    bits: bool = False
    some: np.ndarray | None = None
    refusal: Check | None = None
    doubts: list[Check] = field(default_factory=list)
    ready: Prepare | None = None

    def recipes(self) -> Sequence[Recipe]:
        return ()

    def parse(self, text: str) -> Any:
        raise NotImplementedError

    def planned(self, seed: int, profile: str) -> Sequence[Planned]:
        return ()

    def random_case(self, recipe: str, words: Sequence[int], checked: bool) -> Any:
        raise NotImplementedError

    def kernels(self, path: Path, case: Any = None) -> Sequence[Kernel]:
        return [Kernel(ENTRY, ENTRY, BLOCK)]

    def inputs(self, trial: Trial) -> np.ndarray:
        rows = np.arange(1, ROWS + 1, dtype=np.float32)[:, None]
        return np.asarray(rows * np.array([1, -3, 0.5], np.float32))

    def run(self, executor: Executor, path: Path, inputs: np.ndarray) -> Outcome:
        made = right(inputs)
        if self.fault is not None:
            self.fault(made, executor)
        return Outcome(made, [witness(executor, (1, 1, 1))], True)

    def length(self, trial: Trial) -> int:
        return len(trial.inputs)

    def permuted(self, inputs: np.ndarray, order: np.ndarray) -> np.ndarray:
        return np.asarray(inputs[order])

    def refuses(self, executor: Executor, path: Path, inputs: np.ndarray) -> Check | None:
        return self.refusal

    def baseline(self, trial: Trial) -> Doubling | None:
        return self.base

    def rules(self, trial: Trial, path: Path) -> Sequence[str] | None:
        return self.known

    def referenced(self, trial: Trial) -> np.ndarray:
        return np.arange(ROWS) if self.some is None else self.some

    def repeated_rows(self, trial: Trial) -> np.ndarray | None:
        return self.some

    def expected(self, trial: Trial) -> Expected | None:
        return Expected(right(trial.inputs)) if self.bits else None

    def reference(self, trial: Trial) -> Reference:
        due = 2 * trial.inputs[trial.rows].astype(np.float64)
        limit = {"twice": np.abs(due) * 2.0**-20}
        return Reference(trial.rows, {"twice": due}, limit, limit if self.base else None)

    def trusted(self, trial: Trial, reference: Reference) -> list[Check]:
        return self.doubts

    def located(self, trial: Trial, reference: Reference, check: Check) -> Check:
        return replace(check, reason=f"{check.reason} (of {len(reference.rows)})") if check.at else check

    def judged(self, trial: Trial) -> list[Check]:
        return [holds("judged", True, "")]

    def relations(self, trial: Trial) -> list[Check]:
        return [holds("relation", True, "")]

    def prepare(self) -> Prepare | None:
        return self.ready


def right(x: np.ndarray) -> dict[str, np.ndarray]:
    return {"twice": 2 * x, "rank": np.argsort(x, axis=1).astype(np.int32)}


def judged(operation: Operation, executor: Executor | None = None, **settings: Any) -> Findings:
    return operation.judge(Trial(operation, TinyCase(), PATH, executor or StubExecutor(), Settings(**settings), Memo()))


def failed(found: Findings) -> set[str]:
    return {check.name for check in found.checks if not check.verdict.passes}


def named(found: Findings, name: str) -> Check:
    (check,) = (check for check in found.checks if check.name == name)
    return check


def bit(output: str, on: str = "cuda") -> Fault:
    """The last bit of an output's first element is another, on executors of a name."""

    def fault(made: dict[str, np.ndarray], executor: Executor) -> None:
        if executor.name == on:
            made[output].view(np.uint32)[0, 0] ^= 1

    return fault


def lanes(rule: str) -> Executor:
    return StubExecutor(arch=rule)


ALL = (
    *("written", "written of rank", "guards", "witness", "bits", "rank", "self bits", "self bits of rank"),
    *("repeat", "repeat of rank", "baseline written", "baseline written of rank", "baseline guards"),
    *("baseline witness", "prediction", "prediction of rank", "baseline prediction", "baseline prediction of rank"),
    *("bound", "baseline bound", "self", "judged", "relation", "timed new", "timed old"),
)


class Clock(StubCard):
    def time_launches(self, launch: Callable[[], object], reps: int) -> list[float]:
        launch()
        return [5.0, 1.0, 3.0][:reps]


@dataclass
class Held:
    out: np.ndarray

    def host(self) -> np.ndarray:
        return self.out


def preparing(shift: float = 0) -> Prepare:
    """Prepares what gives the output in another shape, shifted."""
    return lambda executor, path, inputs: (lambda: None, Held((2 * inputs + np.float32(shift)).reshape(-1)))


def test_every_question_is_asked_in_the_one_order() -> None:
    ready = preparing()
    operation = Doubling(base=Doubling(known=("sm_90",), ready=ready), known=("sm_90",), bits=True, ready=ready)
    found = judged(operation, Clock(), predict="all", predictor=lanes, reps=3)
    assert [check.name for check in found.checks] == list(ALL)
    assert settle(found.checks) is Verdict.EXACT
    assert named(found, "repeat").figures["whole"]
    assert found.figures["device_new"]["median"] == 3.0
    assert found.figures["device_ratio"] == 1.0


def test_what_was_timed_must_be_what_was_judged() -> None:
    base = Doubling(ready=preparing())
    for shift, size, names in ((1.0, None, {"timed new"}), (0.0, 3, {"timed new"})):
        made = preparing(shift)

        def ready(executor: Executor, path: Path, inputs: Any, made: Prepare = made, size: int | None = size) -> Any:
            launch, held = made(executor, path, inputs)
            return launch, Held(held.host()[:size])

        assert failed(judged(Doubling(base=base, ready=ready), Clock(), reps=1)) == names
    assert judged(Doubling(ready=preparing()), reps=1).figures["device_time"].startswith("no device clock")


@pytest.mark.parametrize("output", ["twice", "rank"])
def test_a_bit_off_the_prediction_fails_in_every_output(output: str) -> None:
    found = judged(Doubling(fault=bit(output), known=("sm_90",)), StubCard(), predict="all", predictor=lanes)
    assert failed(found) == {"prediction" if output == "twice" else "prediction of rank"}
    based = Doubling(base=Doubling(fault=bit(output), known=("sm_90",)))
    found = judged(based, StubCard(), predict="all", predictor=lanes)
    assert failed(found) == {f"baseline prediction{'' if output == 'twice' else ' of rank'}"}


def test_the_nearest_of_several_rules_is_named_and_those_that_fit_are_said() -> None:
    def by_rule(made: dict[str, np.ndarray], executor: Executor) -> None:
        made["twice"].view(np.uint32)[: {"one": 2, "two": 1}.get(executor.arch, 0)] ^= 1

    operation = Doubling(fault=by_rule, known=("one", "two"))
    check = named(judged(operation, StubCard(), predict="all", predictor=lanes), "prediction")
    assert check.reason.startswith("no reading of the card, nearest two: 3 of 18 differ")
    assert check.figures["readings"] == []
    fits = named(
        judged(replace(operation, known=("one", "other")), StubCard(), predict="all", predictor=lanes), "prediction"
    )
    assert fits.verdict is Verdict.EXACT
    assert (fits.figures["rule"], fits.figures["readings"]) == ("other", ["other"])


def test_a_sample_is_predicted_and_repeated_and_proves_nothing_of_the_rest() -> None:
    operation = Doubling(known=("sm_90",), some=np.array([1, 4]))
    found = judged(operation, StubCard(), predict="sample", predictor=lanes)
    assert failed(found) == set()
    assert settle(found.checks) is Verdict.WITHIN_BOUND
    assert named(found, "prediction").figures["compared"] == 2 * 3
    assert named(found, "repeat").figures["compared"] == 2 * 3
    assert not named(found, "repeat").figures["whole"]
    assert settle(judged(operation, StubCard(), predict="all", predictor=lanes).checks) is Verdict.EXACT
    operation.prediction_decides = False
    assert settle(judged(operation, StubCard(), predict="all", predictor=lanes).checks) is Verdict.WITHIN_BOUND


def test_a_prediction_that_cannot_be_made_is_inconclusive_and_none_that_is_not_asked() -> None:
    for known, predictor in (((), lanes), (("sm_90",), None)):
        found = judged(Doubling(known=known), StubCard(), predict="all", predictor=predictor)
        assert named(found, "prediction").verdict is Verdict.INCONCLUSIVE
    for operation, executor, predict in (
        (Doubling(known=None), StubCard(), "all"),
        (Doubling(known=("sm_90",)), StubExecutor(), "all"),
        (Doubling(known=("sm_90",)), StubCard(), "none"),
    ):
        assert "prediction" not in {
            c.name for c in judged(operation, executor, predict=predict, predictor=lanes).checks
        }


def test_inputs_that_must_be_refused_end_the_case_or_leave_the_baseline_out() -> None:
    refusal = holds("refuses", True, "")
    assert [check.name for check in judged(Doubling(refusal=refusal)).checks] == ["refuses"]
    ready = preparing()
    found = judged(Doubling(base=Doubling(refusal=refusal, ready=ready), ready=ready), Clock(), reps=1)
    names = [check.name for check in found.checks]
    assert "baseline refuses" in names
    assert not {"baseline guards", "baseline bound", "timed new"} & set(names)


def test_a_reference_that_is_not_trusted_ends_the_case() -> None:
    found = judged(Doubling(doubts=[Check("certificate", Verdict.VOID, "because")]))
    assert found.checks[-1].name == "certificate"
    assert "certificate" in {c.name for c in judged(Doubling(doubts=[holds("certificate", True, "")])).checks}
    assert named(judged(Doubling(doubts=[holds("certificate", True, "")])), "bound").verdict is Verdict.WITHIN_BOUND


def test_a_failure_of_bits_is_said_beside_the_reference() -> None:
    runs: list[int] = []

    def wobble(made: dict[str, np.ndarray], executor: Executor) -> None:
        runs.append(1)
        made["rank"][0, 0] ^= len(runs) == 2

    found = judged(Doubling(fault=wobble))
    assert failed(found) == {"repeat of rank"}
    assert named(found, "repeat of rank").reason.endswith(f"(of {ROWS})")


@pytest.mark.parametrize("name", ["guards", "witness"])
def test_the_baseline_is_asked_what_the_operation_says(name: str) -> None:
    base = Doubling()
    base.baseline_asked = (name,)
    asked = [c.name for c in judged(Doubling(base=base)).checks if c.name.startswith("baseline ")]
    assert asked == [f"baseline {name}", "baseline bound"]


def test_outputs_of_another_shape_or_name_end_the_case() -> None:
    def fewer(made: dict[str, np.ndarray], executor: Executor) -> None:
        made["rank"] = made["rank"][1:]

    def another(made: dict[str, np.ndarray], executor: Executor) -> None:
        made["other"] = made.pop("rank")

    for fault in (fewer, another):
        assert failed(judged(Doubling(fault=fault))) == {"shape"}


def test_a_run_is_handed_copies_unless_its_kernels_are() -> None:
    seen: list[np.ndarray] = []

    class Looking(Doubling):
        def first_run(self, executor: Executor, path: Path, inputs: np.ndarray) -> Outcome:
            seen.append(inputs)
            return self.run(executor, path, inputs)

    operation = Looking()
    trial = Trial(operation, TinyCase(), PATH, StubExecutor(), Settings(), Memo())
    operation.judge(trial)
    assert seen[0] is not trial.inputs
    operation.kernels_handed = True
    operation.judge(trial)
    assert seen[-1] is trial.inputs


def test_the_recorder_is_shown_what_is_judged() -> None:
    class Keeping:
        def keep(self, *shown: Any) -> None:
            self.shown = shown

    keeping = Keeping()
    found = judged(Doubling(), recorder=keeping)
    path, case, inputs, out, witnesses, images = keeping.shown
    assert (path, case) == (PATH, TinyCase())
    assert np.array_equal(out, 2 * inputs)
    assert len(witnesses) == len(images) == 1
    assert failed(found) == set()


def test_the_run_of_a_repeat_is_known_to_the_questions() -> None:
    asked: list[Run] = []

    class Asking(Doubling):
        def ran(self, trial: Trial, run: Run) -> list[Check]:
            asked.append(run)
            return []

    judged(Asking(base=Asking()))
    assert [run.path.operation for run in asked] == ["prompt_attention", "decode_attention"]
