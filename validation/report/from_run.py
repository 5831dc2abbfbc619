"""A `run.json` as a source of the report.

The file is the word of whoever sends it. Whether the run passed is worked out again from its cases; what the file
claims besides can only take that away. Its texts are shown, and its commands composed again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from strata.executors.base import StrataError
from strata.shown import shown_throughout
from validation.numerics.ulps import BUCKETS
from validation.report import commands
from validation.report.source import CaseView, Source, Timing
from validation.run import owner
from validation.run.run_file import SCHEMA

_FACTS = (
    ("device", "device"),
    ("capability", "compute capability"),
    ("multiprocessors", "multiprocessors"),
    ("memory_bytes", "memory, bytes"),
    ("driver", "driver"),
    ("cuda_runtime", "CUDA runtime"),
    ("cupy", "CuPy"),
    ("nvrtc", "NVRTC"),
    ("arch", "compiled for"),
    ("compiler", "compiler"),
    ("rule", "tensor-core rule"),
    ("flavor", "build"),
)
_LONGEST_LIST = 100_000


def of_run(value: Mapping[str, Any], name: str) -> Source:
    """The source of a parsed run. Raises StrataError naming the field that is not as expected."""
    try:
        value = shown_throughout(dict(value))
    except RecursionError:
        raise StrataError(f"{name} is nested too deep for a run") from None
    if value.get("schema") != SCHEMA:
        raise StrataError(f"{name}: schema is {value.get('schema')!r:.60}, expected {SCHEMA}")
    executor = _object(value, "executor", name)
    cases = [_case(item, f"{name}: case {i}") for i, item in enumerate(_list(value, "cases", name))]
    missing = [(_text(item, "path"), _text(item, "case")) for item in _list(value, "not_run", name)]
    facts = [(label, str(executor[key])) for key, label in _FACTS if executor.get(key) is not None]
    facts += [(key, str(value[key])) for key in ("system", "machine", "python", "numpy") if value.get(key) is not None]
    plan = value.get("plan") if isinstance(value.get("plan"), dict) else {}
    assert isinstance(plan, dict)
    arch = _text(executor, "arch")
    return Source(
        kind="run",
        name=name,
        device=_text(executor, "device") or arch or "an unnamed device",
        executor=_text(executor, "executor"),
        capability=_capability(executor.get("capability")),
        status=_status(value),
        planned=_count(value, "planned", name),
        cases=cases,
        said=_said(value, len(cases)),
        missing=missing,
        facts=facts,
        code=[("all", arch)] if arch else [],
        digests=_digests(value.get("sources")),
        profile=_text(plan, "profile"),
        command=commands.of_run(_text(value, "command")),
        when=_text(value, "started"),
    )


def _status(value: Mapping[str, Any]) -> str:
    """What the file says of itself, but that a running run whose process is no more was interrupted."""
    status = _text(value, "status")
    return "interrupted" if status == "running" and owner.ended(value.get("process")) else status


def _said(value: Mapping[str, Any], count: int) -> list[str]:
    """What keeps a run from passing besides verdicts of its cases, a line each."""
    said = []
    failed = value.get("failed")
    if failed:
        lines = failed if isinstance(failed, list) else [failed]
        said.append(f"the harness failed {len(lines)} of its own controls, the first: {lines[0]}")
    elif not value.get("controls"):
        said.append("the harness was not asked its own controls")
    readings = value.get("readings")
    if not isinstance(readings, dict) or readings.get("agree") is not True:
        said.append("no single rule of the card's arithmetic explains all of its bits")
    ledger = value.get("ledger")
    if isinstance(ledger, dict) and ledger.get("ok") is not True:
        said.append(
            f"the slack ledger disagrees: {_drifts(ledger)} (it keeps how much of their bounds kernels use, and"
            f" what"
            " it does not know is no pass until somebody accepts it)"
        )
    if value.get("passed") is not True and not said and count:
        said.append("the file itself says that the run did not pass")
    return said


def _drifts(ledger: Mapping[str, Any]) -> str:
    drifts = [drift for drift in ledger.get("drifts") or [] if isinstance(drift, dict)]
    unknown = [drift for drift in drifts if not drift.get("figure")]
    moved = len(drifts) - len(unknown)
    parts = [f"it had no figures of {len(unknown)} families of cases"] if unknown else []
    parts += [f"{moved} figures moved"] if moved else []
    return " and ".join(parts) or "no reason is given"


def _case(value: Any, name: str) -> CaseView:
    if not isinstance(value, dict):
        raise StrataError(f"{name} is a {type(value).__name__}, expected an object")
    figures = value.get("figures") if isinstance(value.get("figures"), dict) else {}
    assert isinstance(figures, dict)
    slack: dict[str, float] = {}
    compared: int | None = None
    differing: int | None = None
    for check in _list(value, "checks", name):
        own = check.get("figures") if isinstance(check, dict) else None
        if not isinstance(own, dict):
            continue
        share = _number(own.get("slack"))
        if share is not None:
            slack[_text(check, "name")] = share
        if check.get("name") == "prediction":
            compared, differing = _whole(own.get("compared")), _whole(own.get("differing"))
    path, text = _text(value, "path"), _text(value, "case")
    return CaseView(
        path,
        text,
        _text(value, "verdict"),
        _text(value, "explain").partition(" | rerun: ")[0].removeprefix(f"{_text(value, 'verdict')} {path} "),
        commands.of_case(path, text, _text(value, "rerun")),
        slack,
        compared,
        differing,
        _timing(figures.get("device_new")),
        _timing(figures.get("device_old")),
        _counts(figures.get("ulps_new")),
        _counts(figures.get("ulps_old")),
    )


def _timing(value: Any) -> Timing | None:
    if not isinstance(value, dict) or not isinstance(value.get("milliseconds"), list):
        return None
    times = [_number(item) for item in value["milliseconds"]]
    known = [time for time in times if time is not None and 0 < time < math.inf]
    if not known or len(known) != len(times):
        return None
    return Timing(median(known), min(known), max(known))


def _counts(value: Any) -> Sequence[int]:
    if not isinstance(value, list) or len(value) > BUCKETS + 1:
        return ()
    return [_whole(item) or 0 for item in value]


def _number(value: Any) -> float | None:
    """A float, also of the texts that stand for what JSON has no number for."""
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _count(value: Mapping[str, Any], key: str, name: str) -> int:
    found = _whole(value.get(key))
    if found is None:
        raise StrataError(f"{name}: {key} is {value.get(key)!r:.60}, expected a whole number")
    return found


def _object(value: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
    found = value.get(key)
    if not isinstance(found, dict):
        raise StrataError(f"{name}: {key} is a {type(found).__name__}, expected an object")
    return found


def _list(value: Mapping[str, Any], key: str, name: str) -> list[Any]:
    found = value.get(key)
    if not isinstance(found, list) or len(found) > _LONGEST_LIST:
        raise StrataError(f"{name}: {key} is a {type(found).__name__}, expected a list of at most {_LONGEST_LIST:,}")
    return found


def _digests(value: Any) -> dict[str, str]:
    return {key: item for key, item in value.items() if isinstance(item, str)} if isinstance(value, dict) else {}


def _capability(value: Any) -> int | None:
    """`9.0` as 90."""
    if not isinstance(value, str):
        return None
    major, dot, minor = value.partition(".")
    known = dot and major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit() and len(value) < 6
    return int(major) * 10 + int(minor) if known else None
