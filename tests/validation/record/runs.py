"""Small finished runs on stand-in kernels, as a record is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from strata.kernels.paths import PATHS
from tests.validation.stub import StubExecutor, healthy
from validation.core.settings import Settings
from validation.operations.attention.kernels import Operation
from validation.operations.attention.operation import under_test
from validation.operations.kv_pack.case import Case
from validation.record.evidence import Evidence, Keeper
from validation.record.make import Plan
from validation.run.runner import run_case

PATH = "prompt_attention/int8/sm75"
CASES = (Case("signed_decades", 3, 30, 2), Case("uniform", 3, 40, 3, 16))

PROVENANCE: Mapping[str, Any] = {
    **dict.fromkeys(("capability", "multiprocessors", "memory_bytes", "driver", "cuda_runtime", "clock_khz")),
    **dict.fromkeys(("cupy", "nvrtc", "compiler")),
    "executor": "lanes",
    "device": "CPU x86_64",
    "rule": "sm_75",
    "python": "3.12.1",
    "numpy": "2.1.0",
    "system": "Linux x86_64",
    "made": "2030-01-31",
}


def plan(cases: Sequence[Case] = CASES, path: str = PATH) -> Plan:
    return Plan("quick", 3, (path,), tuple((path, case.text()) for case in cases))


def finished(
    folder: Path, cases: Sequence[Case] = CASES, path: str = PATH, **kernels: Operation
) -> tuple[list[dict[str, Any]], list[Evidence | None]]:
    """Results and evidence; the outputs stay in `folder`, which the test removes."""
    keeper = Keeper(folder)
    results = []
    for case in cases:
        results.append(
            run_case(case, PATHS[path], StubExecutor(), Settings(recorder=keeper), None, under_test(healthy(**kernels)))
        )
        keeper.ended()
    kept = [item and _moved(item, folder) for item in keeper.cases]
    keeper.__exit__(None, None, None)
    return results, kept


def _moved(item: Evidence, folder: Path) -> Evidence:
    """The evidence with its output outside of the directory that goes when the run ends."""
    file = folder / item.file.name
    file.write_bytes(item.file.read_bytes())
    return replace(item, file=file)
