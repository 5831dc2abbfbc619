"""The fuzz command: kinds take turns, what failed is told with the command that runs it again, and kept in a file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from strata.executors.base import ExecutorUnavailable, StrataError
from strata.kernels.paths import PATHS
from tests.validation.stub import StubExecutor
from validation.__main__ import main, parser
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.fuzz import command as fuzz
from validation.host import whole_file
from validation.operations import registry

#: Kinds of configurations, which take turns, the most modes of one, and the place of combining among them.
FUZZED = [(path, registry.of(path).fuzz) for path in PATHS.values()]
KINDS = len({kind for _, kind in FUZZED if kind is not None})
MODES = max(len({path.mode for path, own in FUZZED if own == kind}) for _, kind in FUZZED if kind is not None)
COMBINING = 3


@dataclass(frozen=True)
class What:
    index: int
    mode: str

    def text(self) -> str:
        return f"#{self.index} of {self.mode}"


#: What a stand-in's run of (path, index) gives: a result, or something to raise.
Ends = dict[tuple[str, int], Any]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Ends:
    """Stand-ins for the kinds, all of whose runs are sound but those set here."""
    chosen: Ends = {}

    def configuration(seed: int, index: int, modes: Sequence[str], checked: bool) -> What:
        assert checked
        return What(index, modes[index % len(modes)])

    def compare(executor: Any, seed: int, what: What, path: Any) -> Compared:
        end = chosen.get((path.name, what.index), Compared(what.text(), path.name, 10))
        if isinstance(end, BaseException):
            raise end
        assert isinstance(end, Compared)
        return end

    made: dict[FuzzKind, FuzzKind] = {}
    for operation in registry.found().values():
        if operation.fuzz is not None:
            kind = made.setdefault(operation.fuzz, FuzzKind(configuration, compare))
            monkeypatch.setattr(operation, "fuzz", kind)
    monkeypatch.setattr(fuzz, "open_executor", lambda *_, **__: StubExecutor())
    return chosen


def held(directory: Path) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = json.loads((directory / "fuzz.json").read_text())["results"]
    return results


def test_kinds_and_their_modes_take_turns(ends: Ends, tmp_path: Path) -> None:
    assert main(["fuzz", "--count", str(MODES * KINDS), "--out", str(tmp_path)]) == 0
    ran = {result["path"] for result in held(tmp_path)}
    assert ran == {name for name in PATHS if not name.startswith("kv_pack/")}


def test_a_pattern_s_modes_take_turns(ends: Ends, tmp_path: Path) -> None:
    assert main(["fuzz", "--count", "4", "--paths", "expert_*/iq2_s/*", "--out", str(tmp_path)]) == 0
    told = [result["configuration"] for result in held(tmp_path)]
    assert len(told) == 4 * 5  # both operations with tiers in two, the decode-width kernel in one
    assert set(told) == {f"#{i} of iq2_s/{('iq4_nl', 'q2_0')[i % 2]}" for i in range(4)}


WRONG = [
    Compared("#3", "", 10, differing=1),
    Compared("#3", "", 10, guards=False),
    Compared("#3", "", 10, said="9 pairs ignored, expected 8"),
    StrataError("lanes: a thread read beyond its buffer"),
]


@pytest.mark.parametrize("end", WRONG, ids=["a bit", "a guard", "a count", "a run"])
def test_what_is_wrong_fails_and_is_run_again(
    ends: Ends, end: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dataclasses import replace

    name = "combine/fp32/simt"
    ends[name, 3] = replace(end, path=name) if isinstance(end, Compared) else end
    assert main(["fuzz", "--count", str(5 * KINDS), "--out", str(tmp_path)]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "python -m validation" in line]
    assert "1 of" in line or "guards False" in line or "ignored" in line or "beyond" in line
    again = parser().parse_args(shlex.split(line.partition("python -m validation ")[2]))
    assert (again.first, again.count, again.paths) == (3, 1, name)
    assert main(["fuzz", "--count", "1", "--first", "3", "--paths", name]) == 1
    assert main(["fuzz", "--count", "1", "--first", "4", "--paths", name]) == 0
    assert len(held(tmp_path)) > 5 * KINDS  # the others ran


@pytest.mark.parametrize(
    ("end", "status", "word"),
    [
        (ExecutorUnavailable("cannot allocate memory in static TLS block"), 2, "failed"),
        (KeyboardInterrupt(), 1, "interrupted"),
    ],
)
def test_what_is_finished_is_kept_and_the_rest_is_told(
    ends: Ends, end: BaseException, status: int, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ends["combine/fp32/simt", 3] = end
    out = tmp_path / "fuzz"
    assert main(["fuzz", "--count", str(5 * KINDS), "--seed", "5", "--out", str(out)]) == status
    first = held(out)
    assert json.loads((out / fuzz.NAME).read_text())["status"] == word
    shown = capsys.readouterr().out
    done = 3 * KINDS + COMBINING
    assert f"{word}: {done} of {5 * KINDS} configurations are finished" in shown
    (line,) = [line for line in shown.splitlines() if "python -m validation" in line]
    words = shlex.split(line.partition("python -m validation ")[2])
    del ends["combine/fp32/simt", 3]
    assert main(words) == 0
    rest = held(tmp_path / f"fuzz-from-{done}")
    assert main(["fuzz", "--count", str(5 * KINDS), "--seed", "5", "--out", str(out)]) == 0
    again = first + rest
    assert len({(one["path"], one["configuration"]) for one in again}) == len(held(out))


@pytest.mark.parametrize("count", [1, 2])
def test_a_full_disk_keeps_nothing_and_says_so(
    ends: Ends, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the command for the rest is there only where something is left: `--count 0` is refused."""

    def full(*arguments: Any) -> None:
        raise StrataError("no space left")

    monkeypatch.setattr(whole_file, "write", full)
    assert main(["fuzz", "--paths", "router/*", "--count", str(count), "--out", str(tmp_path)]) == 2
    (said,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("failed: ")]
    assert f"1 of {count} configurations are finished" in said
    assert f"not kept: {tmp_path / fuzz.NAME} is not written" in said
    assert ("python -m validation fuzz --first 1 --count 1" in said) == (count == 2)
    assert not (tmp_path / fuzz.NAME).exists()


