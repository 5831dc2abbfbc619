"""A `run.json` of `python -m validation check` as a source of the report.

The file is the word of whoever sends it, like that of every run: what passed is worked out from its cases, texts are
shown, and commands composed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from strata.executors.base import StrataError
from validation.report import commands
from validation.report.fields import count_of, list_of, number, text_of, whole
from validation.report.from_run import of_schema
from validation.report.own import Fault, Own
from validation.report.source import CaseView, Source
from validation.run.run_file import CHECK_SCHEMA

#: Last words of checks that compare every bit of an output with one that is known; of integers the bound is one.
_BITS = ("bits", "prediction", "bound")


def of_check(value: Mapping[str, Any], name: str) -> Source:
    """The source of a parsed run of check.

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
    value, source = of_schema(value, name, CHECK_SCHEMA, _case)
    told = text_of(value, "command")
    said = [] if value.get("passed") is True or not source.cases else ["the file itself says that it did not pass"]
    if source.failed:
        said = []
    kernel = text_of(value, "kernel") or "a kernel without a name"
    missing = [(kernel, text_of(item, "case")) for item in list_of(value, "not_run", name)]
    return replace(
        source,
        profile=text_of(value, "profile"),
        command=commands.of_check(told),
        missing=missing,
        said=said,
        own=_own(value, kernel, name),
    )


def _own(value: Mapping[str, Any], kernel: str, name: str) -> Own:
    mutants = value.get("mutants")
    inputs, left_out = ({key: str(item) for key, item in _mapping(value, part)} for part in ("inputs", "left_out"))
    attested = value.get("attested") is True
    if mutants is None:
        return Own(kernel, attested, inputs, left_out)
    if not isinstance(mutants, dict):
        raise StrataError(f"{name}: mutants is a {type(mutants).__name__}, expected an object or none")
    faults = [_fault(item, f"{name}: mutant {i}") for i, item in enumerate(list_of(mutants, "trials", name))]
    made, planned = (count_of(mutants, key, name) for key in ("made", "planned"))
    return Own(kernel, attested, inputs, left_out, made, planned, faults)


def _mapping(value: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
    found = value.get(key)
    return list(found.items()) if isinstance(found, dict) else []


def _fault(value: Any, name: str) -> Fault:
    if not isinstance(value, dict):
        raise StrataError(f"{name} is a {type(value).__name__}, expected an object")
    texts = {key: text_of(value, key) for key in ("name", "kind", "old", "new", "fate", "check", "reason", "question")}
    return Fault(line=whole(value.get("line")) or 0, **texts)


def _case(value: Any, name: str) -> CaseView:
    if not isinstance(value, dict):
        raise StrataError(f"{name} is a {type(value).__name__}, expected an object")
    slack: dict[str, float] = {}
    compared: int | None = None
    differing: int | None = None
    for check in list_of(value, "checks", name):
        figures = check.get("figures") if isinstance(check, dict) else None
        last = text_of(check, "name").rpartition(" ")[2]
        if not isinstance(figures, dict) or last not in _BITS:
            continue
        share = number(figures.get("slack"))
        if share is not None:
            own = slack.get("bound", -1.0)
            slack["bound"] = share if share != share or share > own else own
        if figures.get("differing") is not None:
            compared = (compared or 0) + (whole(figures.get("compared")) or 0)
            differing = (differing or 0) + (whole(figures["differing"]) or 0)
    path, text, verdict = (text_of(value, key) for key in ("path", "case", "verdict"))
    title = f"{verdict} {path} {text_of(value, 'recipe')} "
    explain = text_of(value, "explain").partition(" | rerun: ")[0].removeprefix(title)
    return CaseView(
        path, text, verdict, explain, commands.of_check_case(text, text_of(value, "rerun")), slack, compared, differing
    )
