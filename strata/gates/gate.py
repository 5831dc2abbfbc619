"""Whether a path is open on a device: a pure function of records, of what the path is made of, and of the device.

A path is open if and only if some record proves this path, as it is now, for this device. What a record proves is
worked out here from its cases, never read from a summary. More records never close a path, and their order does not
matter; a changed byte of what the path is made of closes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from strata.device import Device, dotted
from strata.executors.lanes.rules import RULES
from strata.gates.evidence import concerns, refusal
from strata.gates.policy import POLICY, Policy, span
from strata.gates.record import Record
from strata.gates.sources import Sources
from strata.kernels import registry, tiers
from strata.kernels.path import Path

#: What makes a record, and so opens a path.
COMMAND = "nox -s parity -- --record"


def command(path: Path) -> str:
    """What makes a record that a path needs: without a choice, one of the paths of `COMMAND`'s own operation."""
    return COMMAND if path.operation == registry.first_gated() else f"{COMMAND} --paths '{path.operation}/*'"


@dataclass(frozen=True)
class Decision:
    """What the gate says of a path on a device.

    Parameters
    ----------
    open
        Whether the path may serve.
    reason
        One line that begins with `open` or `locked`.
    way
        One line on what would open it, "" when it is open.
    record
        The name of the record that opened it, or of the one that came nearest; None without one.
    doubt
        What nobody knows of an open path on that device, "" for nothing; it is a part of the reason.
    """

    open: bool
    reason: str
    way: str = ""
    record: str | None = None
    doubt: str = ""

    @property
    def line(self) -> str:
        """Reason and way in one."""
        return f"{self.reason}; {self.way}" if self.way else self.reason


def _unpredicted(path: Path, device: Device, record: Record) -> str:
    """What an open path's line adds on a device whose tensor-core rule nobody knows, unless a record of its own kind
    opened it: the record proves bounds on another kind of card, and no bits here. "" where all is known.

    Experts have no such rule, since their dots are exact integers, nor have paths without tensor cores.
    """
    known = f"sm_{device.capability}" in RULES or record.capability == device.capability
    if known or not (registry.find(path.operation).rounded_sums and tiers.find(path.tier).tensor_cores):
        return ""
    return f"which tensor-core rule {device.dotted} follows is not known, so no bits are predicted there"


def decide(
    path: Path, device: Device, sources: Sources, records: Iterable[Record], policy: Policy = POLICY
) -> Decision:
    """Whether a path is open on a device.

    This is a pure function, and nothing is raised, whatever a record holds.

    Parameters
    ----------
    path
        The path.
    device
        The device.
    sources
        What the path is made of here.
    records
        The records that may prove it.
    policy
        What is asked of a record.
    """
    rule = policy.rules.get(path.tier)
    if rule is None or path.operation in policy.ungated:
        what = f"{path.tier} paths need" if rule is None else f"{path.operation} replaces nothing and needs"
        return Decision(True, f"open: {what} no record")
    way = f"a card of compute capability {span(rule.recorded)} opens it by `{command(path)}`"
    if device.capability is None:
        return Decision(False, f"locked: simulated: {device.name} proves nothing of a card", way)
    lowest, highest = rule.serves
    elsewhere = ""
    if not lowest <= device.capability <= highest:
        served = dotted(lowest) if highest // 10 == lowest // 10 else span(rule.serves)
        elsewhere = f"{path.tier} paths serve compute capability {served}, this is {dotted(device.capability)}; "
    refused: list[tuple[int, bool, str, str]] = []
    proving: list[tuple[bool, str, Record]] = []
    for record in records:
        if concerns(record, path):
            found = refusal(record, path, device, sources, rule, policy)
            if found is None:
                proving.append((record.local, record.name, record))
            else:
                refused.append((found[0], record.local, record.name, found[1]))
    if proving:
        # Those that name this device's own kind first, then accepted ones, so that every machine names the same.
        record = min(proving, key=lambda item: (item[2].capability != device.capability, *item[:2]))[2]
        origin = "this machine's own" if record.local else "accepted"
        proof = f"record {record.short}, which says compute capability {dotted(record.capability or 0)} ({origin})"
        if elsewhere:
            return Decision(False, f"locked: {elsewhere}{proof}", "a device of that kind runs it", record.name)
        doubt = _unpredicted(path, device, record)
        return Decision(True, f"open: {proof}" + (f"; {doubt}" if doubt else ""), "", record.name, doubt)
    reason = f"locked: {elsewhere}no accepted record that says compute capability {span(rule.recorded)}"
    if not refused:
        return Decision(False, reason, way)
    nearest = max(refused)
    return Decision(False, f"{reason}; {nearest[3]}", way, nearest[2])
