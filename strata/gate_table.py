"""What the gate and dispatch say of every gated path on some devices: a summary, a block for each path, or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from strata.device import Device
from strata.dispatch import Served, serve
from strata.gates.gate import Decision
from strata.gates.installed import InstalledGate
from strata.kernels.paths import PATHS
from strata.switches import Switches


@dataclass(frozen=True)
class Row:
    """One path on one device.

    Parameters
    ----------
    path
        The name of a gated path.
    decision
        What the gate says of it there.
    served
        What serves its operation and mode there.
    """

    path: str
    decision: Decision
    served: Served

    @property
    def remark(self) -> str:
        """What keeps the path from serving besides the gate (a switch, the compiler, the device); "" for nothing."""
        if self.served.path is None:
            return self.served.reason
        own = next((one for one in self.served.refused if one.path == self.path and one.cause != "gate"), None)
        return "" if own is None else f"{self.served.path} instead of {self.path}: {own.why}"

    @property
    def told(self) -> dict[str, object]:
        """What serves, for programs: the reason tells of each path that was refused."""
        return {name: value for name, value in asdict(self.served).items() if name != "refused"}


#: What leads from the summary to the rest.
EACH = "a reason for each path: `strata gate --each`"


def _summary(rows: Sequence[Row]) -> list[str]:
    """How many paths of each operation and tier are open, what serves, and why the others are locked and until when."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        path = PATHS[row.path]
        groups.setdefault((path.operation, path.tier), []).append(row)
    lines = []
    for (operation, tier), own in groups.items():
        locked = [row.decision for row in own if not row.decision.open]
        servers = dict.fromkeys(_kind(row.served.path) for row in own)
        lines.append(
            f"  {operation}/*/{tier}: {len(own) - len(locked)} of {len(own)} open, served by {', '.join(servers)}"
        )
        for word, said in (
            ("why", [decision.reason.partition(": ")[2] for decision in locked]),
            ("way", [decision.way for decision in locked]),
            ("but", [row.decision.doubt for row in own if row.decision.doubt]),
            ("but", [row.remark for row in own if row.remark]),
        ):
            if said:
                others = len(set(said)) - 1
                more = f" (and {others} more)" if others else ""
                lines.append(f"    {word}: {said[0]}{more}")
    return lines


def _kind(path: str | None) -> str:
    """All modes of a path's operation and tier; `nothing` without one."""
    return "nothing" if path is None else f"{PATHS[path].operation}/*/{PATHS[path].tier}"


@dataclass(frozen=True)
class Table:
    """What the gate and dispatch say of every gated path on some devices.

    Parameters
    ----------
    devices
        Each device with a row for each gated path, in the order of the table of paths.
    switches
        What the environment asks for.
    accepted, local
        How many records there are that everybody has, and of this machine alone.
    problems
        Lines about switches and about files that are no records.
    """

    devices: tuple[tuple[Device, tuple[Row, ...]], ...]
    switches: Switches
    accepted: int
    local: int
    problems: tuple[str, ...]

    @staticmethod
    def of(devices: Sequence[Device], switches: Switches, gate: InstalledGate) -> Table:
        """The table of some devices.

        Parameters
        ----------
        devices
            The devices, each of which gets a row for every gated path.
        switches
            What the environment asks for.
        gate
            The gate of this installation, with its records.
        """
        gated = [path for path in PATHS.values() if path.baseline is not None]
        local = sum(record.local for record in gate.store.records)
        return Table(
            tuple(
                (
                    device,
                    tuple(
                        Row(path.name, gate(path, device), serve(path.operation, path.mode, device, switches, gate))
                        for path in gated
                    ),
                )
                for device in devices
            ),
            switches,
            len(gate.store.records) - local,
            local,
            (*switches.problems, *gate.store.problems),
        )

    def text(self, each: bool = False) -> str:
        """The table for people.

        Parameters
        ----------
        each
            Whether every path has three or four lines of its own. Otherwise there is a summary for each operation and
            tier.
        """
        lines = [f"records: {self.accepted} accepted, {self.local} of this machine"]
        lines += [f"switch: {name}={value}" for name, value in self.switches.values.items()]
        lines += [f"switch: {note}" for note in self.switches.notes]
        lines += [f"problem: {problem}" for problem in self.problems]
        for device, rows in self.devices:
            lines += ["", device.title]
            if not each:
                lines += _summary(rows)
                continue
            width = max(len(row.path) for row in rows)
            for row in rows:
                state = "open" if row.decision.open else "locked"
                lines.append(f"  {row.path:<{width}}  {state:<6}  served by {row.served.path or 'nothing'}")
                lines.append(f"    why: {row.decision.reason.partition(': ')[2]}")
                if row.decision.way:
                    lines.append(f"    way: {row.decision.way}")
                if row.remark:
                    lines.append(f"    but: {row.remark}")
        return "\n".join(lines if each else [*lines, "", EACH])

    def json(self) -> str:
        """For programs: one object, indented."""
        value = {
            "records": {"accepted": self.accepted, "local": self.local},
            "switches": dict(self.switches.values),
            "problems": list(self.problems),
            "devices": [
                {
                    "name": device.name,
                    "capability": None if device.capability is None else device.dotted,
                    "paths": [{"path": row.path, **asdict(row.decision), "served": row.told} for row in rows],
                }
                for device, rows in self.devices
            ],
        }
        return json.dumps(value, indent=1)
