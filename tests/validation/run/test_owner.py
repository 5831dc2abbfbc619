"""A run whose process is no more is told from one that goes on, and nothing is claimed of other machines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.report.from_run import of_run
from validation.run import owner

pytestmark = pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="only Linux tells of its processes")

ROOT = Path(__file__).parents[3]
_CHILD = """
import json, sys
from validation.run import owner
print(json.dumps(owner.this()), flush=True)
sys.stdin.read()
"""
_junk = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5)


def test_a_process_is_at_work_until_it_ends_even_if_nobody_has_asked() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        noted = json.loads(child.stdout.readline())
        assert noted["pid"] == child.pid
        assert not owner.ended(noted)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the table
        assert owner.ended(noted)
    assert owner.ended(noted)


@pytest.mark.parametrize(
    ("change", "ended"),
    [
        ({}, False),
        ({"began": "1"}, True),  # the number was given again
        ({"pid": (1 << 22) + 1}, True),  # beyond what Linux gives
        ({"pid": 1 << 80}, True),
        ({"boot": "another"}, True),
        ({"boot": "another", "machine": "another"}, False),
        ({"boot": "another", "machine": ""}, False),
        ({"space": "pid:[1]"}, False),
        ({"space": "pid:[1]", "began": "1"}, False),
        ({"began": ""}, False),
        ({"pid": True}, False),
        ({"pid": -1}, False),
    ],
)
def test_only_what_is_known_is_said(change: dict[str, Any], ended: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "_here", lambda: {"boot": "b", "space": "pid:[2]", "machine": "m"})
    assert owner.ended(owner.this() | change) is ended


@given(_junk | st.dictionaries(st.sampled_from(("pid", "began", "boot", "space", "machine")), _junk))
def test_of_what_is_no_note_nothing_is_said(noted: Any) -> None:
    assert owner.ended(noted) is False


def test_the_report_calls_a_dead_run_interrupted() -> None:
    run: dict[str, Any] = {
        "schema": "strata-parity-run/1",
        "status": "running",
        "executor": {"executor": "lanes", "arch": "lanes-x86_64"},
        "cases": [],
        "not_run": [],
        "planned": 1,
        "process": owner.this(),
    }
    assert of_run(run, "run.json").status == "running"
    run["process"]["began"] = "1"
    assert of_run(run, "run.json").status == "interrupted"
    assert of_run(run | {"status": "complete"}, "run.json").status == "complete"
    assert of_run({key: value for key, value in run.items() if key != "process"}, "run.json").status == "running"
