"""Asking the controls: what is empty, raises or is wrong voids a run, and nothing makes that green again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from tests.validation.stub import asked_before, proved
from validation.__main__ import main
from validation.controls import self_test, values
from validation.core.control import Answer, Control, answer, failed
from validation.core.verdict import Check, Verdict
from validation.operations.attention import gates


def test_all_controls_are_right_and_have_names_of_their_own() -> None:
    answers = proved()
    assert failed(self_test.flat(answers)) == []
    assert set(answers) == {*self_test.GROUPS, self_test.FLOOR}
    assert {group: [one.name for one in answers[group]] for group in self_test.GROUPS} == self_test.names()
    names = [one.name for one in self_test.flat(answers)]
    assert len(set(names)) == len(names) > 500


def test_a_wrong_answer_is_one_line() -> None:
    one = answer(Control("within/row", lambda: "EXACT", "VOID"))
    assert not one.right
    assert one.line() == "control within/row: got EXACT, expected VOID"


def test_what_raises_is_wrong() -> None:
    def crash() -> str:
        raise ZeroDivisionError("by\nzero")

    assert answer(Control("a/b", crash, "EXACT")).line() == "control a/b: got ZeroDivisionError: by, expected EXACT"


def test_ctrl_c_is_not_an_answer() -> None:
    def stop() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answer(Control("a/b", stop, "EXACT"))


def test_groups_that_are_empty_or_cannot_be_made_are_wrong() -> None:
    def crash() -> Iterator[Control]:
        yield Control("a/b", lambda: "x", "x")
        raise RuntimeError("no rows")

    found = self_test.prove({"empty": lambda: iter(()), "crash": crash})
    assert [one.line() for one in failed(self_test.flat(found))] == [
        "control empty/rows: got none, expected rows",
        "control crash/rows: got RuntimeError: no rows, expected rows",
    ]
    assert failed([]) == [Answer("controls", "none", "controls")]


def test_a_control_that_is_not_asked_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a group one control, and a whole group: both leave every other answer right. Which are asked is looked at, not
    what they answer."""

    def right(control: Control) -> Answer:
        floor = control.name.startswith("floor/")
        return answer(control) if floor else Answer(control.name, control.expected, control.expected)

    monkeypatch.setattr(self_test, "answer", right)
    fewer: dict[str, Callable[[], Iterator[Control]]] = {
        group: (lambda: islice(values.holds(), 1, None)) if group == "comparator holds" else make
        for group, make in self_test.GROUPS.items()
        if group != "seeds"
    }
    monkeypatch.setattr(self_test, "GROUPS", fewer)
    (wrong,) = failed(self_test.flat(self_test.prove(fewer)))
    assert wrong.line() == (
        "control floor/controls: got controls lacks comparator holds: holds/yes and 1 more "
        "(python -m validation floor --update --reason TEXT lowers the floor), expected whole"
    )


@pytest.mark.parametrize("words", [["controls"], ["parity", "--executor", "lanes", "--paths", "combine/*"]])
def test_a_cache_that_cannot_be_used_is_no_verdict(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(self_test, "prove", lambda: self_test.ask("flags", self_test.GROUPS["flags of compilation"]))
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert "control " not in out
    assert err.count("error: ") == 1


def test_the_command_prints_a_table_and_exits_0(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_before(monkeypatch)
    assert main(["controls"]) == 0
    shown = capsys.readouterr().out
    assert "comparator within" in shown
    assert "controls are right." in shown


def test_the_command_names_each_wrong_answer_and_exits_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        gates, "baseline_within_bound", lambda old, truth: Check("baseline bound", Verdict.WITHIN_BOUND)
    )
    monkeypatch.setattr(self_test, "prove", partial(self_test.prove, {"gates": self_test.GROUPS["gates"]}))
    assert main(["controls"]) == 1
    assert "control anchor/flipped: got WITHIN_BOUND, expected EXCEEDS" in capsys.readouterr().out