def test_a_fault_of_the_harness_is_one_result(ends: Ends, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends["combine/fp32/simt", 3] = ZeroDivisionError("x")
    assert main(["fuzz", "--count", str(5 * KINDS), "--out", str(tmp_path)]) == 1
    (wrong,) = [one for one in held(tmp_path) if one["said"]]
    assert wrong["said"].startswith("unforeseen ZeroDivisionError at tests/validation/fuzz/test_command.py:")
    assert len(held(tmp_path)) > 5 * KINDS


def test_nothing_can_run_is_exit_2(ends: Ends, capsys: pytest.CaptureFixture[str]) -> None:
    ends["router/fp32/simt", 0] = ExecutorUnavailable("no compiler")
    assert main(["fuzz", "--count", "1", "--paths", "router/*"]) == 2
    assert "no compiler" in capsys.readouterr().err


def test_an_option_that_means_nothing_here_is_refused(ends: Ends, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fuzz", "--count", "1", "--paths", "router/*"]
    assert main([*words, "--target", "sm_90"]) == 2
    assert "--target is sm_90, an image for a card; expected none where lanes run" in capsys.readouterr().err
    assert main([*words, "--rule", "8,24"]) == 0


def test_the_command_of_a_failure_keeps_the_rule(ends: Ends, capsys: pytest.CaptureFixture[str]) -> None:
    ends["router/fp32/simt", 0] = Compared("#0", "router/fp32/simt", 10, differing=1)
    assert main(["fuzz", "--count", "1", "--paths", "router/*", "--rule", "8,24"]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "python -m validation" in line]
    again = parser().parse_args(shlex.split(line.partition("python -m validation ")[2]))
    assert (again.rule, again.executor, again.target) == ("8,24", "lanes", None)


@pytest.mark.parametrize(
    ("option", "value"), [("--out", ""), ("--count", "1_0"), ("--seed", "\u0661"), ("--target", "")]
)
def test_bad_options_are_named(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["fuzz", option, value])
    assert caught.value.code == 2
    assert f"argument {option}: {value!a}: expected " in capsys.readouterr().err


def test_bad_input_ends_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--paths", "prompt_attentoin/*", "--executor", "lanes"]) == 2
    assert main(["fuzz", "--paths", "kv_pack/*", "--executor", "lanes"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert "prompt_attentoin/*" in errors[0]
    assert "kv_pack is not fuzzed" in errors[1]
