"""What one record says of one path: which kind of evidence it is, and why it does not prove the path, if it does not.

- attested: it says that the tier's machine code, made by the project's compiler, ran on a device that the tier is for;
- surrogate: it says that something else ran on a card, such as sm75 code on a newer one. That shows indices, layout and
  order, and nothing of the tier's own tensor core; it opens nothing, whatever the policy;
- simulated: it says that the CPU ran it (lanes). It opens nothing, whatever the policy.

A record says so, and nobody else does: where a run took place cannot be recomputed (docs/record.md).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from enum import Enum

from strata.device import Device, dotted
from strata.gates.policy import Policy, Rule, span
from strata.gates.record import CaseRun, Image, Record
from strata.gates.sources import Sources, roots
from strata.kernels import tiers
from strata.kernels.path import Path

#: The verdicts that pass.
PASSED = ("EXACT", "WITHIN_BOUND")


class Kind(Enum):
    """How much a record says of a tier's hardware."""

    ATTESTED = "attested"
    SURROGATE = "surrogate"
    SIMULATED = "simulated"


def concerns(record: Record, path: Path) -> bool:
    """Whether a record says anything of a path, or promised to.

    Parameters
    ----------
    record
        The record.
    path
        The path.
    """
    return path.name in record.plan_paths or any(case.path == path.name for case in record.cases)


def kind(record: Record, path: Path) -> tuple[Kind, str]:
    """The kind of evidence that a record is for a path.

    Parameters
    ----------
    record
        The record.
    path
        The path.

    Returns
    -------
    (Kind, str)
        The kind, and one line why it is no better than that, "" when it is attested.
    """
    who = f"record {record.short}"
    if record.executor != "cuda" or record.capability is None:
        return Kind.SIMULATED, (f"simulated: {who} ran on the CPU (lanes), which is no evidence for a card")
    at, tier = dotted(record.capability), tiers.find(path.tier)
    for image in launched(record, path):
        code = _machine_code(image)
        if record.capability > tier.serves[1]:
            ran = f"sm_{tier.number}" if code is None else image.loaded
            return Kind.SURROGATE, (
                f"surrogate: {who} ran {ran} code on compute capability {at}, which is no evidence for {tier.hardware}"
            )
        if code is None:
            return Kind.SURROGATE, (
                f"surrogate: {who} ran {image.loaded}, compiled for {image.arch}, which is no evidence for machine code"
            )
        if code // 10 != record.capability // 10 or code > record.capability:
            return Kind.SURROGATE, f"surrogate: {who} says {image.loaded} ran on compute capability {at}, which cannot"
        if code < path.min_capability:
            return Kind.SURROGATE, f"surrogate: {who} ran {image.loaded} code, which cannot hold {path.tier} paths"
    return Kind.ATTESTED, ""


def launched(record: Record, path: Path) -> list[Image]:
    """The images of a path's own kernels that the path's cases launched.

    Parameters
    ----------
    record
        The record, whose images they are.
    path
        The path.
    """
    own = roots(path)
    indices = sorted({index for case in _cases(record, path) for index in case.images})
    return [image for image in (record.images[i] for i in indices) if own & image.sources]


def refusal(
    record: Record, path: Path, device: Device, sources: Sources, rule: Rule, policy: Policy
) -> tuple[int, str] | None:
    """Why a record does not prove a path for a device.

    Parameters
    ----------
    record
        The record, which concerns the path.
    path
        The path.
    device
        The device.
    sources
        What the path is made of here.
    rule
        Which devices the path's tier serves, and which its records may name.
    policy
        Which cases a record must hold.

    Returns
    -------
    (int, str) or None
        How far the record got, a larger number for farther, and one line; None when it proves the path.
    """
    who, cases = f"record {record.short}", _cases(record, path)
    found, why = kind(record, path)
    if found is not Kind.ATTESTED:
        return (1 if found is Kind.SIMULATED else 2), why
    capability = record.capability or 0
    lowest, highest = rule.recorded
    if not lowest <= capability <= highest:
        return 3, f"{who} says compute capability {dotted(capability)}, expected {span(rule.recorded)}"
    if record.local and (record.device, capability) != (device.name, device.capability):
        return 4, f"{who} is {record.device}'s own and counts there alone until it is accepted"
    changed = sources.changed(record.sources, record.codebooks)
    if changed:
        return 5, f"{who} is of another {', '.join(changed)}"
    for image in launched(record, path):
        if sources.programs and image.program not in sources.programs:
            return 6, f"{who} ran {image.program[0]} with other macros than this version compiles it with"
        if image.flags != sources.flags:
            return 6, f"{who} was compiled with other flags ({' '.join(image.flags)})"
    broken = _broken_plan(record, path)
    if broken:
        return 7, f"{who} {broken}"
    idle = [case for case in cases if not _ran(record, path, case)]
    if idle:
        return 8, f"{who} shows no launch of the path's kernel in {idle[0].text}"
    failed = [case for case in cases if case.verdict not in PASSED]
    if failed:
        return (
            9,
            f"{who} failed {len(failed)} of {len(cases)} cases, the first {failed[0].text}: {failed[0].verdict}",
        )
    missing = policy.missing(path.operation, (case.text for case in cases))
    if missing:
        return 10, f"{who} lacks the required case of {missing}"
    unseen = sorted(sources.programs - {image.program for image in launched(record, path)})
    if unseen:
        entry, macros = unseen[0]
        said = " ".join(f"{name}={value}" for name, value in macros)
        return 11, f"{who} never ran {entry}[{said}], which this path may launch"
    return None


def plan_digest(planned: Sequence[tuple[str, str]]) -> str:
    """SHA-256 of the canonical JSON of [[path, case], ...], printable ASCII, in order."""
    return hashlib.sha256(json.dumps([list(pair) for pair in planned], separators=(",", ":")).encode()).hexdigest()


def _broken_plan(record: Record, path: Path) -> str:
    """How the cases differ from the plan; "" when every planned case is there, once."""
    pairs = [(case.path, case.text) for case in record.cases]
    if len(pairs) != record.planned:
        return f"planned {record.planned} cases and holds {len(pairs)}"
    if len(set(pairs)) != len(pairs):
        return "holds a case twice"
    if plan_digest(pairs) != record.plan_digest:
        return "holds other cases than it planned"
    if path.name not in record.plan_paths or not any(name == path.name for name, _ in pairs):
        return f"planned no case of {path.name}"
    return ""


def _cases(record: Record, path: Path) -> list[CaseRun]:
    return [case for case in record.cases if case.path == path.name]


def _ran(record: Record, path: Path, case: CaseRun) -> bool:
    return any(f"{path.operation}.cu" in record.images[index].sources for index in case.images)


def _machine_code(image: Image) -> int | None:
    """The capability, times ten, of machine code that was compiled and loaded as such; None for anything else."""
    match = re.fullmatch(r"sm_([0-9]{2,3})", image.loaded)
    return int(match[1]) if match and image.arch == image.loaded else None
