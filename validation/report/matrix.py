"""What the gate would make of the records of a report: every gated path against the architectures there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strata.device import LANES, Device, dotted, named
from strata.gates.evidence import Kind, concerns, kind
from strata.gates.gate import Decision, decide
from strata.gates.policy import POLICY, span
from strata.gates.record import Record
from strata.gates.sources import Sources, of_path
from strata.kernels.paths import PATHS, Path
from validation.report.read import Evidence
from validation.report.source import Source

#: What cards people have, as compute capabilities times ten; those of the records are added.
CAPABILITIES = (75, 80, 86, 89, 90, 100, 120)
CARDS = {
    75: "RTX 20, T4",
    80: "A100",
    86: "RTX 30",
    89: "RTX 40",
    90: "H100, H200",
    100: "B200",
    120: "RTX 50",
}


@dataclass(frozen=True)
class Cell:
    """A path on a device.

    Parameters
    ----------
    state
        `open`, `locked`, `surrogate`, `simulated` or `n/a`.
    reason, way
        What the gate says of it, one line each.
    """

    state: str
    reason: str
    way: str = ""


@dataclass(frozen=True)
class Matrix:
    """What the gate says of paths on devices.

    Parameters
    ----------
    columns
        Heading and what it stands for.
    rows
        A path and its cells.
    """

    columns: Sequence[tuple[str, str]]
    rows: Sequence[tuple[str, Sequence[Cell]]]


def matrix(evidence: Evidence) -> Matrix:
    """The matrix, as if every record of the report that no verifier refused were accepted."""
    records = [source.record for source in usable(evidence) if source.record is not None]
    made = {record.capability for record in records if record.capability is not None}
    made |= {source.capability for source in evidence.sources if source.capability is not None and source.kind == "run"}
    capabilities = sorted({*CAPABILITIES, *list(made)[:8]})
    devices = [(dotted(item), CARDS.get(item, ""), named(item)) for item in capabilities]
    columns = [(title, cards) for title, cards, _ in devices] + [("CPU", "lanes")]
    gated = [path for path in PATHS.values() if path.tier in POLICY.rules and path.operation not in POLICY.ungated]
    included: dict[str, list[str]] = {}  # by a kernel's file: paths of an operation share theirs
    rows = []
    for path in gated:
        sources = of_path(path, known=included)  # read once, since all devices are told of the same state
        cells = [cell(path, device, sources, records) for device in (*(device for _, _, device in devices), LANES)]
        rows.append((path.name, cells))
    return Matrix(columns, rows)


def usable(evidence: Evidence) -> list[Source]:
    """Records that no verifier refused and whose name is their own."""
    return [
        source
        for source in evidence.sources
        if source.record is not None and not source.said and (source.verified is None or source.verified.accepted)
    ]


def cell(path: Path, device: Device, sources: Sources, records: Sequence[Record]) -> Cell:
    """What the gate says of one path on one device.

    Parameters
    ----------
    path
        The path.
    device
        The device.
    sources
        What the path is made of.
    records
        The records that may prove it.
    """
    decision = decide(path, device, sources, records)
    if decision.open:
        # Were they accepted is what the whole matrix asks, and what its reader is told.
        return Cell("open", decision.reason.replace(" (accepted)", "", 1))
    if device.capability is None:
        return Cell("simulated", decision.reason, decision.way)
    lowest, highest = POLICY.rules[path.tier].serves
    if not lowest <= device.capability <= highest:
        served = dotted(lowest) if highest // 10 == lowest // 10 else span(POLICY.rules[path.tier].serves)
        return Cell("n/a", f"{path.tier} paths are for compute capability {served}")
    return Cell(_evidence(path, decision, records), decision.reason, decision.way)


def _evidence(path: Path, decision: Decision, records: Sequence[Record]) -> str:
    """`surrogate` or `simulated` when that is what the nearest record is of this path, else `locked`."""
    for record in records:
        if record.name == decision.record and concerns(record, path):
            found, _ = kind(record, path)
            return "locked" if found is Kind.ATTESTED else found.value
    return "locked"
