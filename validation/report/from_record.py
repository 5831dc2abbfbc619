"""A parity record as a source of the report. Bytes are read as the verifier reads them, schema included."""

from __future__ import annotations

import json
from collections.abc import Mapping
from statistics import median
from typing import Any

from strata.executors.base import StrataError
from strata.gates.record import of_value
from strata.shown import shown_throughout
from validation.core.float_bits import float_of
from validation.record import canonical
from validation.record.verify import shape
from validation.report import commands
from validation.report.source import CaseView, Source, Timing, Verified

_FACTS = {
    "device": "device",
    "capability": "compute capability times ten",
    "multiprocessors": "multiprocessors",
    "memory_bytes": "memory, bytes",
    "clock_khz": "highest clock, kHz",
    "driver": "driver",
    "cuda_runtime": "CUDA runtime",
    "cupy": "CuPy",
    "nvrtc": "NVRTC",
    "compiler": "compiler of the prediction",
    "rule": "tensor-core rule",
    "system": "system",
    "python": "Python",
    "numpy": "NumPy",
    "made": "day, UTC",
}


def of_record(data: bytes, file: str) -> Source:
    """The source of a record.

    Parameters
    ----------
    data
        Its bytes.
    file
        What the file is called.

    Raises
    ------
    StrataError
        When the bytes are not those of a record.
    """
    value = canonical.decode(data)
    broken = shape(value)
    if broken:
        raise StrataError(f"{file}: {broken[0].reason}")
    name = canonical.name_of(data)
    told = value["provenance"]
    timings = {(item["path"], item["case"]): item for item in value["timings"]}
    executor = told["executor"]
    told_bits = value["identification"] or {}
    cases = [_case(case, timings.get((case["path"], case["case"])), told) for case in value["cases"]]
    facts = [("Strata", str(value["project"]))]
    facts += [(label, str(told[key])) for key, label in _FACTS.items() if told.get(key) is not None]
    code = sorted({(image["entry"], image["loaded"]) for image in value["images"]})
    said = [] if file == f"{name}.json" else [f"the file is called {file}, and a record by its SHA-256, {name}.json"]
    return Source(
        kind="record",
        name=name,
        device=told["device"],
        executor=executor,
        capability=told["capability"],
        status="complete",
        planned=value["plan"]["planned"],
        cases=cases,
        said=said,
        facts=facts,
        code=code,
        digests=value["sources"],
        profile=value["plan"]["profile"],
        when=told["made"],
        record=of_value(value, name, local=False),
        vectors=told_bits.get("vectors"),
        special=told_bits.get("special"),
    )


def of_outcome(data: bytes, file: str) -> Verified:
    """What `verify --json` wrote.

    Parameters
    ----------
    data
        The bytes.
    file
        What the file is called.

    Raises
    ------
    StrataError
        When it is something else.
    """
    try:
        value = shown_throughout(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise StrataError(f"{file} is not the output of `verify --json`: {str(error)[:80]}") from None
    if not isinstance(value, dict) or not isinstance(value.get("accepted"), bool):
        raise StrataError(f"{file} is not the output of `verify --json`: it says nothing of `accepted`")
    refusals = [item for item in value.get("refusals") or [] if isinstance(item, dict)]
    reasons = [f"{item.get('rule')}: {item.get('reason')}" for item in refusals]
    notes = [str(note) for note in value.get("notes") or []]
    accepted = value["accepted"] and not value.get("refusals")
    return Verified(str(value.get("name")), accepted, str(value.get("outcome")), reasons, notes, file)


def _case(value: Mapping[str, Any], timed: Mapping[str, Any] | None, told: Mapping[str, Any]) -> CaseView:
    wrong = [f"{check[0]}: {check[1]}" for check in value["checks"] if check[1] not in ("EXACT", "WITHIN_BOUND")]
    said = value["prediction"]
    return CaseView(
        value["path"],
        value["case"],
        value["verdict"],
        "; ".join(wrong[:3]),
        commands.of_case(value["path"], value["case"], commands.on(told["executor"], told["rule"] or "")),
        {check: float_of(bits) for check, bits in value["slack"].items()},
        None if said is None else said["compared"],
        None if said is None else said["differing"],
        _timing(timed and timed["new_ns"]),
        _timing(timed and timed["old_ns"]),
    )


def _timing(nanoseconds: Any) -> Timing | None:
    if not nanoseconds:
        return None
    times = [time / 1e6 for time in nanoseconds]
    return Timing(median(times), min(times), max(times))
