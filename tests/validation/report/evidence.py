"""Runs and records for the tests of the report, made here and not measured."""

from __future__ import annotations

from typing import Any

from strata.executors.base import source_digests
from validation.run.run_file import SCHEMA

PATHS = ("prompt_attention/q4_0/sm75", "prompt_attention/q4_0/sm80")
HOSTILE = (
    '</title></svg></code><script>alert(1)</script><img src=x onerror=\'x\'>" onload="y" $\\frac{1}$ \u202e\ud800\x00'
)


def case(path: str = PATHS[0], verdict: str = "WITHIN_BOUND", slack: Any = 0.25, seed: int = 1) -> dict[str, Any]:
    """A case of a run, with every figure that the report reads."""
    text = f"recipe=uniform seed={seed} context=64 queries=8 page=4 kv=2 group=12 top=2051"
    explain = "" if verdict in ("EXACT", "WITHIN_BOUND") else f"{verdict} {path} bound: reason {seed} | rerun: x"
    return {
        "case": text,
        "recipe": "uniform",
        "path": path,
        "verdict": verdict,
        "explain": explain,
        "rerun": f"python -m validation parity --executor lanes --paths {path} --case '{text}'",
        "checks": [
            {"name": "bound", "verdict": verdict, "reason": "", "figures": {"slack": slack}},
            {"name": "baseline bound", "verdict": "WITHIN_BOUND", "reason": "", "figures": {"slack": 0.125}},
            {"name": "prediction", "verdict": "EXACT", "reason": "", "figures": {"compared": 4096, "differing": 0}},
        ],
        "figures": {
            "ulps_new": [10, 5, 1],
            "ulps_old": [8, 7, 0, 1],
            "device_new": {"milliseconds": [1.0, 1.5, 1.25], "median": 1.25},
            "device_old": {"milliseconds": [4.0, 5.0, 4.5], "median": 4.5},
        },
        "seconds": {},
    }


def run(cases: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """A run that is complete and has these cases."""
    passed = all(item["verdict"] in ("EXACT", "WITHIN_BOUND") for item in cases) and bool(cases)
    return {
        "schema": SCHEMA,
        "status": "complete",
        "passed": passed,
        "controls": 800,
        "failed": [],
        "command": "python -m validation parity",
        "started": "2026-01-01T00:00:00+00:00",
        "executor": {"executor": "cuda", "arch": "sm_90", "device": "Test Card", "capability": "9.0"},
        "sources": source_digests(),
        "plan": {"profile": "quick", "seed": 1, "rule": "sm_90"},
        "readings": {"agree": True},
        "planned": len(cases),
        "ledger": {"ok": True, "drifts": []},
        "cases": cases,
        "not_run": [],
        **changes,
    }
