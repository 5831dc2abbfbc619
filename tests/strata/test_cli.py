"""The command as a user runs it: what it prints, and its exit status."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import pytest

from strata import cli
from strata.device import PINNED_ARCHS, Device
from strata.executors import cache
from strata.executors.base import ExecutorUnavailable
from strata.kernels.expert_fused import LARGE
from strata.kernels.expert_probe import Probed
from strata.switches import SWITCHES
from tests.strata.gates import builder


@pytest.fixture(autouse=True)
def _no_records_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STRATA_STATE_DIR", str(tmp_path))
    for name in ("STRATA_PROMPT_ATTN_OLD", "STRATA_PROMPT_ATTN_Q4", "STRATA_PROMPT_ATTN_Q4_TC", "STRATA_SELECT_SIMT"):
        monkeypatch.delenv(name, raising=False)


def no_card() -> Device:
    raise ExecutorUnavailable("no driver; install one")


def test_gate_of_a_named_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["gate", "--capability", "7.5"]) == 0
    out = capsys.readouterr().out
    assert "compute capability 7.5" in out
    assert "`nox -s parity -- --record`" in out


def test_gate_of_every_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["gate", "--all", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    known = {f"{arch // 10}.{arch % 10}" for archs in PINNED_ARCHS.values() for arch in archs if arch >= 60}
    assert {device["capability"] for device in value["devices"]} == known


def test_gate_of_this_machine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With a card its own record opens its path, and accepted ones those whose bits are the same on every card; without
    one the table is that of lanes, and says why."""
    path = "prompt_attention/int8/sm75"
    builder.write(builder.value([path]), tmp_path / "records")
    monkeypatch.setattr(cli, "this_machine", lambda: Device("NVIDIA T4", 75, (13, 0), 13, (75, 80)))
    assert cli.main(["gate", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["records"]["local"] == 1
    assert [row["path"] for row in value["devices"][0]["paths"] if row["open"]] == [path, "block_select/fp32/simt"]
    monkeypatch.setattr(cli, "this_machine", no_card)
    assert cli.main(["gate"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("no card: no driver; install one\n")
    # A summary: three operations in two tiers and one in three, and the one command that opens each.
    assert out.count(": 0 of ") == 9
    assert len(out.splitlines()) < 36
    assert out.splitlines()[-1] == "a reason for each path: `strata gate --each`"
    assert cli.main(["gate", "--each"]) == 0
    assert capsys.readouterr().out.count("  locked  ") == len(builder.GATED)
    # Without a card nothing but JSON goes where JSON was asked for.
    assert cli.main(["gate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["devices"][0]["capability"] is None


@pytest.mark.parametrize("text", ["75", "7.55", "", "-7.5", "seven", "7.5 "])
def test_a_bad_capability_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["gate", f"--capability={text}"]) == 2
    assert capsys.readouterr().err == f"strata: --capability {text!r}: expected major.minor, e.g. 7.5\n"


def test_the_switches_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["switches"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for switch in SWITCHES.values():
        at = lines.index(f"{switch.name}={switch.expected}")
        assert lines[at + 1].startswith(f"  {switch.meaning}")
        assert lines[at + 1].endswith("library so far.") is switch.library


def test_doctor_reports_switches(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("STRATA_PROMPT_ATTN_OLD", "1")
    monkeypatch.setenv("STRATA_PROMPT_ATTN_Q4", "off")
    monkeypatch.setenv("STRATA_PROMPT_ATTN_Q4TC", "1")
    monkeypatch.setenv("STRATA_SELECT_SIMT", "1")
    monkeypatch.setenv("STRATA_PREFILL_HEAD_LOAN", "1")
    monkeypatch.setattr(cli, "_report", lambda name: True)
    assert cli.main(["doctor"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("switches ")]
    assert lines == [
        "switches STRATA_PREFILL_HEAD_LOAN=1",
        "switches STRATA_PROMPT_ATTN_OLD=1",
        "switches STRATA_SELECT_SIMT=1",
        "switches STRATA_PREFILL_HEAD_LOAN=1 acts only in the library so far: no engine in this version reads it",
        "switches STRATA_PROMPT_ATTN_Q4='off': expected 0 or 1; counts as absent",
        "switches STRATA_PROMPT_ATTN_Q4TC='1': no such switch, it has no effect; "
        "the nearest known name is STRATA_PROMPT_ATTN_Q4_TC",
        "switches STRATA_PREFILL_HEAD_LOAN=1 has no effect without STRATA_PREFILL_ELASTIC_LOAN=1",
    ]


def test_doctor_tells_what_the_probe_says_of_each_format(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Card:
        capability = 75

        def describe(self) -> dict[str, object]:
            return {"executor": "cuda", "device": "a T4"}

    def tried(form: str, shape: int) -> Probed:
        return Probed(form, shape, "no block fits a multiprocessor" if (form, shape) == ("iq2_s", LARGE) else "")

    monkeypatch.setattr(cli, "open_executor", lambda name: Card())
    monkeypatch.setattr(cli, "first_launch", lambda executor: None)
    monkeypatch.setattr(cli, "probes", lambda executor: tried)
    assert cli._report("cuda")
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("experts  ")]
    assert len(said) == 16
    assert "experts  iq2_s at 256 x 64: no block fits a multiprocessor" in said
    monkeypatch.setattr(Card, "capability", 61)
    assert cli._report("cuda")
    assert "experts  this card has no fused path to probe" in capsys.readouterr().out


def no_card_to_open(target: str | None = None) -> None:
    raise ExecutorUnavailable("no driver; install one")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A command that answers as a compiler and does its first argument when it is asked to compile; no card, and a
    cache of its own."""
    file = tmp_path / "stand-in"
    file.write_text(
        "#!/bin/sh\ndoes=$1\nfor last; do :; done\n"
        'case "$*" in *--version) echo 1.0 ;; *unit.cpp*) eval "$does" ;; esac\n'
    )
    file.chmod(0o700)
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("strata.executors.cuda.CudaExecutor", no_card_to_open)
    return str(file)


@pytest.mark.parametrize(
    ("compiler", "said"),
    [
        ("true", "`true` reports no error and compiles nothing: CXX must name a C++ compiler, such as g++ or clang++"),
        ("{stand_in} ':'", "reports no error and compiles nothing: CXX must name"),
        (
            "{stand_in} 'yes compiled | head -c 4096 > \"$last\"'",
            "invalid ELF header; the compiler makes code for another",
        ),
        ("{stand_in} 'echo no such option >&2; exit 1'", "cannot compile for this machine: no such option; set CXX"),
    ],
)
def test_doctor_says_no_where_a_compiler_answers_and_does_not_compile(
    compiler: str,
    said: str,
    stand_in: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("CXX", compiler.format(stand_in=stand_in))
    assert cli.main(["doctor"]) == 2
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith("lanes ")]
    assert line.startswith("lanes    not available: ")
    assert said in line
    assert "STRATA_CACHE_DIR" not in line
    assert out.endswith("no kernel can run here\n")
    assert list((tmp_path / "cache").iterdir()) == []


def test_doctor_says_no_where_what_is_compiled_cannot_be_loaded(
    stand_in: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that is mounted noexec: all of it can be written, and nothing of it runs."""

    def refuse(path: str) -> None:
        raise OSError(f"{path}: failed to map segment from shared object")

    monkeypatch.setenv("CXX", f"{stand_in} 'echo compiled > \"$last\"'")
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert cli.main(["doctor"]) == 2
    out = capsys.readouterr().out
    assert (
        "failed to map segment from shared object; nothing may be run from there (a noexec mount?), set STRATA_CACHE"
        in out
    )
    assert "CXX" not in out


def test_doctor_tries_no_executor_without_a_cache(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A small kernel may still find room there; that would be a yes beside a no."""
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    assert cli.main(["doctor"]) == 2
    out = capsys.readouterr().out
    assert "cache    NOT USABLE: " in out
    assert "lanes and cuda are not tried" in out
    assert "available" not in out


def test_doctor_says_how_large_the_cache_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cli, "_report", lambda name: True)

    def make(folder: Path) -> None:
        (folder / "image").write_bytes(bytes(3_000_000))

    cache.entry("one-entry", make)
    assert cli.main(["doctor"]) == 0
    assert "         1 entry, 3 MB: nothing is deleted by itself" in capsys.readouterr().out
