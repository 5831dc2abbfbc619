"""Mutants against the quick run: the faults that it must see, and what is no kill."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from validation.mutants.attention import PROMPT, mutants

from validation.mutants import __main__ as command
from validation.mutants import trial as trials
from validation.mutants.mutant import ROOT, Mutant, MutantError
from validation.mutants.trial import Kill, healthy, trial

TABLE = {mutant.name: mutant for mutant in mutants()}
#: What the checked build of lanes says of a missing barrier.
RACES = ("race: shared byte", "is read and nobody wrote it", "before its cp.async copy was waited for")
#: A mutant of two small cases, to make others of.
BASE = TABLE["k8-halves-swapped"]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Kill | MutantError | None]:
    """Every mutant of the table, several at once: each waits for a compiler most of the time."""

    def one(mutant: Mutant) -> Kill | MutantError | None:
        try:
            return trial(mutant)
        except MutantError as error:
            return error

    for paths, recipes in {(mutant.paths, mutant.recipes) for mutant in TABLE.values()}:
        healthy(paths, recipes)
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        return dict(zip(TABLE, workers.map(one, TABLE.values()), strict=True))


@pytest.mark.parametrize("name", TABLE)
def test_the_quick_run_refuses(name: str, outcomes: dict[str, Kill | MutantError | None]) -> None:
    kill = outcomes[name]
    assert isinstance(kill, Kill), f"{name} was not killed: {kill}"
    print(f"{name}: {kill.check}, {kill.verdict} on {kill.path}: {kill.reason}")
    if "barrier" in name:
        assert kill.check == "run"
        assert any(race in kill.reason for race in RACES), kill.reason
    else:
        assert kill.verdict == "EXCEEDS"


def test_a_change_that_is_none_survives() -> None:
    harmless = replace(BASE, name="harmless", old="constexpr int kDim = 256,", new="constexpr int kDim = 128 + 128,")
    assert trial(harmless) is None


def test_a_mutant_that_does_not_compile_is_an_error() -> None:
    broken = replace(BASE, name="broken", new="  mma_m16n8k8(d, a, b) mma_m16n8k8(d, a + 2, b + 1);")
    with pytest.raises(MutantError, match=r"mutant broken does not compile: prompt_attention\[.*does not compile"):
        trial(broken)


def test_a_mutant_that_does_not_apply_is_an_error() -> None:
    with pytest.raises(MutantError, match="mutant lost: its text occurs 0 times"):
        trial(replace(BASE, name="lost", old="there is no such line"))


def test_a_mutant_of_python_is_judged_by_its_own_copy() -> None:
    """Sources of the harness can be changed too: here prompt attention reports that its guards were hit."""
    reported = Mutant(
        "guards-reported",
        "strata/kernels/attention.py",
        "return Result(out.host(), witnesses, intact)",
        "return Result(out.host(), witnesses, False)",
        "Guards count as overwritten.",
        BASE.paths,
        BASE.recipes,
    )
    kill = trial(reported)
    assert kill is not None
    assert (kill.check, kill.verdict) == ("guards", "EXCEEDS")


def test_a_harness_that_cannot_be_imported_is_an_error() -> None:
    broken = replace(BASE, name="broken", file="validation/verdict.py", old="from __future__", new="from __past__")
    with pytest.raises(MutantError, match="mutant broken: the run ended with status 1: ModuleNotFoundError"):
        trial(broken)


def test_cases_that_do_not_exist_are_an_error() -> None:
    with pytest.raises(MutantError, match=r"no quick case of no_recipe fits the paths prompt_attention/fp16/sm75"):
        healthy(BASE.paths, ("no_recipe",))


def test_sources_that_fail_as_they_are_kill_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    red = {"planned": 2, "executed": 1, "red": {"check": "bound"}}
    monkeypatch.setattr(trials, "_run", lambda *args: red)
    with pytest.raises(MutantError, match=r"without a mutant the cases of uniform on .* do not pass"):
        trial(replace(BASE, paths="prompt_attention/fp16/sm7?"))


@pytest.mark.parametrize(
    ("packages", "digest", "message"),
    [
        ([str(ROOT / "strata")], None, "ran, expected the copy in"),
        ([], "0" * 64, "prompt_attention.cu has another digest in the run"),
    ],
)
def test_what_ran_must_be_the_copy(tmp_path: Path, packages: list[str], digest: str | None, message: str) -> None:
    (tmp_path / PROMPT).parent.mkdir(parents=True)
    (tmp_path / PROMPT).write_text("the mutant's text")
    answer = {"packages": packages, "sources": {"prompt_attention.cu": digest}}
    with pytest.raises(MutantError, match=message):
        trials._confirm(answer, tmp_path, BASE)


@pytest.mark.parametrize(
    ("outcome", "status", "said"),
    [
        (
            Kill("path", "case", "EXCEEDS", "bound", "why"),
            0,
            "killed    k8-halves-swapped: bound, EXCEEDS on path: why",
        ),
        (None, 1, "SURVIVED  k8-halves-swapped: On sm75 each half"),
        (MutantError("mutant x: no"), 2, "error     mutant x: no"),
    ],
)
def test_the_command_ends_with_what_came_of_it(
    outcome: Kill | MutantError | None,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def answer(mutant: Mutant) -> Kill | None:
        if isinstance(outcome, MutantError):
            raise outcome
        return outcome

    monkeypatch.setattr(command, "trial", answer)
    assert command.main(["k8-halves-swapped"]) == status
    assert capsys.readouterr().out.startswith(said)


def test_an_unknown_mutant_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["nobody"]) == 2
    assert "no mutant is called 'nobody'; there are last-tile-at-four, " in capsys.readouterr().err
