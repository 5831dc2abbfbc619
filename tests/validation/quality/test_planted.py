"""Planted faults: what is copied, what must have run, and when one counts as seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strata.executors.base import StrataError
from validation.core.verdict import Verdict
from validation.mutants.faults import table
from validation.quality import planted
from validation.quality.planted import FAULTS, MOST_FOUND, Planted

KERNEL = "prompt_attention.cu"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The command in the copy does nothing but say what is in `ran`, the copy's own digests unless they are there."""
    told: dict[str, Any] = {
        "gate": {"verdict": "EXCEEDS", "reason": "all of them", "b": "q4_0/tensor"},
        "needles": {"settings": [{"setting": "FP64", "found": 5}, {"setting": "q4_0/tensor", "found": 0, "asked": 5}]},
    }

    def answer(tree: Path, out: Path, name: str, words: list[str]) -> dict[str, Any]:
        import hashlib

        digest = hashlib.sha256((tree / "strata/kernels" / KERNEL).read_bytes()).hexdigest()
        return {"package": str(tree / "strata"), "sources": {KERNEL: digest}} | told

    monkeypatch.setattr(planted, "_answer", answer)
    monkeypatch.setattr(planted, "copy_sources", _kernels)
    return told


def _kernels(tree: Path) -> None:
    """A copy of the one file that the faults are in."""
    file = tree / "strata/kernels" / KERNEL
    file.parent.mkdir(parents=True)
    file.write_text((Path(__file__).parents[3] / "strata/kernels" / KERNEL).read_text())


def test_faults_are_mutants_of_the_path_that_is_judged() -> None:
    assert "v-fold-positive" in FAULTS
    assert len(FAULTS) >= 3
    for name in FAULTS:
        assert table()[name].file == f"strata/kernels/{KERNEL}"
        assert not table()[name].tests


def test_a_fault_that_is_seen(ran: dict[str, Any]) -> None:
    found = planted.run("v-fold-positive", [])
    assert (found.verdict, found.reason, found.found, found.asked) == (Verdict.EXCEEDS, "all of them", 0, 5)
    assert found.seen


def test_other_sources_than_the_copy(ran: dict[str, Any]) -> None:
    ran["package"] = str(Path(planted.__file__).parents[2] / "strata")
    with pytest.raises(StrataError, match=r"planted v-fold-positive: .* ran, expected the copy in "):
        planted.run("v-fold-positive", [])


def test_a_kernel_without_the_fault(ran: dict[str, Any]) -> None:
    ran["sources"] = {KERNEL: "0" * 64}
    with pytest.raises(StrataError, match=f"strata/kernels/{KERNEL} has another digest in the run"):
        planted.run("v-fold-positive", [])


def test_needles_of_another_setting(ran: dict[str, Any]) -> None:
    ran["needles"] = {"settings": [{"setting": "fp16/baseline", "found": 5, "asked": 5}]}
    with pytest.raises(StrataError, match="planted width-one-less: no needles of setting q4_0/tensor"):
        planted.run("width-one-less", [])


def test_a_copy_that_cannot_run(tmp_path: Path) -> None:
    stub(tmp_path, "print(sys.argv[1:])\nsys.exit(2)\n")
    with pytest.raises(
        StrataError, match=r"planted x: the run ended with status 2: \['quality', 'gate', 'needles', '--u"
    ):
        planted._answer(tmp_path, tmp_path / "out", "x", ["--seed", "1"])


def test_a_copy_whose_run_was_ended_has_no_verdict(tmp_path: Path) -> None:
    write = "out = pathlib.Path(sys.argv[sys.argv.index('--out') + 1])\nout.mkdir()\n"
    stub(tmp_path, write + "(out / 'run.json').write_text('{\"status\": \"interrupted\"}')\nsys.exit(1)\n")
    with pytest.raises(StrataError, match="planted x: the run ended with status 'interrupted', expected 'complete'"):
        planted._answer(tmp_path, tmp_path / "out", "x", [])


def stub(tree: Path, body: str) -> None:
    """A package of the command's name in a copy, which does something else."""
    package = tree / "validation"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(f"import pathlib, sys\n{body}")


def test_when_a_fault_counts_as_seen() -> None:
    one = Planted("v-fold-positive", "why", Verdict.EXCEEDS, "reason", MOST_FOUND["v-fold-positive"], 15)
    assert one.seen
    assert not replace(one, found=one.found + 1).seen
    assert replace(one, name="width-one-less", found=15).seen
    for verdict in Verdict:
        assert replace(one, verdict=verdict).flagged == (verdict is Verdict.EXCEEDS)
