"""A `run.json` as a source of the report.

The file is the word of whoever sends it. Whether the run passed is worked out again from its cases; what the file
claims besides can only take that away. Its texts are shown, and its commands composed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from strata.executors.base import StrataError
from strata.shown import shown_throughout
from validation.numerics.ulps import BUCKETS
from validation.report import commands
from validation.report.fields import capability_of, count_of, digests_of, list_of, number, object_of, text_of, whole
from validation.report.source import COUNTS, CaseView, NearTies, Source, Timing
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


def of_run(value: Mapping[str, Any], name: str) -> Source:
    """The source of a parsed run.

    Parameters
    ----------
    value
        The run.
    name
        The name of the file.

    Raises
    ------
    StrataError
        Naming the field that is not as expected.
    """
    value, source = of_schema(value, name, SCHEMA, _case)
    plan = value.get("plan") if isinstance(value.get("plan"), dict) else {}
    assert isinstance(plan, dict)
    return replace(
        source,
        said=_said(value, len(source.cases)),
        missing=[(text_of(item, "path"), text_of(item, "case")) for item in list_of(value, "not_run", name)],
        profile=text_of(plan, "profile"),
        command=commands.of_run(text_of(value, "command")),
    )


def of_schema(
    value: Mapping[str, Any], name: str, schema: str, case_of: Callable[[Any, str], CaseView]
) -> tuple[Mapping[str, Any], Source]:
    """What runs of every schema tell.

    Parameters
    ----------
    value
        The run.
    name
        The name of the file.
    schema
        That it must be of.
    case_of
        What reads a case; the name of its place is for messages.

    Returns
    -------
    (Mapping, Source)
        The value with its texts made safe to show, and the source of it.

    Raises
    ------
    StrataError
        Naming the field that is not as expected.
    """
    try:
        value = shown_throughout(dict(value))
    except RecursionError:
        raise StrataError(f"{name} is nested too deep for a run") from None
    if value.get("schema") != schema:
        raise StrataError(f"{name}: schema is {value.get('schema')!r:.60}, expected {schema}")
    executor = object_of(value, "executor", name)
    cases = [case_of(item, f"{name}: case {i}") for i, item in enumerate(list_of(value, "cases", name))]
    facts = [(label, str(executor[key])) for key, label in _FACTS if executor.get(key) is not None]
    facts += [(key, str(value[key])) for key in ("system", "machine", "python", "numpy") if value.get(key) is not None]
    arch = text_of(executor, "arch")
    source = Source(
        kind="run",
        name=name,
        device=text_of(executor, "device") or arch or "an unnamed device",
        executor=text_of(executor, "executor"),
        capability=capability_of(executor.get("capability")),
        status=_status(value),
        planned=count_of(value, "planned", name),
        cases=cases,
        facts=facts,
        code=[("all", arch)] if arch else [],
        digests=digests_of(value.get("sources")),
        when=text_of(value, "started"),
    )
    return value, source


def _status(value: Mapping[str, Any]) -> str:
    """What the file says of itself, but that a running run whose process is no more was interrupted."""
    status = text_of(value, "status")
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
    for check in list_of(value, "checks", name):
        own = check.get("figures") if isinstance(check, dict) else None
        if not isinstance(own, dict):
            continue
        share = number(own.get("slack"))
        if share is not None:
            slack[text_of(check, "name")] = share
        if check.get("name") == "prediction":
            compared, differing = whole(own.get("compared")), whole(own.get("differing"))
    path, text = text_of(value, "path"), text_of(value, "case")
    return CaseView(
        path,
        text,
        text_of(value, "verdict"),
        text_of(value, "explain").partition(" | rerun: ")[0].removeprefix(f"{text_of(value, 'verdict')} {path} "),
        commands.of_case(path, text, text_of(value, "rerun")),
        slack,
        compared,
        differing,
        _timing(figures.get("device_new")),
        _timing(figures.get("device_old")),
        _counts(figures.get("ulps_new")),
        _counts(figures.get("ulps_old")),
        _ties(figures.get("near_ties")),
    )


def _ties(value: Any) -> NearTies | None:
    """What a case's figures say of selections; None where they say nothing or no whole numbers."""
    if not isinstance(value, dict):
        return None
    known = {name: count for name in COUNTS if (count := whole(value.get(name))) is not None}
    nearest = number(value.get("nearest"))
    return None if nearest is None or len(known) < len(COUNTS) else NearTies(nearest=nearest, **known)


def _timing(value: Any) -> Timing | None:
    if not isinstance(value, dict) or not isinstance(value.get("milliseconds"), list):
        return None
    times = [number(item) for item in value["milliseconds"]]
    known = [time for time in times if time is not None and 0 < time < math.inf]
    if not known or len(known) != len(times):
        return None
    return Timing(median(known), min(known), max(known))


def _counts(value: Any) -> Sequence[int]:
    if not isinstance(value, list) or len(value) > BUCKETS + 1:
        return ()
    return [whole(item) or 0 for item in value]
