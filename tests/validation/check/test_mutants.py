"""What becomes of mutants: killed by a verdict, by time or by a crash; no mutants at all; or a question."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strata.executors.base import BuildError, Kernel, LaunchError, StrataError
from tests.validation.check.fake import FILE, FakeExecutor, kernel, rows
from validation.check import mutant_worker, mutants
from validation.check.load import Loaded
from validation.check.mutant_worker import KILLED, NOT_COMPILED, SAME, SURVIVED, Bench, in_place, judge
from validation.check.mutants import DIED, ENDLESS, Matrix, Trial, tried
from validation.check.source_mutants import ROUNDING_KINDS, SourceMutant, generate

SOURCE = FILE.with_suffix(".cu").read_text()
MUTANTS = generate(SOURCE, "rows.cu", {"THREADS": 64})
CASES: list[tuple[str, int | None]] = [
    ("recipe=plain seed=1 rows=3 width=65", None),
    ("recipe=equal seed=1 rows=3 width=5", 3),
]


class FakeLanes(FakeExecutor):
    """Builds what its text lets it: a source with `garbage` does not compile, and its first line says which program it
    is; one with `races` breaks a rule in the second case."""

    def __init__(self, rule: str, flavor: str, seed: int | None, threads: int) -> None:
        super().__init__(self.work)
        self.flavor, self.seed = flavor, seed
        self.text = ""

    def work(self, *arguments: Any) -> None:
        rows(*arguments)
        if "races" in self.text and arguments[-1] == 5:
            raise LaunchError("rows: rows.cu:9: race")

    def build(self, kernel: Kernel) -> Any:
        image = super().build(kernel)
        self.text = kernel.path.read_text()
        if "garbage" in self.text:
            raise BuildError("rows.cu:1: error")
        return image

    def launch(self, kernel: Kernel, *arguments: Any, **named: Any) -> Any:
        self.build(kernel)
        return super().launch(kernel, *arguments, **named)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(mutant_worker, "LanesExecutor", FakeLanes)
    monkeypatch.setattr(mutant_worker, "_allow", lambda seconds: None)  # of this very process
    return Bench(f"{FILE}:rows", CASES, "exact", 1)


def judged(bench: Bench, text: str, directory: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    say = io.StringIO()
    answer = judge(bench, {"text": text, "span": (0, 2), "new": text[:2]}, directory, say)
    return [json.loads(line) for line in say.getvalue().splitlines()], answer


def test_a_mutant_that_a_case_refuses_is_killed_by_its_check(bench: Bench, tmp_path: Path) -> None:
    said, answer = judged(bench, f"// races\n{SOURCE}", tmp_path)
    assert said == [{"fate": "built"}]
    assert answer == {"fate": KILLED, "check": "rules", "reason": "rows: rows.cu:9: race", "case": CASES[1][0]}


def test_a_mutant_that_does_not_compile_is_none(bench: Bench, tmp_path: Path) -> None:
    said, answer = judged(bench, "garbage", tmp_path)
    assert (said, answer["fate"]) == ([], NOT_COMPILED)


def test_a_mutant_that_every_case_passes_survives_unless_it_is_the_same_program(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judged(bench, SOURCE, tmp_path)[1] == {"fate": SAME}
    monkeypatch.setattr(Bench, "same", lambda self, loaded: False)
    assert judged(bench, SOURCE, tmp_path)[1] == {"fate": SURVIVED}


def test_an_edit_in_place_leaves_lines_and_columns_behind_it() -> None:
    source = "one\ntwo = f(a, b); g();\nthree\n"
    first = source.index("f(a")
    edited = in_place(source, (first, first + len("f(a, b)")), "h(a)")
    assert edited.splitlines() == ["one", "two = h(a)", "#line 2", " " * len("two = f(a, b)") + "; g();", "three"]


def test_a_mutant_is_read_from_its_own_directory(tmp_path: Path) -> None:
    (tmp_path / "rows.cu").write_text("mutated")
    own = kernel()
    other = Loaded(own.kernel, own.file, tmp_path)
    assert (other.text, other.image().path) == ("mutated", tmp_path / "rows.cu")
    assert own.image().path == FILE.with_suffix(".cu")


#: A stand-in for the process that judges: what it does with a mutant stands in the mutant.
_SCRIPT = """
import json, os, signal, sys, time
first = json.loads(sys.stdin.readline())
for line in sys.stdin:
    text = json.loads(line)["text"]
    if "REFUSED" in text:
        print("error: the disk is full", file=sys.stderr)
        sys.exit(2)
    print(json.dumps({"fate": "built"}), flush=True)
    for name in ("SIGXCPU", "SIGSEGV"):
        if name in text:
            os.kill(os.getpid(), getattr(signal, name))
    if "SLOW" in text:
        time.sleep(600)
    print(json.dumps({"fate": "survived"}), flush=True)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "script.py").write_text(_SCRIPT)
    monkeypatch.setattr(mutants, "PROGRAM", ("-S", str(tmp_path / "script.py")))


