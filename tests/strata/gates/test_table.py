"""The table shows every gated path, with a reason and a way, on every device asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strata.device import LANES, Device, named
from strata.gates.installed import InstalledGate
from strata.gates.table import Table
from strata.switches import Switches, read
from tests.strata.gates import builder

SM75, SM80 = "prompt_attention/q4_0/sm75", "prompt_attention/q4_0/sm80"
H200 = Device("NVIDIA H200", 90, (13, 0), 13, (75, 80, 90))


@pytest.fixture
def gate(tmp_path: Path) -> InstalledGate:
    """One accepted record of q4_0 from an H200, one of this machine that is damaged."""
    builder.write(builder.value([SM80], builder.HOPPER), tmp_path / "accepted")
    own = tmp_path / "state" / "records"
    own.mkdir(parents=True)
    (own / f"{'0' * 64}.json").write_text("{}")
    return InstalledGate({"STRATA_STATE_DIR": str(tmp_path / "state")}, tmp_path / "accepted")


def test_lines(gate: InstalledGate) -> None:
    lines = Table.of([H200, LANES], read({"STRATA_PROMPT_ATTN_OLD": "2"}), gate).text().splitlines()
    assert lines[0] == "records: 1 accepted, 0 of this machine"
    assert lines[1] == "problem: STRATA_PROMPT_ATTN_OLD='2': expected 0 or 1; counts as absent"
    assert lines[2].startswith(f"problem: record {'0' * 64}.json is left out: ")
    assert lines[4] == "NVIDIA H200, compute capability 9.0"
    for name in builder.PROMPT:
        assert sum(line.strip().startswith(name) for line in lines) == 2
    at = next(index for index, line in enumerate(lines) if line.startswith(f"  {SM80} "))
    assert lines[at].split() == [SM80, "open", "served", "by", SM80]
    assert lines[at + 1].startswith("    why: record ")
    at = next(index for index, line in enumerate(lines) if line.startswith(f"  {SM75} "))
    assert lines[at].split() == [SM75, "locked", "served", "by", SM80]
    assert "no accepted record from compute capability 7.5" in lines[at + 1]
    assert lines[at + 2] == "    way: a card of compute capability 7.5 opens it by `nox -s parity -- --record`"


def test_what_else_keeps_a_path_from_serving_is_shown(gate: InstalledGate) -> None:
    """A switch on an open path; a switch that is missing on Turing; nothing where only the gate is in the way."""
    text = Table.of([H200], read({"STRATA_PROMPT_ATTN_Q4": "0"}), gate).text()
    (but,) = (line for line in text.splitlines() if line.startswith("    but: ") and "expert_fused" not in line)
    assert but.endswith(f"instead of {SM80}: STRATA_PROMPT_ATTN_Q4=0 asks for it")
    assert "switch: STRATA_PROMPT_ATTN_Q4=0" in text
    text = Table.of([named(75)], Switches(), gate).text()
    (but,) = (line for line in text.splitlines() if line.startswith("    but: ") and "expert_fused" not in line)
    assert "STRATA_PROMPT_ATTN_Q4_TC=1 asks" in but
    assert "but: no path of prompt_attention/fp16 can run" in Table.of([named(52)], Switches(), gate).text()


def test_json_says_the_same(gate: InstalledGate) -> None:
    value = json.loads(Table.of([H200, named(75)], Switches(), gate).json())
    assert value["records"] == {"accepted": 1, "local": 0}
    assert len(value["problems"]) == 1
    assert [device["capability"] for device in value["devices"]] == ["9.0", "7.5"]
    for device in value["devices"]:
        assert [row["path"] for row in device["paths"]] == builder.GATED
        assert all(row["reason"] and bool(row["way"]) != row["open"] for row in device["paths"])
    (row,) = (row for row in value["devices"][0]["paths"] if row["open"])
    assert (row["path"], row["served"]["path"], row["served"]["target"]) == (SM80, SM80, "sm_90")
