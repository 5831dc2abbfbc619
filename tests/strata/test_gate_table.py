"""The table shows every gated path, with a reason and a way, on every device asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strata.device import LANES, Device, named
from strata.gate_table import Table
from strata.gates.installed import InstalledGate
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
    lines = Table.of([H200, LANES], read({"STRATA_PROMPT_ATTN_OLD": "2"}), gate).text(each=True).splitlines()
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
    assert "no accepted record that says compute capability 7.5" in lines[at + 1]
    assert lines[at + 2] == "    way: a card of compute capability 7.5 opens it by `nox -s parity -- --record`"


def test_a_summary_says_how_many_are_open_and_what_opens_the_rest(gate: InstalledGate) -> None:
    """Each operation and tier in a few lines, from the very rows of the table."""
    table = Table.of([H200, named(75), LANES], Switches(), gate)
    lines = table.text().splitlines()
    assert len(lines) < 110 < len(table.text(each=True).splitlines())
    assert lines[-1] == "a reason for each path: `strata gate --each`"
    blocks = [line for line in lines if " open, served by " in line]
    counts = [line.split()[:4] for line in blocks[:9]]
    assert counts == [
        ["prompt_attention/*/sm75:", "0", "of", "4"],
        ["prompt_attention/*/sm80:", "1", "of", "4"],
        ["expert_fused/*/sm75:", "0", "of", "12"],
        ["expert_fused/*/sm80:", "0", "of", "12"],
        ["block_select/*/simt:", "0", "of", "1"],
        ["block_select/*/sm75:", "0", "of", "1"],
        ["block_select/*/sm80:", "0", "of", "1"],
        ["linear/*/sm75:", "0", "of", "15"],
        ["linear/*/sm80:", "0", "of", "15"],
    ]
    assert len(blocks) == 3 * 9
    at = lines.index(next(line for line in lines if "prompt_attention/*/sm80: 1 of 4" in line))
    assert lines[at].endswith("served by decode_attention/*/simt, prompt_attention/*/sm80")
    assert lines[at + 2] == (
        "    way: a card of compute capability 8.0 or newer opens it by `nox -s parity -- --record`"
    )
    unknown = Table.of([named(120)], Switches(), gate).text()
    assert "    but: which tensor-core rule 12.0 follows is not known, so no bits are predicted there\n" in unknown
    opened = sum(row.decision.open for _, rows in table.devices for row in rows)
    assert sum(int(line.split()[1]) for line in blocks) == opened
    assert sum(int(line.split()[3]) for line in blocks) == sum(len(rows) for _, rows in table.devices)


def test_what_else_keeps_a_path_from_serving_is_shown(gate: InstalledGate) -> None:
    """A switch on an open path; a switch that is missing on Turing; nothing where only the gate is in the way."""
    text = Table.of([H200], read({"STRATA_PROMPT_ATTN_Q4": "0"}), gate).text(each=True)
    (but,) = (line for line in text.splitlines() if line.startswith("    but: ") and "prompt_attention" in line)
    assert but.endswith(f"instead of {SM80}: STRATA_PROMPT_ATTN_Q4=0 asks for it")
    assert "switch: STRATA_PROMPT_ATTN_Q4=0" in text
    text = Table.of([named(75)], Switches(), gate).text(each=True)
    (but,) = (line for line in text.splitlines() if line.startswith("    but: ") and "prompt_attention" in line)
    assert "STRATA_PROMPT_ATTN_Q4_TC=1 asks" in but
    assert "but: no path of prompt_attention/fp16 can run" in Table.of([named(52)], Switches(), gate).text(each=True)


def test_each_tier_of_an_operation_has_its_own_remark(gate: InstalledGate, tmp_path: Path) -> None:
    """What another tier is refused for is nothing that this one is told."""
    SIMT, TC = "block_select/fp32/simt", "block_select/fp32/sm80"
    ((_, rows),) = Table.of([H200], read({"STRATA_SELECT_SIMT": "1"}), gate).devices
    remarks = {row.path: row.remark for row in rows if row.path.startswith("block_select/")}
    assert remarks[SIMT] == ""
    assert remarks["block_select/fp32/sm75"] == ""
    assert remarks[TC].startswith(
        f"block_select_warp/fp32/simt instead of {TC}: it serves only where STRATA_SELECT_TC=1 "
    )
    builder.write(builder.value([SIMT], builder.HOPPER), tmp_path / "more")
    opened = InstalledGate({"STRATA_STATE_DIR": str(tmp_path / "none")}, tmp_path / "more")
    ((_, rows),) = Table.of([H200], read({"STRATA_SELECT_SIMT": "1"}), opened).devices
    row = next(row for row in rows if row.path == SIMT)
    assert row.decision.open
    assert row.served.path == SIMT
    assert row.remark == ""
    assert "refused" not in row.told


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
