"""`parity --record`: what it plans, what it refuses, and when there is a record, on stand-ins and once on lanes."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.device import named
from strata.executors.base import LaunchError, source_digests
from strata.gates.gate import COMMAND, decide
from strata.gates.record import of_value
from strata.gates.sources import of_path
from strata.kernels.paths import PATHS
from tests.validation.parity.test_command import Bench, run
from tests.validation.stub import asked_before, healthy, kernel, no_ledger, other_plans
from validation.__main__ import main
from validation.core.entry import Planned
from validation.ledger import review as ledger_review
from validation.ledger.whole_run import WholeRun
from validation.operations.attention import plan
from validation.operations.attention.pools import Inputs
from validation.operations.kv_pack.case import Case
from validation.record import recording
from validation.record.canonical import decode, name_of
from validation.record.evidence import Keeper
from validation.record.rules.subject import Subject
from validation.record.verify import cheap
from validation.run import plan as profiles

IDENTIFICATION = {"vectors": {"k8_00": "33800000"}, "special": {}}
PATH = "prompt_attention/q4_0/sm75"
TINY = (Case("signed_decades", 1, 30, 2), Case("uniform", 1, 40, 3, 16))
REQUIRED = (50, 2)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile of two cases, of which lanes plan one twice, and a small required size."""

    def cases(seed: int) -> list[Planned]:
        one, two = (replace(case, seed=seed) for case in TINY)
        return [Planned(one, flavor="checked"), Planned(two, flavor="checked"), Planned(one, flavor="fast")]

    monkeypatch.setattr(plan, "LISTS", dict.fromkeys(profiles.PROFILES, cases))
    monkeypatch.setattr(plan, "REQUIRED", (REQUIRED,))
    other_plans(monkeypatch)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tiny: None) -> Bench:
    monkeypatch.setattr(recording, "identification", lambda executor, rule: IDENTIFICATION)
    return Bench(monkeypatch)


def records(folder: Path) -> list[dict[str, Any]]:
    """The records of a directory; nothing else may be there but run.json."""
    found = []
    for file in folder.iterdir():
        if file.name != "run.json":
            assert file.name == f"{name_of(file.read_bytes())}.json"
            found.append(decode(file.read_bytes()))
    return found


def one(folder: Path) -> dict[str, Any]:
    (found,) = records(folder)
    return found


def status(folder: Path) -> str:
    return str(json.loads((folder / "run.json").read_text())["status"])


def test_a_run_writes_its_record_beside_run_json(bench: Bench, tmp_path: Path, capsys: Any) -> None:
    assert run("--record", str(tmp_path), "--paths", PATH) == 0
    found = one(tmp_path)
    assert status(tmp_path) == "complete"
    assert found["plan"]["profile"] == "standard"
    assert found["plan"]["paths"] == [PATH]
    assert [case["case"] for case in found["cases"]] == [
        *(case.text() for case in TINY),
        Case("signed_decades", 1, *REQUIRED).text(),
    ]
    assert found["provenance"]["executor"] == "lanes"
    assert found["identification"] == IDENTIFICATION
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert last.startswith(f"record {tmp_path}")
    assert "evidence for no card" in last


def test_the_command_that_the_gate_names_makes_a_record(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert COMMAND.startswith("nox -s parity -- ")
    assert run(*COMMAND.removeprefix("nox -s parity -- ").split()) == 0
    assert len(one(tmp_path / "parity")["plan"]["paths"]) == 8


def test_run_json_may_lie_elsewhere(bench: Bench, tmp_path: Path) -> None:
    assert run("--record", str(tmp_path / "a"), "--out", str(tmp_path / "b"), "--paths", PATH) == 0
    assert len(records(tmp_path / "a")) == 1
    assert [file.name for file in (tmp_path / "b").iterdir()] == ["run.json"]


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_profile_seed_and_paths_may_be_chosen(bench: Bench, profile: str, tmp_path: Path) -> None:
    words = ("--profile", profile, "--seed", "7", "--paths", "prompt_attention/q4_0/*")
    assert run("--record", str(tmp_path), *words) == 0
    plan = one(tmp_path)["plan"]
    assert plan["profile"] == profile
    assert plan["seed"] == 7
    assert plan["paths"] == [PATH, "prompt_attention/q4_0/sm80"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--case", TINY[0].text()), "expected without --case"),
        (("--recipe", "uniform"), "expected without --recipe uniform"),
        (("--context", "40"), "expected without --context 40"),
        (("--queries", "0"), "expected without --queries 0"),
        (("--capture", "c.npz"), "expected without --capture"),
        (("--paths", "kv_pack/*"), "kv_pack/fp16/simt is selected"),
        (("--paths", "*"), "decode_attention/fp16/simt is selected"),
    ],
)
def test_what_no_verifier_could_plan_again_is_refused(
    bench: Bench, words: tuple[str, ...], said: str, tmp_path: Path, capsys: Any
) -> None:
    assert run("--record", str(tmp_path / "records"), *words) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "records").exists()


