"""Mutants against their judges: what is a kill, and what is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from validation.mutants import trial as trials
from validation.mutants.faults import table
from validation.mutants.mutant import ROOT, Mutant, MutantError
from validation.mutants.trial import Kill, Outcome, healthy, outcome, trial

TABLE = table()
#: A mutant to make others of: of a kernel whose quick cases take a second.
BASE = TABLE["router-base-two"]
LARGEST = "constexpr u32 kLargest = 0x7f7fffffu;"
HARMLESS = replace(BASE, name="harmless", old=LARGEST, new=LARGEST.replace("0x7f7fffffu", "0x7f7ffffeu + 1u"))
COUNTED = Mutant(
    "holds-inverted",
    "validation/core/verdict.py",
    "verdict = Verdict.EXACT if condition else Verdict.EXCEEDS",
    "verdict = Verdict.EXCEEDS if condition else Verdict.EXACT",
    "A condition that holds fails.",
    tests=("tests/validation/core/test_verdict.py",),
)


def test_a_fault_of_a_kernel_is_killed_and_the_usual_checks_are_asked() -> None:
    kill, usual = trial(BASE)
    assert kill is not None
    assert kill.verdict == "EXCEEDS"
    assert kill.checks == ("bits", "bound")
    assert "router/fp32/simt recipe=router_bell" in kill.where
    assert "--case 'recipe=router_bell" in kill.rerun
    assert set(usual) == {"nmse", "nmse_passes", "allclose_passes"}


def test_a_missing_barrier_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "healthy", lambda *args: 1)  # half a minute of cases that nothing here is about
    kill, _ = trial(TABLE["prompt-block-barrier-1"])
    assert kill is not None
    assert kill.checks == ("run",)
    assert "is read and nobody wrote it" in kill.reason


def test_a_change_that_is_none_survives() -> None:
    one = outcome(HARMLESS)
    assert (one.status, one.kill) == ("survived", None)
    assert one.usual["nmse_passes"]


def test_a_mutant_that_does_not_compile_is_an_error() -> None:
    broken = replace(HARMLESS, name="broken", new=LARGEST.replace("=", ""))
    with pytest.raises(MutantError, match=r"mutant broken does not compile: router.*does not compile"):
        trial(broken)


def test_a_mutant_that_does_not_apply_is_an_error() -> None:
    one = outcome(replace(BASE, name="lost", old="there is no such line"))
    assert one.status == "error"
    assert one.note.startswith("mutant lost: its text occurs 0 times")


def test_a_mutant_of_python_is_judged_by_its_own_copy() -> None:
    """Sources of the harness can be changed too: here the router reports that its guards were hit."""
    reported = Mutant(
        "guards-reported",
        "strata/kernels/router.py",
        "[witness], intact)",
        "[witness], False)",
        "Guards count as overwritten.",
        BASE.paths,
        BASE.recipes,
    )
    kill, usual = trial(reported)
    assert kill is not None
    assert kill.checks[0] == "guards"
    assert usual["nmse_passes"]


def test_tests_judge_what_no_case_runs_through() -> None:
    kill, usual = trial(COUNTED)
    assert kill is not None
    assert kill.where.startswith("tests/validation/core/test_verdict.py::")
    assert kill.checks == (f"test {kill.where.partition('::')[2]}",)
    assert usual == {}


def test_tests_that_pass_let_it_survive() -> None:
    assert trial(replace(COUNTED, old='"""Typed verdicts and', new='"""Typed  verdicts and'))[0] is None


def test_a_harness_that_cannot_be_imported_is_an_error() -> None:
    broken = replace(BASE, name="broken", file="validation/core/verdict.py", old="from __future__", new="from __past__")
    with pytest.raises(MutantError, match=r"mutant broken: the run ended with status 2: .* ModuleNotFoundError"):
        trial(broken)
    with pytest.raises(MutantError, match="mutant broken: its tests ended with status"):
        trial(replace(broken, tests=COUNTED.tests))


def test_one_that_needs_a_card_is_not_run_on_lanes() -> None:
    one = outcome(replace(BASE, device="Only a card has clocks."))
    assert one == Outcome(BASE.name, "device", note="Only a card has clocks.")


def test_sources_that_fail_as_they_are_kill_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    red = {"planned": 2, "executed": 1, "red": {"check": "bound"}}
    monkeypatch.setattr(trials, "_cases", lambda *args: red)
    for _ in range(2):  # the answer is kept, the error with it
        with pytest.raises(MutantError, match=r"without a mutant the cases of .*/sm8\? do not pass"):
            healthy("prompt_attention/fp16/sm8?")


@pytest.mark.parametrize(
    "answer", [{"planned": 0, "executed": 0}, {"planned": 3, "executed": 2}], ids=["no case", "fewer than planned"]
)
def test_a_healthy_run_that_is_not_whole_kills_nothing(answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "_cases", lambda *args: answer)
    with pytest.raises(MutantError, match="do not pass"):
        healthy("prompt_attention/fp16/sm8*", seed=answer["planned"])


def test_usual_checks_that_refuse_a_healthy_kernel_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "_cases", lambda *args: {"planned": 1, "executed": 1})
    monkeypatch.setattr(trials, "_usual", lambda *args: {"nmse_passes": True, "allclose_passes": False})
    with pytest.raises(MutantError, match=r"without a mutant the usual checks of kv_pack/int8/s\* do not pass"):
        healthy("kv_pack/int8/s*")


@pytest.mark.parametrize(
    ("status", "said", "message"),
    [
        (0, "3 skipped in 1s", "none of its tests ran"),
        (5, "no tests ran", "ended with status 5"),
        (1, "1 failed", "names no failed test"),
    ],
)
def test_a_test_run_that_says_nothing_is_an_error(
    status: int, said: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "_python", lambda *args: CompletedProcess([], status, said, ""))
    with pytest.raises(MutantError, match=message):
        trials._tests(ROOT, "some", ("tests",))


@pytest.mark.parametrize(
    ("packages", "digest", "message"),
    [
        ([str(ROOT / "strata")], None, "ran, expected the copy in"),
        ([], "0" * 64, "router.cu has another digest in the run"),
    ],
)
def test_what_ran_must_be_the_copy(tmp_path: Path, packages: list[str], digest: str | None, message: str) -> None:
    (tmp_path / BASE.file).parent.mkdir(parents=True)
    (tmp_path / BASE.file).write_text("the mutant's text")
    answer = {"packages": packages, "sources": {"router.cu": digest}}
    with pytest.raises(MutantError, match=message):
        trials._confirm(answer, tmp_path, BASE)


def test_the_first_check_decided() -> None:
    checks = [{"name": "bound", "reason": "why"}, {"name": "mean", "reason": ""}]
    red = {"path": "p", "case": "c", "recipe": "r", "verdict": "EXCEEDS", "rerun": "again", "checks": checks}
    assert trials._kill({"red": red}) == Kill(("bound", "mean"), "EXCEEDS", "p c", "why", "again")
    assert trials._kill({}) is None
