"""A case on stand-in kernels: the healthy pass, every fault is told by the check that should tell it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from strata.executors.base import POISON_OUTPUT, Executor
from strata.kernels.paths import PATHS
from strata.kernels.pool import MODES
from tests.validation.stub import Fault, Lawful, StubCard, StubExecutor, healthy, kernel
from tests.validation.stub import attention as computed
from validation.core.case import CaseError
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.operations.attention import operation as attention
from validation.operations.attention.kernels import Operation
from validation.operations.attention.pools import Inputs
from validation.operations.attention.sampling import referenced
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.recipes import find, of_operation
from validation.run.runner import settle

PATH = PATHS["prompt_attention/int8/sm75"]
CASE = Case("signed_decades", 3, 150, 4, 4)
LANES = StubExecutor()


def run(case: Case = CASE, path: str = PATH.name, settings: Settings | None = None, **kernels: Operation) -> Findings:
    return attention.judged(case, PATHS[path], LANES, settings or Settings(), Memo(), healthy(**kernels))


def failed(found: Findings) -> set[str]:
    return {check.name for check in found.checks if not check.verdict.passes}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [r.name for r in of_operation("prompt_attention") if r.name != "captured"])
def test_healthy_kernels_pass_every_recipe(name: str, mode: str) -> None:
    # The stub sums in NumPy's order, so its errors differ from both kernels'; they must still fit the bounds.
    stub = kernel(compute=Lawful()) if find(name).relations else kernel()
    found = run(replace(CASE, recipe=name, group=4), f"prompt_attention/{mode}/sm80", prompt_attention=stub)
    assert failed(found) == set()
    assert any(check.name.startswith("law ") for check in found.checks) == find(name).relations
    assert settle(found.checks) is Verdict.WITHIN_BOUND


def change(edit: Callable[[np.ndarray], None]) -> Fault:
    def fault(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        edit(out)
        return out

    return fault


def flip(out: np.ndarray) -> None:
    out[2, 7] *= -1


def stale(out: np.ndarray) -> None:
    out[1] = out[0]


def poison(out: np.ndarray) -> None:
    out.view(np.uint32)[3, 23, 255] = POISON_OUTPUT


def nan(out: np.ndarray) -> None:
    out[0, 0, 0] = np.nan


def permute(out: np.ndarray) -> None:
    out[:] = out[:, ::-1].copy()


def dropped_half(out: np.ndarray) -> None:
    out *= np.float32(1 + 2.0**-12)


@pytest.mark.parametrize(
    ("edit", "check"),
    [
        (flip, "bound"),
        (stale, "bound"),
        (poison, "written"),
        (nan, "bound"),
        (permute, "bound"),
    ],
)
def test_wrong_outputs_fail(edit: Callable[[np.ndarray], None], check: str) -> None:
    assert check in failed(run(prompt_attention=kernel(change(edit))))


def test_a_loss_of_precision_fails_where_scores_are_mild() -> None:
    """Scores of signed_decades reach thousands, and their roundings with them; here weights are nearly equal."""
    assert "bound" in failed(run(replace(CASE, recipe="flat"), prompt_attention=kernel(change(dropped_half))))


def test_an_output_of_another_shape_fails() -> None:
    found = run(prompt_attention=kernel(lambda out, inputs: out[:2]))
    assert failed(found) == {"shape"}
    assert failed(run(prompt_attention=kernel(lambda out, inputs: out.astype(np.float64)))) >= {"written", "bound"}


def test_a_fault_that_both_kernels_share_fails() -> None:
    both = kernel(change(flip))
    found = failed(run(prompt_attention=both, decode_attention=both))
    assert {"bound", "baseline bound"} <= found


def test_a_wrong_baseline_fails() -> None:
    assert "baseline bound" in failed(run(decode_attention=kernel(change(flip))))


def test_runs_that_differ_in_one_bit_fail() -> None:
    count = iter(range(9))

    def wobble(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        if next(count) == 1:
            out.view(np.uint32)[1, 2, 3] ^= 1
        return out

    found = run(prompt_attention=kernel(wobble))
    assert failed(found) == {"repeat"}
    reason = next(check.reason for check in found.checks if check.name == "repeat")
    assert "at query 1 head 2 dim 3 got " in reason
    for word in (" bits ", " expected ", " reference ", " bound "):
        assert word in reason


def test_a_law_that_is_broken_fails_the_case() -> None:
    # The plain stub adds cells in the order of the list.
    laws = replace(CASE, recipe="laws")
    assert failed(run(laws)) == {"law order", "law zero weights"}
    assert failed(run(replace(laws, recipe="uniform"))) == set()


def test_a_law_that_does_not_apply_voids_the_case() -> None:
    one = Case("laws", 3, 1, 1, 4)
    found = run(one, prompt_attention=kernel(compute=Lawful()))
    assert "law order" in failed(found)
    assert settle(found.checks) is Verdict.VOID


def test_guards_and_witnesses_of_path_and_baseline_are_checked() -> None:
    assert failed(run(prompt_attention=kernel(guards_ok=False))) == {"guards"}
    assert failed(run(decode_attention=kernel(guards_ok=False))) == {"baseline guards"}
    assert failed(run(prompt_attention=kernel(blocks_run=1))) == {"witness"}
    assert failed(run(decode_attention=kernel(executor="other"))) == {"baseline witness"}


def test_the_baseline_itself_can_be_judged() -> None:
    found = run(path="decode_attention/int8/simt")
    assert failed(found) == set()
    assert [check.name for check in found.checks if check.name in ("bound", "agreement")] == ["bound"]
    assert "bound" in failed(run(path="decode_attention/int8/simt", decode_attention=kernel(change(flip))))


class Counting:
    """Counts the queries that a stub kernel is run on."""

    def __init__(self) -> None:
        self.queries: list[int] = []

    def __call__(self, out: np.ndarray, inputs: Inputs) -> np.ndarray:
        self.queries.append(len(out))
        return out


def predicted(
    predict: str, case: Case, wrong: bool = False, capability: int = 90
) -> tuple[Findings, list[int], list[str]]:
    """Run on a stub card with a predictor; lanes give `wrong` bits when told to."""
    counting, rules = Counting(), []
    card = StubCard(capability=capability)

    def open_lanes(rule: str) -> StubExecutor:
        rules.append(rule)
        return StubExecutor()

    plain = kernel(counting)

    def launch(executor: Executor, path: object, inputs: Inputs) -> object:
        outcome = plain.run(executor, path, inputs)  # type: ignore[arg-type]
        if wrong and executor.name == "lanes":
            outcome.out.view(np.uint32)[0, 0, 0] ^= 1
        return outcome

    operations = healthy(prompt_attention=replace(plain, run=launch))  # type: ignore[arg-type]
    settings = Settings(predict=predict, predictor=open_lanes)
    found = attention.judged(case, PATH, card, settings, Memo(), operations)
    return found, counting.queries, rules


LARGE = replace(CASE, context=200, queries=70, group=4)


def test_predicting_everything_makes_a_case_exact() -> None:
    found, queries, rules = predicted("all", LARGE)
    assert failed(found) == set()
    assert settle(found.checks) is Verdict.EXACT
    assert queries == [70, 70, 70]
    assert set(rules) == {"sm_90"}
    names = [check.name for check in found.checks]
    assert "prediction" in names
    assert "baseline prediction" in names


def test_a_failed_bound_gives_the_predicted_bits() -> None:
    plain, last = kernel(), [0]

    def launch(executor: Executor, path: object, inputs: Inputs) -> object:
        outcome = plain.run(executor, path, inputs)  # type: ignore[arg-type]
        if executor.name == "cuda":
            outcome.out[last[0], 7] *= -1
        return outcome

    operations = healthy(prompt_attention=replace(plain, run=launch))  # type: ignore[arg-type]
    for predict, case, row in (("sample", LARGE, 69), ("all", CASE, 3)):
        last[0] = row
        settings = Settings(predict=predict, predictor=lambda rule: StubExecutor())
        found = attention.judged(case, PATH, StubCard(), settings, Memo(), operations)
        by_name = {check.name: check.reason for check in found.checks}
        at = by_name["bound"].partition(" at ")[2]
        assert at.startswith(f"query {row} head 7 dim ")
        got, due = at.partition(" bits ")[2][:8], at.partition(" predicted bits ")[2][:8]
        # The stand-in predicts what it computes, and the fault flips a sign.
        assert int(got, 16) ^ int(due, 16) == 1 << 31
        assert f"query {row} head 7 dim 0 got " in by_name["prediction"]
        assert ", reference " in by_name["prediction"]


def test_predicting_a_sample_is_no_proof_of_every_bit() -> None:
    found, queries, _ = predicted("sample", LARGE)
    assert settle(found.checks) is Verdict.WITHIN_BOUND
    assert queries[2] == len(referenced(np.arange(131, 201), LARGE.stream("referenced")))
    assert queries[2] < 70


@pytest.mark.parametrize("predict", ["sample", "all"])
def test_one_bit_off_the_prediction_fails(predict: str) -> None:
    found, _, _ = predicted(predict, LARGE, wrong=True)
    assert failed(found) == {"prediction"}
    assert settle(found.checks) is Verdict.EXCEEDS


def test_a_card_without_an_established_rule_is_inconclusive() -> None:
    found, _, _ = predicted("all", CASE, capability=121)
    assert settle(found.checks) is Verdict.INCONCLUSIVE


def test_nothing_is_predicted_on_lanes_or_unasked() -> None:
    assert not any("prediction" in check.name for check in run(settings=Settings(predict="all")).checks)
    assert not any("prediction" in check.name for check in predicted("none", CASE)[0].checks)


def test_the_repeat_runs_under_the_other_schedule() -> None:
    repeat_executor = StubExecutor(arch="twin")
    seen: list[str] = []
    plain = kernel()

    def launch(executor: StubExecutor, path: object, inputs: Inputs) -> object:
        seen.append(executor.arch)
        return plain.run(executor, path, inputs)  # type: ignore[arg-type]

    run(settings=Settings(repeat_executor=repeat_executor), prompt_attention=replace(plain, run=launch))  # type: ignore[arg-type]
    assert seen == ["lanes-stub", "twin"]


def test_large_cases_on_lanes_are_repeated_on_sampled_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "REPEAT_LIMIT", 0)
    counting = Counting()
    found = run(LARGE, prompt_attention=kernel(counting))
    assert failed(found) == set()
    assert counting.queries == [70, len(referenced(np.arange(131, 201), LARGE.stream("referenced")))]


def test_inputs_and_baseline_are_shared_by_tiers() -> None:
    memo, counting = Memo(), Counting()
    operations = healthy(decode_attention=kernel(counting))
    for tier in ("sm75", "sm80"):
        attention.judged(CASE, PATHS[f"prompt_attention/int8/{tier}"], LANES, Settings(), memo, operations)
    assert counting.queries == [4]
    attention.judged(CASE, PATHS["prompt_attention/q4_0/sm75"], LANES, Settings(), memo, operations)
    assert counting.queries == [4, 4]


def test_times_are_asked_for_and_what_was_timed_is_compared() -> None:
    class Clock(StubCard):
        def time_launches(self, fn: Callable[[], object], reps: int) -> list[float]:
            fn()
            return [3.0, 1.0, 2.0][:reps]

    class Out:
        def __init__(self, out: np.ndarray) -> None:
            self.out = out

        def host(self) -> np.ndarray:
            return self.out

    def timed(shift: float, order: int) -> Operation:
        return replace(
            kernel(order=order),
            prepare=lambda executor, path, inputs: (lambda: None, Out(computed(inputs, order) + np.float32(shift))),
        )

    card = Clock()
    operations = {"prompt_attention": timed(0, 1), "decode_attention": timed(0, -1)}
    found = attention.judged(CASE, PATH, card, Settings(reps=3), Memo(), operations)
    assert failed(found) == set()
    assert found.figures["device_new"]["median"] == 2.0
    assert found.figures["device_ratio"] == 1.0
    operations["decode_attention"] = timed(1, -1)
    found = attention.judged(CASE, PATH, card, Settings(reps=3), Memo(), operations)
    assert failed(found) == {"timed old"}


def test_attention_without_queries_is_no_case() -> None:
    with pytest.raises(CaseError, match="queries is 0"):
        run(replace(CASE, queries=0))