@pytest.mark.parametrize("card", [False, True])
def test_a_failed_run_leaves_a_record_that_says_so(
    bench: Bench, card: bool, tmp_path: Path, state: Path, capsys: Any
) -> None:
    bench.card = card
    bench.operations = healthy(prompt_attention=kernel(lambda out, inputs: -out if len(out) == 3 else out))
    assert run("--record", str(tmp_path), "--paths", PATH) == 1
    passed = "EXACT" if card else "WITHIN_BOUND"
    assert [case["verdict"] for case in one(tmp_path)["cases"]] == [passed, "EXCEEDS", passed]
    assert list(state.iterdir()) == []
    assert "the run did not pass" in capsys.readouterr().out.strip().splitlines()[-1]


def test_of_a_run_whose_ledger_alone_fails_the_record_is_not_said_to_be_refused(
    bench: Bench, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record holds no slack, and the verifier asks none."""
    bench.card = True
    monkeypatch.setattr(WholeRun, "passed", property(lambda run: False))
    assert run("--record", str(tmp_path), "--paths", PATH) == 1
    assert {case["verdict"] for case in one(tmp_path)["cases"]} == {"EXACT"}
    said = capsys.readouterr().out.strip().splitlines()[-1]
    assert "every case passed, which is all that a record holds" in said
    assert "refuses" not in said


def test_an_interrupted_run_leaves_none(bench: Bench, tmp_path: Path, capsys: Any) -> None:
    def interrupt(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        if len(out) == 3:
            raise KeyboardInterrupt
        return out

    bench.operations = healthy(prompt_attention=kernel(interrupt))
    assert run("--record", str(tmp_path), "--paths", PATH) == 1
    assert records(tmp_path) == []
    assert status(tmp_path) == "interrupted"
    assert "makes no record" in capsys.readouterr().out


def test_a_case_without_output_leaves_none_and_fails(bench: Bench, tmp_path: Path, capsys: Any) -> None:
    def fault(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        if len(out) == 3:
            raise LaunchError("illegal address")
        return out

    bench.operations = healthy(prompt_attention=kernel(fault))
    assert run("--record", str(tmp_path), "--paths", PATH) == 1
    assert records(tmp_path) == []
    assert status(tmp_path) == "complete"
    assert "no record: a case gave no output" in capsys.readouterr().out


def test_a_crash_before_the_output_leaves_none(bench: Bench, tmp_path: Path, capsys: Any) -> None:
    def fault(out: np.ndarray, inputs: Inputs) -> np.ndarray:
        if len(out) == 3:
            raise ZeroDivisionError
        return out

    bench.operations = healthy(prompt_attention=kernel(fault))
    assert run("--record", str(tmp_path), "--paths", PATH) == 1
    assert records(tmp_path) == []
    assert "no record: a case gave no output" in capsys.readouterr().out


@pytest.mark.parametrize("card", [False, True])
def test_a_crash_after_the_output_is_in_the_record_which_opens_nothing(
    bench: Bench, card: bool, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The output was right and is shown; that the case was not judged to its end is said, and nobody accepts it."""
    keep = Keeper.keep

    def crash(self: Keeper, path: Any, case: Any, inputs: Any, out: np.ndarray, *others: Any) -> None:
        keep(self, path, case, inputs, out, *others)
        if len(out) == 3:
            raise ZeroDivisionError

    bench.card = card
    monkeypatch.setattr(Keeper, "keep", crash)
    assert run("--record", str(tmp_path), "--paths", PATH) == 1
    found = one(tmp_path)
    assert [case["verdict"] == "NOT_RUN" for case in found["cases"]] == [False, True, False]
    assert list(state.iterdir()) == []
    assert "the run did not pass" in capsys.readouterr().out.strip().splitlines()[-1]
    said = [refusal.reason for refusal in cheap(Subject(found, source_digests()))]
    assert any(reason.startswith("case 1:") for reason in said)
    local = of_value(found, "0" * 64, local=True)
    for capability in (75, 90):
        assert not decide(PATHS[PATH], named(capability), of_path(PATHS[PATH]), [local]).open


def test_a_card_beside_a_compiler_predicts_every_bit(bench: Bench, tmp_path: Path, state: Path) -> None:
    bench.card = True
    assert run("--record", str(tmp_path), "--paths", PATH) == 0
    found = one(tmp_path)
    assert records(state / "records") == [found]
    assert found["provenance"]["capability"] == 90
    for case in found["cases"]:
        assert case["prediction"] == {"readings": ["sm_90"], "compared": case["rows"] * 256, "differing": 0}
        assert case["verdict"] == "EXACT"


def test_a_card_without_a_compiler_makes_a_record_all_the_same(bench: Bench, tmp_path: Path, capsys: Any) -> None:
    bench.card, bench.compiler = True, False
    assert run("--record", str(tmp_path), "--paths", PATH) == 0
    found = one(tmp_path)
    assert {case["verdict"] for case in found["cases"]} == {"WITHIN_BOUND"}
    assert all(case["prediction"] is None for case in found["cases"])
    assert found["provenance"]["compiler"] is None
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert "left to the verifier" in last
    assert "kept for this machine" in last


def test_a_record_that_cannot_be_kept_for_this_machine_is_one_all_the_same(
    bench: Bench, tmp_path: Path, state: Path, capsys: Any
) -> None:
    bench.card = True
    (state / "records").write_text("")
    assert run("--record", str(tmp_path), "--paths", PATH) == 0
    assert len(records(tmp_path)) == 1
    assert "not kept for this machine: cannot write" in capsys.readouterr().out.strip().splitlines()[-1]


def test_a_record_that_finds_no_room_is_no_verdict(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The cases passed and are kept; 1 would say that one did not."""
    replace_file = os.replace

    def full(draft: Path, file: Path) -> None:
        if file.name != "run.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace_file(draft, file)

    monkeypatch.setattr(os, "replace", full)
    assert run("--record", str(tmp_path), "--paths", PATH) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]
    assert status(tmp_path) == "complete"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: cannot write ")
    assert line.endswith("No space left on device")


def test_the_ledger_is_asked_about_the_profile_alone(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cases that a record holds once count as often as the profile plans them; the required sizes do not count."""
    seen: list[list[str]] = []

    def review(asked: Any, results: Any, *rest: Any) -> Any:
        seen.append([result["case"] for result in results])
        return ledger_review.review(asked, results, *rest)

    monkeypatch.setattr("validation.ledger.whole_run.review", review)
    assert run("--record", str(tmp_path), "--paths", PATH) == 0
    assert seen == [[TINY[0].text(), TINY[1].text(), TINY[0].text()]]


def test_a_simulated_turing_card_gives_the_same_record_twice(
    tiny: None, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_before(monkeypatch)
    no_ledger(monkeypatch)
    words = ["parity", "--executor", "lanes", "--rule", "sm_75", "--flavor", "checked", "--paths", PATH]
    values = []
    for name in ("first", "again"):
        assert main([*words, "--record", str(tmp_path / name)]) == 0
        value = one(tmp_path / name)
        value["provenance"]["made"] = "2030-01-31"
        value["timings"] = []
        values.append(value)
    first, again = values
    assert first == again
    path, read = PATHS[PATH], of_value(first, "0" * 64, local=False)
    decision = decide(path, named(75), of_path(path), [read])
    assert not decision.open
    assert "simulated: record 000000000000 ran on the CPU (lanes)" in decision.reason
    assert decision.reason.endswith("which is no evidence for a card")
    assert first["provenance"]["executor"] == "lanes"
    assert first["provenance"]["rule"] == "sm_75"
    assert first["provenance"]["capability"] is None
    assert all(name.startswith("k8_") for name in first["identification"]["vectors"])
    assert list(state.iterdir()) == []
    assert {image["entry"] for image in first["images"]} == {PATHS[PATH].operation}
    assert {name for image in first["images"] for name in image["sources"]} <= set(first["sources"])
    assert all(image["loaded"] == image["arch"] for image in first["images"])
