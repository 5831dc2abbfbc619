"""Results of cases: typed, explained in one line with a rerun, valid JSON, and never a pass by accident."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from strata.executors.base import BuildError, ExecutorUnavailable, LaunchError, StrataError
from strata.kernels.paths import PATHS
from tests.validation.stub import StubExecutor, healthy, kernel
from validation.core.settings import Settings
from validation.core.verdict import Check, Verdict
from validation.operations.attention.kernels import Operation
from validation.operations.attention.operation import under_test
from validation.operations.attention.pools import Inputs
from validation.operations.experts.case import ExpertCase
from validation.operations.kv_pack.case import Case
from validation.run.runner import Executors, Job, explain, rerun_command, run_case, run_jobs, settle

PATH = PATHS["prompt_attention/q4_0/sm80"]
CASE = Case("uniform", 3, 90, 3, 4)
LANES = StubExecutor()
#: Characters that a reader takes in at once: five lines of a terminal.
LONGEST = 400


def flipped(out: np.ndarray, inputs: Inputs) -> np.ndarray:
    out[1, 5] *= -1
    return out


def test_a_pass_has_no_explanation() -> None:
    result = run_case(CASE, PATH, LANES, Settings(), operations=under_test(healthy()))
    assert result["verdict"] == "WITHIN_BOUND"
    assert result["explain"] == ""
    assert result["case"] == CASE.text()
    json.dumps(result, allow_nan=False)


def test_a_failure_explains_itself_in_one_line_with_its_rerun() -> None:
    result = run_case(CASE, PATH, LANES, Settings(), operations=under_test(healthy(prompt_attention=kernel(flipped))))
    line = result["explain"]
    assert line.startswith("EXCEEDS prompt_attention/q4_0/sm80 bound: ")
    assert "at query 1 head 5 dim " in line
    assert line.count(" bits ") == 2
    assert len(line) <= LONGEST
    assert " value " in line
    assert " reference " in line
    assert " bound " in line
    assert line.endswith(f"--paths prompt_attention/q4_0/sm80 --case '{CASE.brief()}'")
    assert "\n" not in line


def test_nan_and_infinity_are_valid_json() -> None:
    def spoil(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        out[0, 0, 0], out[1, 0, 0] = np.nan, np.inf
        return out

    result = run_case(CASE, PATH, LANES, Settings(), operations=under_test(healthy(prompt_attention=kernel(spoil))))
    assert result["verdict"] == "EXCEEDS"
    assert '"NaN"' in json.dumps(result, allow_nan=False) or '"Infinity"' in json.dumps(result, allow_nan=False)


@pytest.mark.parametrize("error", [LaunchError("lane 3 faults"), BuildError("no"), StrataError("what")])
def test_a_kernel_that_cannot_run_is_not_run_and_not_a_pass(error: StrataError) -> None:
    def launch(*arguments: object) -> object:
        raise error

    result = run_case(CASE, PATH, LANES, Settings(), operations=under_test(healthy(prompt_attention=Operation(launch))))  # type: ignore[arg-type]
    assert result["verdict"] == "NOT_RUN"
    assert str(error) in result["explain"]


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyError, AssertionError, RecursionError, OSError])
def test_a_fault_of_the_harness_is_one_case_that_did_not_run(kind: type[Exception]) -> None:
    """With its type and place; the others run."""

    def launch(*arguments: object) -> object:
        raise kind("two\nlines and \x1b[2J")

    operations = healthy(prompt_attention=Operation(launch))  # type: ignore[arg-type]
    other = PATHS["decode_attention/q4_0/simt"]
    found = run_jobs(
        [Job(CASE, PATH), Job(CASE, other)],
        lambda job: Executors(LANES, None, "again"),
        Settings(),
        finished=lambda job, result: None,
        operations=under_test(operations),
    )
    (check,) = [check for check in found[0]["checks"] if check["name"] == "run"]
    assert [result["verdict"] for result in found] == ["NOT_RUN", "WITHIN_BOUND"]
    assert check["reason"].startswith(f"unforeseen {kind.__name__} at tests/validation/run/test_runner.py:")
    assert check["reason"].isprintable()
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("error", [ExecutorUnavailable("no cache"), KeyboardInterrupt(), SystemExit(2)])
def test_what_ends_a_run_is_no_fault_of_a_case(error: BaseException) -> None:
    def launch(*arguments: object) -> object:
        raise error

    with pytest.raises(type(error)):
        run_case(CASE, PATH, LANES, Settings(), operations=under_test(healthy(prompt_attention=Operation(launch))))  # type: ignore[arg-type]


def check(name: str, verdict: Verdict, **figures: object) -> Check:
    return Check(name, verdict, "" if verdict.passes else "because", dict(figures))


def test_exact_needs_every_bit_predicted_and_every_check_passed() -> None:
    bound = check("bound", Verdict.WITHIN_BOUND)
    whole = check("prediction", Verdict.EXACT, all_bits=True)
    part = check("prediction", Verdict.EXACT, all_bits=False)
    assert settle([bound, whole]) is Verdict.EXACT
    assert settle([bound, part]) is Verdict.WITHIN_BOUND
    assert settle([bound]) is Verdict.WITHIN_BOUND
    assert settle([]) is Verdict.NOT_RUN
    for verdict in (Verdict.EXCEEDS, Verdict.VOID, Verdict.NOT_RUN, Verdict.INCONCLUSIVE):
        assert settle([bound, whole, check("x", verdict)]) is verdict
    assert settle([bound, replace(whole, verdict=Verdict.EXCEEDS)]) is Verdict.EXCEEDS


def test_the_worst_check_is_the_one_explained() -> None:
    checks = [check("a", Verdict.EXACT), check("b", Verdict.VOID), check("c", Verdict.EXCEEDS)]
    assert explain(PATH.name, settle(checks), checks, "again").startswith(
        "EXCEEDS prompt_attention/q4_0/sm80 c: because"
    )
    assert (
        explain(PATH.name, Verdict.NOT_RUN, [], "again")
        == "NOT_RUN prompt_attention/q4_0/sm80 no check was made | rerun: again"
    )


def test_jobs_run_in_order_and_are_handed_over_at_once() -> None:
    jobs = [Job(CASE, PATH), Job(replace(CASE, seed=4), PATH), Job(replace(CASE, seed=5), PATH)]
    events: list[str] = []
    results = run_jobs(
        jobs,
        lambda job: Executors(LANES, None, f"again {job.case.seed}"),
        Settings(),
        finished=lambda job, result: events.append(f"end {job.case.seed} {result['rerun'].split(' --')[0]}"),
        starts=lambda job: events.append(f"start {job.case.seed}"),
        operations=under_test(healthy()),
    )
    assert events == ["start 3", "end 3 again 3", "start 4", "end 4 again 4", "start 5", "end 5 again 5"]
    assert [result["case"] for result in results] == [job.case.text() for job in jobs]


def test_the_rerun_can_be_pasted() -> None:
    import shlex

    words = shlex.split(rerun_command(CASE, PATH, Settings(invocation="python -m validation parity --rule 8,25")))
    assert words[-2:] == ["--case", CASE.brief()]
    assert words[words.index("--paths") + 1] == PATH.name
    assert Case.parse(words[-1]) == CASE


def test_a_case_too_large_for_memory_is_not_run() -> None:
    """As numpy says it of petabytes: no traceback, and the run goes on."""
    path = PATHS["expert_fused/iq4_xs/q2_0/sm80"]
    case = ExpertCase("experts_decades", 1, 3, 1024, 2, 1 << 16, 1 << 16)
    result = run_case(case, path, LANES, Settings())
    assert result["verdict"] == "NOT_RUN"
    assert "too little memory for this case" in result["explain"]