def doing(word: str) -> SourceMutant:
    return SourceMutant(f"rows-{word}", "constant", "rows.cu", 1, "//", f"// {word}", (0, 2), f"is it {word}?")


def trials_of(*words: str) -> dict[str, Trial]:
    done: list[Trial] = []
    tried(kernel(), [doing(word) for word in words], [], "exact", 0.1, done.append, workers=2)
    return {trial.mutant.new.removeprefix("// "): trial for trial in done}


@pytest.mark.usefixtures("script")
def test_a_mutant_that_never_ends_or_crashes_is_killed_and_the_others_are_judged() -> None:
    done = trials_of("a", "SIGXCPU", "b", "SIGSEGV", "c")
    assert {word: (trial.fate, trial.check) for word, trial in done.items()} == {
        "a": (SURVIVED, ""),
        "SIGXCPU": (KILLED, ENDLESS),
        "b": (SURVIVED, ""),
        "SIGSEGV": (KILLED, DIED),
        "c": (SURVIVED, ""),
    }
    assert "SIGSEGV" in done["SIGSEGV"].reason
    assert "s of processor time" in done["SIGXCPU"].reason


@pytest.mark.usefixtures("script")
def test_a_process_that_cannot_judge_is_no_kill() -> None:
    with pytest.raises(StrataError, match=r"^the process that judges mutants ended: the disk is full$"):
        trials_of("REFUSED")


@pytest.mark.usefixtures("script")
def test_an_interrupt_ends_what_runs_and_keeps_what_is_finished() -> None:
    done: list[Trial] = []

    def finished(trial: Trial) -> None:
        done.append(trial)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tried(kernel(), [doing("a"), doing("SLOW"), doing("SLOW")], [], "exact", 0.1, finished, workers=2)
    assert len(done) == 1


def test_processor_time_is_what_ends_an_endless_loop() -> None:
    program = "from validation.check.mutant_worker import _allow\n_allow(None)\n_allow(0)\nwhile True: pass\n"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGXCPU


def trial(number: int, fate: str, check: str = "") -> Trial:
    return Trial(MUTANTS[number], fate, check)


def test_the_matrix_counts_and_asks() -> None:
    others = [i for i, one in enumerate(MUTANTS) if one.kind not in ROUNDING_KINDS]
    matrix = Matrix(len(MUTANTS), 6)
    matrix.trials += [trial(others[0], KILLED, "bound"), trial(others[1], KILLED, "bound")]
    matrix.trials += [trial(others[2], KILLED, "rules"), trial(others[3], SURVIVED), trial(others[4], SAME)]
    lines = matrix.lines()
    assert lines[0].startswith("3 of 4 mutants of the source were killed (1 not tried, 1 compile to the same program, ")
    assert lines[1] == "killed by: bound 2, rules 1"
    assert lines[2:] == [MUTANTS[others[3]].question]
    assert [one["fate"] for one in matrix.record()["trials"]] == [KILLED, KILLED, KILLED, SURVIVED, SAME]


def test_a_survivor_that_rounds_otherwise_is_no_question() -> None:
    fma = SourceMutant("rows-fma-9", "fma", "rows.cu", 9, "//", "//", (0, 2), "nothing here notices it")
    matrix = Matrix(1, 1, [Trial(fma, SURVIVED)])
    assert not matrix.survivors
    assert "a model of the bits, `exact`, would tell: rows.cu:9" in matrix.lines()[-1]


def test_usual_mutants_are_spread_over_the_kinds() -> None:
    some, made = mutants.chosen(kernel(), 12)
    assert (len(some), made) == (12, len(MUTANTS))
    assert len({one.kind for one in some}) > 8
    assert mutants.chosen(kernel(), len(MUTANTS) + 1)[0] == MUTANTS


def test_mutants_are_chosen_by_their_names() -> None:
    assert mutants.chosen(kernel(), "*") == (MUTANTS, len(MUTANTS))
    barriers, made = mutants.chosen(kernel(), "rows-barrier-*")
    assert barriers == [one for one in MUTANTS if one.kind == "barrier"] != []
    assert made == len(MUTANTS)
    with pytest.raises(
        StrataError, match=r"^--mutants is 'rows-nothing-\*', expected one of [0-9]+ names such as rows-"
    ):
        mutants.chosen(kernel(), "rows-nothing-*")
